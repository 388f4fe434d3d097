import type { Policy } from 'headgate';
import { usageError } from '../errors.js';
import { firstWhere } from './bisect.js';
import { compiled, countsSlots, isBucket, type MeasuredAlgorithm } from './policies.js';

/** A policy with a limit or burst that is to be found. */
export interface Shape {
  /** Shapes of one group are alternatives: the same window at different rates. */
  readonly group: string;
  readonly window: number;
  /** The rate of a bucket, for which the burst is to be found, or `undefined` if the limit itself is to be found. */
  readonly rate: number | undefined;
  /** A policy with a limit that is never reached, to measure the use. */
  readonly probe: Policy;
  of(units: number): Policy;
}

const WINDOWS = ['1s', '10s', '1m', '10m', '1h'];
const BUCKET_WINDOWS = ['1s', '1m'];

/** The rates that are tried for a bucket without a given rate. */
const RATES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];

/** A limit that is never reached, and that fits into counters of 4 bytes. */
const PLENTY = 2 ** 30;
/** The same for algorithms with state that grows with the limit, and for bursts. */
const MAX_LOGGED = 1_000_000;

export function shapesOf(algorithm: MeasuredAlgorithm, windows: readonly string[] | undefined): Shape[] {
  const [usual, rates] = isBucket(algorithm) ? [BUCKET_WINDOWS, RATES] : [WINDOWS, [1]];
  return (windows ?? usual).flatMap((window) => rates.map((limit) => shapeOf({ algorithm, limit, window })));
}

/**
 * The shape of a policy. For a bucket, the rate is kept and the burst is to be found. For all others, the limit is to be found.
 *
 * @throws CliError `USAGE` for a concurrency or calendar policy
 */
export function shapeOf({ shadow: _, ...policy }: Policy): Shape {
  if (countsSlots(policy)) {
    throw usageError(
      'suggest cannot find limits of concurrency policies, because an access log lacks the duration of each request.',
    );
  }
  if (!('window' in policy)) {
    throw usageError('suggest cannot find limits of calendar policies. Pass a window instead: --window 1d.');
  }
  const { window, algorithm } = compiled(policy);
  const group = `${algorithm}/${window}`;
  if (!isBucket(algorithm)) {
    const limit = algorithm === 'sliding-log' ? MAX_LOGGED : PLENTY;
    return {
      ...{ group, window, rate: undefined, probe: { ...policy, limit } },
      of: (units) => ({ ...policy, limit: units }),
    };
  }
  const { maxDelay: _delay, ...bucket } = policy as Policy & { maxDelay?: unknown };
  const of = (burst: number) => ({ ...bucket, burst }) as Policy;
  return { group, window, rate: policy.limit, probe: of(plentyOfBurst(of)), of };
}

/** The largest burst, up to a million, that is counted as exactly as the smallest one. */
function plentyOfBurst(of: (burst: number) => Policy): number {
  const { scale } = compiled(of(1)).params;
  const isTooLarge = (burst: number): boolean => {
    try {
      return compiled(of(burst)).params.scale !== scale;
    } catch {
      return true;
    }
  };
  return firstWhere(1, MAX_LOGGED, (burst) => isTooLarge(burst + 1));
}
