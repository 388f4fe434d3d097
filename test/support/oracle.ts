// Judges what was admitted without knowing how it was decided.

export interface Admission {
  /** When it takes effect, ms. */
  readonly at: number;
  readonly units: number;
}

/** The most units admitted in any true window: every span of `window` ms, wherever it begins. */
export function worstWindow(admissions: readonly Admission[], window: number): number {
  const sorted = [...admissions].sort((a, b) => a.at - b.at);
  let [worst, units, first] = [0, 0, 0];
  for (const { at, units: more } of sorted) {
    units += more;
    while (sorted[first]!.at <= at - window) units -= sorted[first++]!.units;
    worst = Math.max(worst, units);
  }
  return worst;
}
