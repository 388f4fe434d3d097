import { drains } from '../contract/compile-policies.js';
import type { RecentDenial } from './denied-now.js';
import { useIn, type JudgedKey, type PolicyVerdict } from './finds.js';

/** The verdicts of a tier on a key, with the ids of the states that the policies read. Policies of several tiers may read one state. */
interface TierVerdicts {
  readonly policies: readonly PolicyVerdict[];
  readonly states: readonly string[];
}

/** The verdict of one tier, with the ids of the states that its policies read. */
export type TierFind = JudgedKey & TierVerdicts;

/**
 * Whether requests of a key may have each tier. The store does not record tiers, but a key with state that only one tier uses has that tier,
 * and a key that used more than the limit of a tier has another one. A key that was denied just now has a tier that denies it.
 *
 * @param tiers the verdicts of each tier on the key
 * @param denial the newest denial of the key
 */
export function likelyTiers(tiers: readonly TierVerdicts[], denial?: RecentDenial): boolean[] {
  const uses = new Map<string, number>();
  for (const { policies, states } of tiers)
    for (const [i, verdict] of policies.entries()) {
      const [{ used }, state] = [useIn(verdict), states[i]!];
      if (used > 0) uses.set(state, Math.max(used, uses.get(state) ?? 0));
    }
  const over = tiers.map(({ policies, states }) =>
    policies.some(({ algorithm, limit }, i) => !drains(algorithm) && (uses.get(states[i]!) ?? 0) > limit),
  );
  // A key that used more than a tier admits, and is admitted, has another tier. If all requests are denied, the tier has changed, or a charge
  // has grown since.
  const denying = tiers.map(
    ({ policies }, i) =>
      denial !== undefined &&
      (denial.isTotal || !over[i]) &&
      policies.some(({ name, remaining, shadow }) => name === denial.policy && remaining < 1 && !shadow),
  );
  if (denying.includes(true)) return denying;
  const fits = tiers.map(
    ({ states }, i) => !over[i] && [...uses.keys()].every((state) => states.includes(state)),
  );
  if (fits.includes(true)) return fits;
  // The key had several tiers.
  return tiers.map(({ states }) => states.some((state) => uses.has(state)));
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
    const { tier, ...find } = denial;
    // A key that several tiers deny is not limited in one of them.
    const isOfTier = tier !== undefined && !(certain && denials.length > 1);
    return [{ ...find, ...(isOfTier && { tier }), certain }];
  }
  const unlikely = judged.find(({ kind }) => kind === 'limited');
  const [first] = admissions.sort((a, b) => useShare(b) - useShare(a));
  const certain = admissions.every((each) => useShare(each) === useShare(first!));
  return [...(first ? [{ ...first, certain }] : []), ...(unlikely ? [{ ...unlikely, certain: false }] : [])];
}

/** The part of a limit, or of the share of a tenant, that a key has used most. */
function useShare({ policies }: JudgedKey): number {
  const uses = policies.map(useIn).filter(({ quota }) => quota > 0);
  return Math.max(0, ...uses.map(({ used, quota }) => used / quota));
}
