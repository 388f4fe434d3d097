export interface Admission {
  /** The time at which the admission takes effect, ms. */
  readonly at: number;
  readonly units: number;
}

/** The most units that were admitted in any span of `window` ms, from any start. The result does not depend on the algorithm of the decisions. */
export function worstWindow(admissions: readonly Admission[], window: number): number {
  const sorted = admissions.toSorted((a, b) => a.at - b.at);
  let [worst, units, first] = [0, 0, 0];
  for (const { at, units: more } of sorted) {
    units += more;
    while (sorted[first]!.at <= at - window) units -= sorted[first++]!.units;
    worst = Math.max(worst, units);
  }
  return worst;
}
