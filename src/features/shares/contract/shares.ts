import { checkInteger } from '../../../common/validate.js';
import {
  algorithms,
  POLICY_TABLE,
  SHARES_KERNEL,
  SLOT_SHARES_KERNEL,
  traitsOf,
  type Policy,
} from '../../../algorithms/index.js';
import { invalidOption, show } from '../../../common/errors.js';
import { checkDimension } from '../../../contract/key.js';
import type { CompiledPolicy } from '../../../contract/policy.js';
import type { PolicySet } from '../../../contract/store.js';
import { refusal } from '../../../contract/together.js';
import { factOf, variant } from '../../../contract/variant.js';

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

/** The dimension whose keys share the limit. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function shareOf(what: string, policy: Policy, by: string): string | undefined {
  const { share, weight, count } = policy as Policy & { share?: string; weight?: number; count?: string };
  if (share === undefined) {
    if (weight === undefined) return undefined;
    throw invalidOption(
      `${what}.weight`,
      weight,
      "Only tenants have a weight. Add share: 'tenant', or omit `weight`.",
    );
  }
  POLICY_TABLE.weight.read(`${what}.weight`, weight);
  checkDimension(`${what}.share`, share);
  if (share === by) {
    const fix = `It is also the dimension of the limit's key. Use the dimension of the tenants: by: 'provider', share: 'tenant'.`;
    throw invalidOption(`${what}.share`, share, fix);
  }
  if (count === 'attempts') throw refusal('sharedAttempts', `${what}.count`, count);
  if (policy.thresholds !== undefined)
    throw refusal('sharedThresholds', `${what}.thresholds`, policy.thresholds);
  return share;
}

/** The hidden policies of a shared policy: its pool and a tenant. */
function hiddenOf(what: string, policy: CompiledPolicy): CompiledPolicy[] {
  const { name, by, share, source } = policy;
  if (share === undefined) return [];
  const kernel = policy.traits.holdsSlots ? SLOT_SHARES_KERNEL : SHARES_KERNEL;
  const { tag, compile } = algorithms[kernel];
  const { params, shape, traits } = compile(what, { ...source });
  const hidden = (suffix: string): CompiledPolicy =>
    Object.freeze({
      ...policy,
      share: undefined,
      isHidden: true,
      by: suffix === 'pool' ? by : tenantDimension(by, share),
      kernel,
      params: Object.freeze(params),
      traits: Object.freeze({ ...policy.traits, ...traits, ...traitsOf(kernel) }),
      id: `${tag}@${shape}:${name}`,
    });
  return [hidden('pool'), hidden('tenant')];
}

/** Refuses slots that tenants of different dimensions share. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function checkSlotTenants(policies: readonly CompiledPolicy[]): void {
  const [first, ...others] = policies.filter(({ share, traits }) => share !== undefined && traits.holdsSlots);
  const other = others.find(({ share }) => share !== first!.share);
  if (!other) return;
  const fix = `The slots of '${first!.name}' are shared by '${first!.share}', and a lease names one tenant. Give '${other.name}' a limiter of its own.`;
  throw invalidOption(`policy '${other.name}': share`, other.share, fix);
}

/** The policies, followed by the hidden policies of those that are shared. */
export function withHidden(policies: readonly CompiledPolicy[]): readonly CompiledPolicy[] {
  return policies.concat(policies.flatMap((policy) => hiddenOf(`policy ${show(policy.name)}`, policy)));
}
