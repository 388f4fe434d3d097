import { toMilliseconds, toText, type Duration } from '../common/duration.js';
import { invalidOption } from '../common/errors.js';
import { checkInteger, MAX_UNITS } from '../common/validate.js';
import {
  LONGEST_FILL,
  MOST_TICKS,
  PairColumn,
  type AlgorithmDefinition,
  type Compiled,
  type Given,
  type QuotaPolicy,
  type Returned,
} from './algorithm.js';

/** The GCRA kernel under its common names: `limit` per `window`, spread evenly, with `burst` at once. */
export interface TokenBucketPolicy extends QuotaPolicy {
  /** How it counts. */
  algorithm: 'token-bucket' | 'gcra';
  /** The length of the window: ms, or `'10s'`, `'15m'`, `'1h'`, up to 366 days. */
  window: Duration;
  /** The most units that can be spent at once. Default `limit`. redis-cell calls it `max_burst + 1`. */
  burst?: number;
}

/** A leaky bucket: as a meter it is the token bucket; with `maxDelay` it holds requests for their turn. */
export interface LeakyBucketPolicy extends QuotaPolicy {
  /** How it counts. */
  algorithm: 'leaky-bucket';
  /** The length of the window: ms, or `'10s'`, `'15m'`, `'1h'`, up to 366 days. */
  window: Duration;
  /** The most units that can be spent at once. Default `limit`. */
  burst?: number;
  /** Hold a request up to this long for its turn instead of denying it. Default 0: a meter. */
  maxDelay?: Duration;
}

/** All fields but `scale` are in ticks; a millisecond has `scale` ticks. */
type GcraParams = {
  readonly scale: number;
  /** One unit. */
  readonly increment: number;
  /** `burst` units: what can be spent at once. */
  readonly capacity: number;
  /** The most that a request may be delayed (leaky bucket with maxDelay). */
  readonly patience: number;
  /** The largest backlog. With more, a key would have to wait longer than one window. */
  readonly ceiling: number;
};

/**
 * Stores the theoretical arrival time (TAT). The backlog is how far it lies ahead. A row's pair: the TAT rounded up to a millisecond, and
 * the ticks to subtract from it. Worst case in any window: burst + limit.
 */
class GcraColumn extends PairColumn<GcraParams> {
  #backlog = 0;

  #write(row: number, p: GcraParams, now: number, backlog: number): number {
    const reset = Math.ceil(backlog / p.scale);
    this.state[2 * row] = now + reset;
    this.state[2 * row + 1] = reset * p.scale - backlog;
    return reset;
  }

  #read(row: number, p: GcraParams, now: number, writable: boolean): number {
    const { scale } = p;
    const stop = this.state[2 * row]!;
    if (stop <= now) return 0;
    const part = this.state[2 * row + 1]!;
    let backlog = Math.max(0, (stop - now) * scale - (part < scale ? part : 0));
    if (backlog > p.ceiling) {
      backlog = p.ceiling;
      if (writable) this.#write(row, p, now, backlog);
    }
    return backlog;
  }

  look(row: number, p: GcraParams, cost: number, now: number, writable: boolean): void {
    const { scale, increment, capacity, patience } = p;
    const backlog = this.#read(row, p, now, writable);
    const charge = cost * increment;
    const over = backlog + charge - capacity;
    if (cost === 0 || over <= 0) this.wait = 0;
    else if (charge > capacity) this.wait = -1;
    else if (over <= patience) this.wait = -1 - Math.ceil(over / scale);
    else this.wait = Math.ceil((over - patience) / scale);
    this.remaining = Math.max(0, Math.floor((capacity - backlog) / increment));
    this.reset = Math.ceil(backlog / scale);
    this.#backlog = backlog;
  }

  commit(row: number, p: GcraParams, cost: number, now: number): void {
    const backlog = this.#backlog + cost * p.increment;
    this.reset = this.#write(row, p, now, backlog);
    this.remaining = Math.max(0, Math.floor((p.capacity - backlog) / p.increment));
  }

  adjust(row: number, p: GcraParams, units: number, now: number, of: Returned | undefined): number {
    let backlog = this.#read(row, p, now, true);
    // Debt is bounded, so that a key never waits longer than one window for a unit.
    const charged = Math.max(0, Math.min(units, Math.floor((p.ceiling - backlog) / p.increment)));
    let back = 0;
    if (units > 0) {
      backlog += charged * p.increment;
    } else {
      back = Math.min(backlog, of ? this.#left(p, -units * p.increment, now, of) : -units * p.increment);
      backlog -= back;
    }
    this.wait = 0;
    this.reset = this.#write(row, p, now, backlog);
    if (backlog === 0) this.clear(row);
    this.remaining = Math.max(0, Math.floor((p.capacity - backlog) / p.increment));
    return back > 0 ? back : charged;
  }

  /**
   * How much of a charge has certainly not drained yet. It drains after the charges before it, or from its own time on at the earliest.
   * Drained units cannot be given back, because the key could already spend them again.
   */
  #left(
    { scale, increment }: GcraParams,
    charge: number,
    now: number,
    { mark, at, shift }: Returned,
  ): number {
    // Marks are rounded up to a millisecond. Subtract the most that this can have added.
    const rounding = increment % scale === 0 ? 0 : scale - 1;
    const inTurn = (mark - now) * scale - rounding - shift;
    return Math.max(0, Math.min(charge, Math.max(inTurn, charge - (now - at) * scale)));
  }

  sibling(rows: number): GcraColumn {
    return new GcraColumn(rows);
  }
}

