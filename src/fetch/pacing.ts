import { compilePolicies } from '../contract/compile-policies.js';
import type { Policies, Policy } from '../contract/policy.js';
import { toMilliseconds } from '../common/duration.js';

/** One of the partner's limits, and whether calls are spaced for it. */
export interface Partner {
  /** The name of our policy. */
  readonly name: string;
  readonly limit: number;
  /** 0: it has no window. */
  readonly windowMs: number;
  readonly isPaced: boolean;
}

interface Paced {
  readonly policies: Policy[];
  readonly partners: Partner[];
}

/** The margin, unless it is given, or was learnt. */
export const MARGIN = 0.03;
/** Windows up to this, ms, are kept by spacing the calls evenly. With a longer one, a burst would be slow. */
const LONGEST_PACED = 10_000;
/** How far ahead turns are reserved at the store, ms. A process that dies loses its turns for so long. */
const AHEAD = 2000;
/** Calls reach the partner later than they were admitted, but by no more than this, ms. */
const LATEST = 1000;

/**
 * The policies that keep a partner's limits. A policy that names its algorithm is taken as it is written. Others get a
 * window that is longer by the margin, because calls arrive later than they were admitted, and not all equally late.
 * Those of short windows become leaky buckets, which give every call its turn, first come first served.
 *
 * @param cost what every call costs. Undefined: it differs, and a bucket would deny the larger ones
 */
export function pace(given: Policies, margin: number, cost: number | undefined): Paced {
  const partners: Partner[] = [];
  const policies = compilePolicies('policies', given).map(({ name, limit, source }): Policy => {
    const isPlain = source.algorithm === undefined;
    const window = 'window' in source ? toMilliseconds('window', source.window) : 0;
    const isPaced = isPlain && cost !== undefined && window <= LONGEST_PACED;
    partners.push({ name, limit, windowMs: window, isPaced });
    if (!isPlain) return { ...source, name };
    if (!isPaced) {
      const slack = Math.min(Math.ceil(window * margin), LATEST);
      const later = { ...source, name, window: `${window + slack}ms` };
      return later;
    }
    const { algorithm: _, segments: _segments, ...rest } = source as Policy & { segments?: number };
    // A cost above the limit is refused, as no call of it would be admitted.
    const burst = Math.max(1, Math.min(cost, limit));
    const bucket = { algorithm: 'leaky-bucket', burst, maxDelay: AHEAD } as const;
    const spaced = { ...rest, ...bucket, name, window: spacedWindow(window, margin) };
    return spaced;
  });
  return { policies, partners };
}

/** The window of a policy by which calls are spaced. @param window the partner's, ms */
export function spacedWindow(window: number, margin: number): string {
  return `${window + Math.ceil(window * margin)}ms`;
}
