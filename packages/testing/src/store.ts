import { contractChecks } from './contract.js';
import type { Check } from './check.js';
import { identityChecks, type IdentityOptions } from './identity.js';
import { lawChecks } from './laws.js';

/** All checks of a store: the examples of the contract, the laws on random traces, and the same answers as a memory store. */
export function storeChecks(options: IdentityOptions): Check[] {
  return [...contractChecks(options), ...lawChecks(options), ...identityChecks(options)];
}
