import type { TenantState } from '../algorithms/shares/sharing.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { Policy } from '../contract/policy.js';
import { BAN_TAG, kindOfHash } from '../stores/keys.js';
import type { Limits } from './limits.js';
import type { FoundKey, Owner, Search, State } from './state.js';

/** A limit that tenants share: the dimensions of its keys and of their tenants. */
export interface SharedLimit {
  readonly by: string;
  readonly share: string;
  /** Whether tenants share slots. Such a tenant has no state of its own. */
  readonly ofSlots: boolean;
}

/** The key of a shared limit that a tenant uses. */
export interface Within {
  readonly by: string;
  readonly key: string;
}

/** The most keys of shared limits that are asked about a tenant. */
const MAX_LIMIT_KEYS = 200;

export function sharedLimits(policies: readonly Policy[]): SharedLimit[] {
  return policies.flatMap((policy) => {
    const { by = DEFAULT_DIMENSION } = policy;
    const share = 'share' in policy ? policy.share : undefined;
    return share === undefined ? [] : [{ by, share, ofSlots: 'lease' in policy }];
  });
}

/** The limits as they are for all tenants together. Their state is the same. */
export function asWhole(limits: Limits): Limits {
  const whole = (policies: readonly Policy[]): Policy[] =>
    policies.map((policy) => {
      const { share: _, weight: __, ...rest } = policy as Policy & { share?: string; weight?: number };
      return rest;
    });
  const tiers = [...limits.tiers].map(([tier, policies]) => [tier, whole(policies)] as const);
  return { ...limits, policies: whole(limits.policies), tiers: new Map(tiers) };
}

/** A key for calls of a limiter. On Redis, a secret hash may take the place of its key. Undefined if the key cannot be known. */
export function callable({ kind }: State, key: Owner['key'] | undefined): string | undefined {
  if (typeof key !== 'object') return key;
  return kind === 'redis' && kindOfHash(key.hash) === 'hmac' ? `hmac:${key.hash}` : undefined;
}

/** The weight that a tenant's requests brought when it was heavy most recently. Undefined if it has been light since. */
export const broughtWeight = (saved: TenantState | undefined): number | undefined =>
  saved && saved.weight > 0 ? saved.weight : undefined;

/** A key of a shared limit, with the states of a tenant that uses it. */
export interface Tenancy extends Within {
  readonly share: string;
  readonly states: FoundKey[];
}

interface TenantSearch extends Pick<Search, 'signal'> {
  readonly name: string;
  readonly tenant: string;
}

/** Finds the keys of a limiter's shared limits that a tenant uses, by a search of the limiter's state. @param signal ends the search early */
export async function limitKeysOf(
  state: State,
  { name, tenant, signal }: TenantSearch,
  shared: readonly SharedLimit[],
): Promise<Tenancy[]> {
  const found = new Map<string, Tenancy>();
  for await (const page of state.search({ name, signal })) {
    for (const each of page) {
      const { owner, id } = each;
      if (id === BAN_TAG) continue;
      const { by, key, slot } = owner;
      const limit = shared.find((some) =>
        slot
          ? some.by === slot.by && some.share === by && isOf(state, owner, name, tenant)
          : some.ofSlots && some.by === by,
      );
      const limitKey = limit && callable(state, slot ? slot.key : key);
      if (limitKey === undefined) continue;
      const place = `${limit!.by} ${limit!.share} ${limitKey}`;
      const tenancy = found.get(place) ?? { by: limit!.by, share: limit!.share, key: limitKey, states: [] };
      found.set(place, tenancy);
      if (slot) tenancy.states.push(each);
      if (found.size === MAX_LIMIT_KEYS) return [...found.values()];
    }
  }
  return [...found.values()];
}

/** Whether state in the slot of a limit's key belongs to a tenant. */
function isOf(state: State, { text, by, key }: Owner, name: string, tenant: string): boolean {
  if (typeof key === 'string') return key === tenant;
  const { scope, text: own } = state.ownerOf(name, tenant, by);
  return text.endsWith(`}${own.slice(scope.length + 1)}`);
}
