/** The upper end of the first bucket, ms, and the buckets of a doubling. A percentile is thus at most a tenth too high or too low. */
const FIRST_MS = 0.05;
const BUCKETS_PER_DOUBLING = 4;

/** The last bucket has all answers above 30 seconds. */
const MAX_BUCKETS = 80;

/** The latency of the store in one process, as the decisions of the counted time saw it. */
export interface CountedLatency {
  /** The decisions by the bucket of their latency. */
  readonly buckets: Readonly<Record<string, number>>;
  /** The decisions whose answer came after their limiter's `timeout`, or failed. Absent without any. */
  readonly late?: number;
}

export class LatencyHistogram {
  #buckets = new Map<number, number>();
  #late = 0;

  /** @param decisions the decisions that waited for the answer */
  add(ms: number, decisions: number, isLate: boolean): void {
    if (isLate) this.#late += decisions;
    const bucket = Math.ceil(BUCKETS_PER_DOUBLING * Math.log2(ms / FIRST_MS));
    const at = Math.max(0, Math.min(MAX_BUCKETS - 1, bucket || 0));
    this.#buckets.set(at, (this.#buckets.get(at) ?? 0) + decisions);
  }

  /** The counts for a message. They are then empty. @returns undefined if no answer came */
  take(): CountedLatency | undefined {
    if (this.#buckets.size === 0) return undefined;
    const counted = {
      buckets: Object.fromEntries(this.#buckets),
      ...(this.#late > 0 && { late: this.#late }),
    };
    this.#buckets = new Map();
    this.#late = 0;
    return counted;
  }
}

/** The latency at a fraction of all decisions, ms. @param counts the decisions by bucket, which are not empty */
export function percentileOf(counts: ReadonlyMap<number, number>, fraction: number): number {
  const sorted = [...counts].sort(([a], [b]) => a - b);
  let left = fraction * sorted.reduce((sum, [, count]) => sum + count, 0);
  const [bucket] = sorted.find(([, count]) => (left -= count) <= 0) ?? sorted.at(-1)!;
  // The middle of the bucket.
  const ms = FIRST_MS * 2 ** ((bucket - 0.5) / BUCKETS_PER_DOUBLING);
  return Number(ms.toPrecision(2));
}
