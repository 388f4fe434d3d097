import type { Policy } from '../contract/policy.js';
import type { Limits } from './limits.js';

/** The policies for requests without a tier, and of each tier. */
export function setsOf({
  policies,
  tiers,
}: Limits): (readonly [tier: string | undefined, policies: readonly Policy[]])[] {
  return [[undefined, policies] as const, ...tiers].filter(([, some]) => some.length > 0);
}
