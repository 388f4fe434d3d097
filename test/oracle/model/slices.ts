// Slices: units of a key that the process has charged ahead. The docs give bounds, so the real answer is the witness: it must lie in them.
import { isBucket } from './overrides.js';
import type { LimiterDef, Look, Policy, Verdict } from './types.js';

/** The policies of all sets with the count of a policy, if the process may hold units of it. */
function slicedOf(def: LimiterDef, policy: Policy): Policy[] {
  const { algorithm, maxDelay, thresholds, share } = policy;
  const isSliced = isBucket(policy) || ['fixed-window', 'sliding-window', 'calendar'].includes(algorithm);
  if (!def.slices || !isSliced || maxDelay || thresholds || share) return [];
  return [def.policies, ...Object.values(def.tiers)].flat().filter(({ name }) => name === policy.name);
}

/**
 * The most units of a policy that the process may hold: a tenth of the limit of each set, and the remainder of a spent slice. A request that
 * costs more than a third of a slice is not decided from it, so a remainder is smaller.
 */
export function heldOf(def: LimiterDef, policy: Policy): number {
  const most = ({ limit, burst = limit }: Policy) => Math.floor(burst / 10) + Math.floor(burst / 30);
  return slicedOf(def, policy).reduce((sum, each) => sum + most(each), 0);
}

interface Asked {
  readonly look: Look;
  readonly policy: Policy;
  readonly cost: number;
  /** Whether a decision was settled above its cost. The process may spend its slice although the limit is then exceeded. */
  readonly hasDebts: boolean;
}

/**
 * The answer of a policy, as the real one if that may be right. An admission is always within the limit as of the charge of a slice, so since then
 * another tier may have charged units up to a greater limit. A denial may be due to units that are held.
 *
 * @param look the answer without slices @param lookBy returns the answer by another limit
 */
export function lookAhead(
  def: LimiterDef,
  { look, policy, cost, hasDebts }: Asked,
  lookBy: (policy: Policy) => Look,
  real: Verdict | undefined,
): Look {
  const held = heldOf(def, policy);
  if (held === 0 || !real) return look;
  const limit = Math.max(...slicedOf(def, policy).map((each) => each.limit));
  const mayBe = real.allowed
    ? look.wait === 0 || (cost <= held && (hasDebts || lookBy({ ...policy, limit }).wait === 0))
    : look.wait > 0 || look.remaining - cost < held;
  // The rest of a slice returns to a bucket rounded, never in the client's favour.
  const rounding = isBucket(policy) ? 1 : 0;
  const least = look.remaining - held - rounding - (real.allowed ? cost : 0);
  if (!mayBe || real.remaining < least || real.remaining > (policy.burst ?? policy.limit)) return look;
  return {
    ...look,
    wait: real.allowed ? 0 : Math.max(1, look.wait),
    remaining: real.remaining,
    isOpen: true,
  };
}
