import { useOf, type SharesParams } from '../algorithms/shares/sharing.js';
import { compilePolicies } from '../contract/compile-policies.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { Policy } from '../contract/policy.js';
import { sharedOf } from '../features/shares/contract/shares.js';
import type { LimiterDecision } from '../limiter/decision.js';
import { BAN_TAG, kindOfHash } from '../stores/keys.js';
import { verdictsOf, type PolicyVerdict } from './finds.js';
import { mapped, type Limits } from './limits.js';
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
export const asWhole = (limits: Limits): Limits =>
  mapped(limits, (policies) =>
    policies.map((policy) => {
      const { share: _, weight: __, ...rest } = policy as Policy & { share?: string; weight?: number };
      return rest;
    }),
  );

/** A key for calls of a limiter. On Redis, a secret hash may take the place of its key. Undefined if the key cannot be known. */
export function callable({ kind }: State, key: Owner['key'] | undefined): string | undefined {
  if (typeof key !== 'object') return key;
  return kind === 'redis' && kindOfHash(key.hash) === 'hmac' ? `hmac:${key.hash}` : undefined;
}

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

/** The use of a tenant, in all shared limits of a limiter. */
export interface TenantUse {
  /** The weight that its requests brought when it was heavy most recently. Undefined if it has been light since. */
  weight: number | undefined;
  /** Whether the policies have the weight that the tenant brought, if it is known. */
  isOfWeight: boolean;
  /** By the name of the shared policy. */
  readonly of: Map<string, ReturnType<typeof useOf>>;
}

/** The use of tenants of units, by the texts of their owners. @param keys their states */
export async function usesOf(
  state: State,
  policies: readonly Policy[],
  keys: readonly FoundKey[],
): Promise<ReadonlyMap<string, TenantUse>> {
  const compiled = compilePolicies('policies', policies);
  const now = await state.now();
  const uses = new Map<string, TenantUse>();
  for (const { policy, tenant } of sharedOf({ name: '', policies: compiled, timeout: 0 })) {
    const { id } = compiled[tenant]!;
    const params = compiled[tenant]!.params as unknown as SharesParams;
    const own = keys.filter((key) => key.id === id);
    const states = own.length === 0 ? [] : await state.tenants(own, params.segments);
    for (const [i, saved] of states.entries()) {
      if (!saved) continue;
      const { text } = own[i]!.owner;
      const use = uses.get(text) ?? { weight: undefined, isOfWeight: true, of: new Map() };
      uses.set(text, use);
      if (saved.weight > 0) use.weight ??= saved.weight;
      use.isOfWeight = use.weight === undefined || use.weight === params.weight;
      use.of.set(compiled[policy]!.name, useOf(saved, params, now));
    }
  }
  return uses;
}

export function tenantVerdicts(decision: LimiterDecision, use: TenantUse | undefined): PolicyVerdict[] {
  return verdictsOf(decision).map((verdict) => {
    const used = use?.of.get(verdict.name)?.used;
    return used === undefined ? verdict : { ...verdict, used };
  });
}
