import { compilePolicies } from '../contract/compile-policies.js';
import type { Policies, Policy } from '../contract/policy.js';
import { exactMilliseconds } from '../common/duration.js';
import { warnHere } from '../common/warnings.js';
import { checkWindows } from '../limiter/setup-checks.js';

/** A limit of the partner, and whether calls are spaced by the limit. */
export interface Partner {
  /** The name of our policy. */
  readonly name: string;
  readonly limit: number;
  /** The length of the window, ms, or 0 if the limit has no window. */
  readonly windowMs: number;
  readonly isPaced: boolean;
  /** The largest cost that a limit with spaced calls admits. Undefined if calls are not spaced. */
  readonly most?: number;
}

interface Paced {
  readonly policies: Policy[];
  readonly partners: Partner[];
}

/** The default margin, as a fraction of the window. With 0.03, cold processes on a calm machine broke a strict limit in two runs of 22; with 0.045 in one of 16, where some seeds of `cold-start` stay below 47 a second. */
export const MARGIN = 0.04;
/** The longest window, ms, whose calls are evenly spaced. Even spacing over longer windows would slow down bursts. */
const MAX_PACED_WINDOW_MS = 10_000;
/** The time ahead for which turns are reserved at the store, ms. A process that dies loses its turns for as long. */
export const MAX_AHEAD_MS = 2000;
/** The maximum delay between a call's admission and its arrival at the partner, ms. */
const MAX_DELAY_MS = 1000;

/**
 * Returns the policies that keep a partner's limits. A policy with an explicit algorithm is unchanged. The window of every other policy
 * grows by the margin, because calls arrive later than they were admitted, and with varying delays. Policies with short windows become
 * leaky buckets, which give every call its turn, first come first served.
 *
 * @param cost the cost of every call, or `undefined` if costs differ, because a bucket would deny higher costs
 */
export function pace(given: Policies, margin: number, cost: number | undefined): Paced {
  const partners: Partner[] = [];
  const compiled = compilePolicies('policies', given);
  // As written, because the limiter checks the policies with longer windows.
  checkWindows(compiled, warnHere);
  const policies = compiled.map(({ name, limit, source }): Policy => {
    const isPlain = source.algorithm === undefined;
    const window = 'window' in source ? exactMilliseconds('window', source.window) : 0;
    const isPaced = isPlain && cost !== undefined && window <= MAX_PACED_WINDOW_MS;
    // A cost above the limit is refused, because no such call would be admitted.
    const most = isPaced ? Math.max(1, Math.min(cost, limit)) : undefined;
    partners.push({ name, limit, windowMs: window, isPaced, ...(most !== undefined && { most }) });
    if (!isPlain) return { ...source, name };
    if (most === undefined) {
      const slack = Math.min(Math.ceil(window * margin), MAX_DELAY_MS);
      const later = { ...source, name, window: `${window + slack}ms` };
      return later;
    }
    const { algorithm: _, segments: _segments, ...rest } = source as Policy & { segments?: number };
    const bucket = { algorithm: 'leaky-bucket', burst: most, maxDelay: MAX_AHEAD_MS } as const;
    const spaced = { ...rest, ...bucket, name, window: spacedWindow(window, margin) };
    return spaced;
  });
  return { policies, partners };
}

/** The window of a policy with evenly spaced calls. @param window the partner's window, ms */
export function spacedWindow(window: number, margin: number): string {
  return `${window + Math.ceil(window * margin)}ms`;
}
