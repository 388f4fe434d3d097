import { drains } from '../contract/compile-policies.js';
import type { RecentDenial } from './denied-now.js';
import { useIn, type JudgedKey, type PolicyVerdict, type ReadState } from './finds.js';

/** The verdicts of a tier on a key, with the states that the policies read. Policies of several tiers may read one state. */
interface TierVerdicts {
  readonly policies: readonly PolicyVerdict[];
  readonly states: readonly ReadState[];
}

/** The verdict of a tier, with the states that the policies read. */
export type TierFind = JudgedKey & TierVerdicts;

/** The part of a limit that is left at most if the limit may have denied a request a moment ago, because requests may cost more than one unit. */
const LEFT_SHARE = 0.2;

/**
 * Whether requests of a key may have each tier. The store does not record tiers, but a key with state that only one tier uses has that tier,
 * and a key that used more than the limit of a tier has another one. A key that was denied just now has a tier that denies it.
 *
 * @param tiers the verdicts of each tier on the key
 * @param denial the newest denial of the key
 */
export function likelyTiers(tiers: readonly TierVerdicts[], denial?: RecentDenial): boolean[] {
  const uses = usesIn(tiers);
  const over = tiers.map(({ policies, states }) =>
    policies.some(({ algorithm, limit }, i) => !drains(algorithm) && (uses.get(states[i]!.id) ?? 0) > limit),
  );
  const denying = denial ? denyingTiers(tiers, over, denial) : [];
  if (denying.includes(true)) return denying;
  const fits = tiers.map(
    ({ states }, i) => !over[i] && [...uses.keys()].every((id) => states.some((state) => state.id === id)),
  );
  if (fits.includes(true)) return fits;
  // The key had several tiers.
  return tiers.map(({ states }) => states.some(({ id }) => uses.has(id)));
}

/** The use of each state: the most that a tier reads, because the verdict of a tier shows no more than its limit. */
function usesIn(tiers: readonly TierVerdicts[]): ReadonlyMap<string, number> {
  const uses = new Map<string, number>();
  for (const { policies, states } of tiers)
    for (const [i, verdict] of policies.entries()) {
      const [{ used }, { id }] = [useIn(verdict), states[i]!];
      if (used > 0) uses.set(id, Math.max(used, uses.get(id) ?? 0));
    }
  return uses;
}

/**
 * Whether each tier is the one that denied the key. Of a key that used more than a tier admits, a higher tier that denies it is the one. If no
 * higher tier does, nor did a moment ago, and all requests are denied, then the tier has changed, or a charge has grown since.
 *
 * @param over whether the key used more than each tier admits
 */
function denyingTiers(
  tiers: readonly TierVerdicts[],
  over: readonly boolean[],
  denial: RecentDenial,
): boolean[] {
  const spent = tiers.map(({ policies }) =>
    policies.some(({ name, remaining, shadow }) => name === denial.policy && remaining < 1 && !shadow),
  );
  const fitting = spent.map((isSpent, i) => isSpent && !over[i]);
  if (fitting.includes(true)) return fitting;
  const isOfOther = tiers.some((tier, i) => !over[i] && mayHaveDenied(tier, denial));
  return denial.isTotal && !isOfOther ? spent : [];
}

/** Whether a policy with quota left may have had none at the time of a denial: little is left, or charges have ended since. */
function mayHaveDenied({ policies, states }: TierVerdicts, { policy, ageMs }: RecentDenial): boolean {
  return policies.some(({ name, algorithm, shadow, limit, remaining, resetAfterMs }, i) => {
    if (name !== policy || shadow) return false;
    const { freesEveryMs } = states[i]!;
    if (freesEveryMs === undefined || drains(algorithm) || remaining <= LEFT_SHARE * limit) return true;
    // The last charge ends together with a segment.
    const sinceMs = freesEveryMs - (resetAfterMs % freesEveryMs);
    return sinceMs <= ageMs;
  });
}

/**
 * The facts about a key, by the verdicts of the tiers: whether it is limited, and otherwise whether it is admitted.
 *
 * @param newest the newest denial of the key
 */
export function factsOf(verdicts: readonly TierFind[], newest?: RecentDenial): JudgedKey[] {
  const tiers = likelyTiers(verdicts, newest);
  const judged = verdicts.map(({ states: _, ...find }, i): JudgedKey => ({ ...find, likely: tiers[i]! }));
  const denials = judged.filter(({ kind, likely }) => kind === 'limited' && likely);
  const admissions = judged.filter(({ kind, likely }) => kind === 'admitted' && likely);
  const [denial] = denials;
  if (denial) {
    const certain = admissions.length === 0;
    return [inTiers(denial, denials.length, certain)];
  }
  const unlikely = judged.find(({ kind }) => kind === 'limited');
  const [first] = admissions.sort((a, b) => useShare(b) - useShare(a));
  const certain = admissions.every((each) => useShare(each) === useShare(first!));
  return [
    ...(first ? [inTiers(first, admissions.length, certain)] : []),
    ...(unlikely ? [{ ...unlikely, certain: false }] : []),
  ];
}

/** A verdict without the tier if several tiers have the same. */
function inTiers({ tier, ...find }: JudgedKey, tiers: number, certain: boolean): JudgedKey {
  const isOfTier = tier !== undefined && !(certain && tiers > 1);
  return { ...find, ...(isOfTier && { tier }), certain };
}

/** The part of a limit, or of the share of a tenant, that a key has used most. */
function useShare({ policies }: JudgedKey): number {
  const uses = policies.map(useIn).filter(({ quota }) => quota > 0);
  return Math.max(0, ...uses.map(({ used, quota }) => used / quota));
}
