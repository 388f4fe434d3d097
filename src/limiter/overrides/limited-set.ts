import { changedPolicy } from '../../features/overrides/contract/change-policy.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { PolicySet } from '../../contract/store.js';
import { variant } from '../../contract/variant.js';

/** A set with the limits of an override, as a reply contains them. */
export const limitedSet = (set: PolicySet, limits: readonly number[]): PolicySet => {
  const change = () => ({ policies: set.policies.map((policy, i) => limitedTo(policy, limits[i]!)) });
  return variant(set, 'limits', change, limits.join(' '));
};

/** A policy with the limit of an override, for readers of a decision. */
function limitedTo(policy: CompiledPolicy, limit: number): CompiledPolicy {
  const { drains, aheadMs } = policy.traits;
  if (limit === policy.limit && !drains) return policy;
  const { traits } = changedPolicy(policy, { limit });
  if (!drains) return { ...policy, limit, traits };
  // A waiting request gets a turn as far ahead as before.
  const ahead = aheadMs === undefined ? undefined : traits.reserving?.(aheadMs).traits;
  // An override may set another burst, which is not part of a reply. The time of a unit follows from the limit.
  const nextUnitMs = (_: number, resetMs: number): number => Math.min(resetMs, policy.window / limit);
  return { ...policy, limit, traits: { ...traits, ...ahead, nextUnitMs } };
}