function divisor(a: number, b: number): number {
  return b === 0 ? a : divisor(b, a % b);
}

/** The largest `scale`. Below it, a fraction of a millisecond fits in 32 bits. */
const FINEST = 2 ** 31;

/**
 * Picks a scale in which one unit is a whole number of ticks, so that no rate is rounded. If the rate is too fine for that, it is rounded
 * down by less than 0.1 %. Headgate then admits slightly less than was asked for, never more.
 */
function compile(what: string, given: Given): Compiled<GcraParams> {
  const { limit } = given;
  const window = toMilliseconds(`${what}.window`, given.window);
  const burst = given.burst === undefined ? limit : checkInteger(`${what}.burst`, given.burst, 1, MAX_UNITS);
  const maxDelay = given.maxDelay === undefined ? 0 : toMilliseconds(`${what}.maxDelay`, given.maxDelay, 0);
  const exact = limit / divisor(limit, window);
  // The longest backlog in ms limits how many ticks a millisecond can have.
  const longest = Math.ceil((burst / limit) * window) + maxDelay + window;
  const fits = exact <= FINEST && exact * longest <= MOST_TICKS;
  const scale = fits ? exact : Math.min(FINEST, Math.floor(MOST_TICKS / longest));
  const increment = Math.ceil((window * scale) / limit);
  if (longest > LONGEST_FILL || (!fits && increment <= 1000)) {
    throw invalidOption(
      `${what}.limit`,
      limit,
      'The rate or the burst is too large for this algorithm: count in larger units, or use sliding-window.',
    );
  }
  const capacity = burst * increment;
  const patience = maxDelay * scale;
  const ceiling = capacity + patience + window * scale - increment;
  const params = { scale, increment, capacity, patience, ceiling };
  const traits: Compiled['traits'] = {
    capacity: burst,
    drains: true,
    paceMs: maxDelay > 0 ? increment / scale : undefined,
    // What is charged before a slice may be given back. So its units may begin to drain at once.
    slices: maxDelay > 0 ? undefined : { endsIn: (resetMs) => resetMs, lostPerMs: scale / increment },
    unit: undefined,
    nextUnitMs: (remaining, resetMs) => resetMs - ((burst - remaining - 1) * window) / limit,
    aheadMs: maxDelay > 0 ? maxDelay : undefined,
    // The ceiling stays, so that the state means the same to those who reserve nothing.
    reserving(ms) {
      const ahead = Math.max(patience, Math.min(ms * scale, ceiling - capacity));
      return {
        params: { ...params, patience: ahead },
        traits: { ...traits, paceMs: increment / scale, aheadMs: ahead / scale, slices: undefined },
      };
    },
  };
  return {
    params,
    window,
    shape: `${limit}/${toText(window)}+${burst}${maxDelay > 0 ? `~${toText(maxDelay)}` : ''}`,
    life: Math.ceil(ceiling / scale),
    traits,
  };
}

export const gcra: AlgorithmDefinition<GcraParams, TokenBucketPolicy | LeakyBucketPolicy> = {
  tag: 'g3',
  names: {
    'token-bucket': ['window', 'burst'],
    'leaky-bucket': ['window', 'burst', 'maxDelay'],
    gcra: ['window', 'burst'],
  },
  holdsSlots: false,
  compile,
  createColumn: (rows) => new GcraColumn(rows),
};
