// The window in which most units were admitted.
import type { CompiledPolicy } from 'headgate/stores';

export interface Peak {
  /** The key whose units they are. */
  readonly key: string;
  readonly window: number;
  /** The end of the window, ms from the start. */
  readonly end: number;
  readonly units: number;
  /** The published worst case of any window. */
  readonly bound: number;
  readonly limit: number;
  /** The times of admission of the key, in order. */
  readonly starts: readonly number[];
}

/** The most units that a policy admits in any window, or `undefined` if it counts slots. */
export function boundOf({ algorithm, limit, traits }: CompiledPolicy): number | undefined {
  switch (algorithm) {
    case 'concurrency':
      return undefined;
    case 'fixed-window':
    case 'calendar':
      return 2 * limit;
    case 'token-bucket':
    case 'leaky-bucket':
    case 'gcra':
      return traits.capacity + limit;
    default:
      return limit;
  }
}

/** The number of `starts`, in order of time, in the window that ends with each of them. */
export function inWindow(starts: readonly number[], window: number): number[] {
  let first = 0;
  return starts.map((start, i) => {
    while (starts[first]! <= start - window) first += 1;
    return i - first + 1;
  });
}

/** The number of `starts`, in order of time, in the window that ends at a time. */
export const inWindowAt = (starts: readonly number[], end: number, window: number): number =>
  startedUntil(starts, end) - startedUntil(starts, end - window);

function startedUntil(starts: readonly number[], end: number): number {
  let [low, high] = [0, starts.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (starts[middle]! <= end) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** @param startsOf the times of admission by key, each list in order */
export function peakOf(
  policy: CompiledPolicy,
  startsOf: ReadonlyMap<string, readonly number[]>,
): Peak | undefined {
  const bound = boundOf(policy);
  if (bound === undefined) return undefined;
  const { window, limit } = policy;
  let peak: Peak | undefined;
  for (const [key, starts] of startsOf) {
    inWindow(starts, window).forEach((units, i) => {
      if (units > (peak?.units ?? 0)) peak = { key, window, end: starts[i]!, units, bound, limit, starts };
    });
  }
  return peak;
}
