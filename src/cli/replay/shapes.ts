import { MAX_FILL_MS, MAX_TICKS } from '../../algorithms/algorithm.js';
import { DEFAULT_ALGORITHM } from '../../algorithms/index.js';
import { toMilliseconds, type Duration } from '../../common/duration.js';
import { ALGORITHMS, hasField } from '../../contract/compile-policies.js';
import type { Algorithm, Policy } from '../../contract/policy.js';
import { usageError } from '../errors.js';

/** A policy with a limit or burst that is to be found. */
export interface Shape {
  /** Shapes of one group are alternatives: the same window at different rates. */
  readonly group: string;
  readonly window: number;
  /** The rate of a bucket, for which the burst is to be found, or `undefined` if the limit itself is to be found. */
  readonly rate: number | undefined;
  /** A policy with a limit that is never reached, to measure the use. */
  readonly probe: Policy;
  /** The policy with the units that were found. */
  of(units: number): Policy;
}

/** A policy with a window. A log lacks the durations of requests, and rarely covers several periods of a calendar. */
type Windowed = Extract<Policy, { window: Duration }>;

/** The algorithms for which limits can be found. */
export type MeasuredAlgorithm = NonNullable<Windowed['algorithm']>;
export const MEASURED = ALGORITHMS.filter((name): name is MeasuredAlgorithm => hasField(name, 'window'));

/** The windows that are measured by default. */
const WINDOWS = ['1s', '10s', '1m', '10m', '1h'];
const BUCKET_WINDOWS = ['1s', '1m'];

/** The rates that are tried for a bucket without a given rate. */
const RATES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];

/** A limit that is never reached, and that fits into counters of 4 bytes. */
const PLENTY = 2 ** 30;
const MOST_LOGGED = 1_000_000;

const isBucket = (algorithm: Algorithm = DEFAULT_ALGORITHM): boolean => hasField(algorithm, 'burst');

/** Whether units are slots, which are held until they are released. */
export const countsSlots = ({ algorithm = DEFAULT_ALGORITHM }: Policy): boolean =>
  hasField(algorithm, 'lease');

/** The shapes of an algorithm for the given windows. */
export function shapesOf(algorithm: MeasuredAlgorithm, windows: readonly string[] | undefined): Shape[] {
  if (!isBucket(algorithm)) {
    return (windows ?? WINDOWS).map((window) => shapeOf({ algorithm, limit: 1, window }));
  }
  return (windows ?? BUCKET_WINDOWS).flatMap((window) =>
    RATES.map((limit) => shapeOf({ algorithm, limit, window })),
  );
}

/**
 * The shape of a policy. For a bucket, the rate is kept and the burst is to be found. For all others, the limit is to be found.
 *
 * @throws CliError `USAGE` for a concurrency or calendar policy
 */
export function shapeOf(policy: Policy): Shape {
  if (countsSlots(policy)) {
    throw usageError(
      'For a concurrency policy nothing can be suggested, because an access log lacks the duration of each request.',
    );
  }
  if (!('window' in policy)) {
    throw usageError('For a calendar policy nothing can be suggested. Pass a window: --window 1d.');
  }
  const { shadow: _, ...rest } = policy;
  const window = toMilliseconds('window', policy.window);
  const group = `${policy.algorithm ?? DEFAULT_ALGORITHM}/${window}`;
  if (isBucket(policy.algorithm)) {
    const bucket = { ...rest } as Policy & { burst?: number; maxDelay?: unknown };
    delete bucket.maxDelay;
    const rate = policy.limit;
    return {
      group,
      window,
      rate,
      probe: { ...bucket, burst: plentyOfBurst(rate, window) } as Policy,
      of: (burst) => ({ ...bucket, burst }) as Policy,
    };
  }
  const plenty = policy.algorithm === 'sliding-log' ? MOST_LOGGED : PLENTY;
  return {
    group,
    window,
    rate: undefined,
    probe: { ...rest, limit: plenty },
    of: (limit) => ({ ...rest, limit }),
  };
}

/** The largest burst, up to a million, that uses the same ticks as a small one. */
function plentyOfBurst(rate: number, window: number): number {
  const ticks = rate / divisor(rate, window);
  const longest = Math.min(MAX_TICKS / ticks, MAX_FILL_MS) - window;
  return Math.max(1, Math.min(MOST_LOGGED, Math.floor((longest * rate) / window) - 1));
}

function divisor(a: number, b: number): number {
  return b === 0 ? a : divisor(b, a % b);
}
