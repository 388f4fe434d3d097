import { checkInteger } from '../common/validate.js';
import type { CompiledPolicy } from './policy.js';
import type { PolicySet } from './store.js';
import { refusal } from './together.js';
import { factOf, variant } from './variant.js';

/** The dimension of the tenants of a shared limit. Its keys are in the slot of the limit's key. No user's dimension has a slash. */
export function tenantDimension(by: string, share: string): string {
  return `${by}/${share}`;
}

/** The dimension of a policy's tenants, or undefined if its limit is not shared. */
export function tenantsOf({ by, share }: CompiledPolicy): string | undefined {
  return share === undefined ? undefined : tenantDimension(by, share);
}

/** The dimension of the limit's key, if a dimension is one of tenants. */
export function limitDimension(name: string): string | undefined {
  const slash = name.indexOf('/');
  return slash < 0 ? undefined : name.slice(0, slash);
}

/** Whether requests have keys of a dimension: one of the names, or a part of the name of a dimension of tenants. Each request is checked. */
export function hasDimension(names: readonly string[], name: string): boolean {
  for (const each of names) {
    if (each === name) return true;
    const slash = each.indexOf('/');
    if (slash < 0) continue;
    if (slash === name.length && each.startsWith(name)) return true;
    if (slash === each.length - name.length - 1 && each.endsWith(name)) return true;
  }
  return false;
}

/** The dimensions for which a request has keys of its own. */
export function plainDimensions(names: readonly string[]): string[] {
  return [...new Set(names.flatMap((name) => name.split('/')))];
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` unless a weight is a whole number from 1 to 1,000 */
export function checkWeight(option: string, weight: unknown): number {
  return checkInteger(option, weight, 1, 1000);
}

/** The key of a tenant in a decision. Requests without a key of the dimension are one tenant. */
export function tenantKey(key: string | undefined): string {
  return key === undefined ? '' : `=${key}`;
}

/** The positions of a shared policy and its hidden policies in a set. */
export interface SharedPolicy {
  readonly policy: number;
  readonly pool: number;
  readonly tenant: number;
}

/** The shared policies of a set. The hidden policies, a pool and a tenant for each of them, have their order. */
export const sharedOf = factOf(({ policies }): readonly SharedPolicy[] => {
  const positions = [...policies.keys()];
  const hidden = positions.filter((i) => policies[i]!.isHidden);
  const shared = positions.filter((i) => policies[i]!.share !== undefined);
  return shared.map((policy, n) => ({ policy, pool: hidden[2 * n]!, tenant: hidden[2 * n + 1]! }));
});

/** The weight of a tenant in the first shared policy of a set, or 1. */
export function weightIn(set: PolicySet): number {
  const [first] = sharedOf(set);
  return first ? set.policies[first.tenant]!.params['weight']! : 1;
}

export function visiblePolicies(policies: readonly CompiledPolicy[]): readonly CompiledPolicy[] {
  return policies.some(({ isHidden }) => isHidden) ? policies.filter(({ isHidden }) => !isHidden) : policies;
}

export const visibleSet = (set: PolicySet): PolicySet => variant(set, 'visible', visibleFields);

function visibleFields(set: PolicySet): Partial<PolicySet> | undefined {
  const policies = visiblePolicies(set.policies);
  return policies === set.policies ? undefined : { policies };
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` if options about slots contradict the slot of a shared limit */
export function checkSharedSlots(
  policies: readonly CompiledPolicy[],
  { slotBy, acrossSlots }: { readonly slotBy: string | undefined; readonly acrossSlots: boolean },
): void {
  if ((slotBy === undefined && !acrossSlots) || !policies.some(({ isHidden }) => isHidden)) return;
  const [option, value] = slotBy === undefined ? ['acrossSlots', acrossSlots] : ['slotBy', slotBy];
  throw refusal('sharedSlots', option, value);
}
