/** Several rounds of one figure. */
export interface Sample {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

export function sample(values: readonly number[]): Sample {
  const sorted = [...values].sort((a, b) => a - b);
  return { median: quantile(sorted, 0.5), low: sorted[0] ?? NaN, high: sorted.at(-1) ?? NaN };
}

/** A quantile of values in ascending order, interpolated between two of them if needed. */
export function quantile(sorted: readonly number[], q: number): number {
  const at = (sorted.length - 1) * q;
  const below = sorted[Math.floor(at)] ?? NaN;
  const above = sorted[Math.ceil(at)] ?? NaN;
  return below + (above - below) * (at - Math.floor(at));
}

/** A sample of each figure of the rounds. */
export function summarize<K extends string>(rounds: readonly Record<K, number>[]): Record<K, Sample> {
  const figures = Object.keys(rounds[0] ?? {}) as K[];
  return Object.fromEntries(
    figures.map((figure) => [figure, sample(rounds.map((round) => round[figure]))]),
  ) as Record<K, Sample>;
}
