import { compilePolicies, orUnlimited } from '../contract/compile-policies.js';
import type { CompiledPolicy } from '../contract/policy.js';
import { visiblePolicies } from '../features/shares/contract/shares.js';
import { escapeName } from '../stores/keys.js';
import type { Limits } from './limits.js';
import type { FoundKey } from './state.js';
import { sharedLimits, type SharedLimit } from './shared-limits.js';

export interface TierLimits extends Limits {
  readonly tier: string | undefined;
}

/** A limiter with known limits, in one tier. */
export interface KnownLimiter {
  readonly name: string;
  readonly tier: string | undefined;
  readonly policies: readonly CompiledPolicy[];
  readonly limits: Limits;
  readonly shared: readonly SharedLimit[];
  /** The ids of the states of shared limits and of their tenants. */
  readonly hidden: ReadonlySet<string>;
}

/** The limiters in each tier, by their names in Redis keys. */
export function knownLimiters(
  limits: ReadonlyMap<string, readonly TierLimits[]>,
): ReadonlyMap<string, readonly KnownLimiter[]> {
  return new Map(
    [...limits].map(([name, sets]) => {
      const inTiers = sets.map((own) => {
        // The key of a shared limit is judged as a whole, and its tenants apart.
        const all = compilePolicies('policies', orUnlimited(own.policies));
        const policies = visiblePolicies(all).map((policy) => ({ ...policy, share: undefined }));
        const hidden = new Set(all.filter(({ isHidden }) => isHidden).map(({ id }) => id));
        return { name, tier: own.tier, limits: own, policies, shared: sharedLimits(own.policies), hidden };
      });
      return [escapeName(name), inTiers];
    }),
  );
}

/**
 * The limiters that may judge the key of a state: all tiers by its dimension, if one of them reads the state. With overrides, all may: an override
 * of another kind, such as another window or tier, has its own policies.
 */
export function readersOf(
  known: readonly KnownLimiter[],
  { owner: { by }, id }: FoundKey,
): readonly KnownLimiter[] {
  const counting = known.filter(({ policies }) => policies.some((policy) => policy.by === by));
  const isRead = counting.some(
    ({ policies, limits }) => limits.overrides || policies.some((each) => each.by === by && each.id === id),
  );
  return isRead ? counting : [];
}

/** The limiters with a shared limit of which a state's key is a tenant: those that use the state, or, after an override of another kind, all. */
export function sharersOf(
  known: readonly KnownLimiter[],
  { owner: { by, slot }, id }: FoundKey,
): readonly KnownLimiter[] {
  if (!slot) return [];
  const sharing = known.filter(({ shared }) =>
    shared.some((each) => each.by === slot.by && each.share === by),
  );
  const using = sharing.filter(({ hidden }) => hidden.has(id));
  return using.length > 0 ? using : sharing;
}
