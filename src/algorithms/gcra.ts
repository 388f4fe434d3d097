import { toText, type Duration } from '../common/duration.js';
import { invalidOption } from '../common/errors.js';
import {
  areNumbers,
  MAX_FILL_MS,
  MAX_TICKS,
  PairColumn,
  type Adjustment,
  type AlgorithmDefinition,
  type Compiled,
  type Given,
  type WindowPolicy,
  type Returned,
  type Saved,
} from './algorithm.js';
import {
  type GcraParams,
  type Changing,
  type Written,
  baseOf,
  debtLeft,
  roundingOf,
  lastOf,
  patienceOf,
  leftOfOld,
} from './debts.js';
import { FIELD_TABLE } from './fields.js';

/** The GCRA kernel under its common names: `limit` per `window`, spread evenly, with `burst` at once. */
export interface TokenBucketPolicy extends WindowPolicy {
  /** Admits bursts of `burst` units, then a steady rate of `limit` per `window`. The two names have the same meaning. */
  algorithm: 'token-bucket' | 'gcra';
  /** The most units that can be spent at once. In redis-cell: `max_burst + 1`. @default limit */
  burst?: number | undefined;
}

/** A leaky bucket: a meter equal to the token bucket. With `maxDelay`, requests are held until their turn. */
export interface LeakyBucketPolicy extends WindowPolicy {
  /** As `'token-bucket'`. With `maxDelay`, requests wait for their turn at a steady rate instead of being denied. */
  algorithm: 'leaky-bucket';
  /** The most units that can be spent at once. @default limit */
  burst?: number | undefined;
  /** The longest time to hold a request for its turn. With 0, the bucket is only a meter. @default 0 */
  maxDelay?: Duration | undefined;
}

/**
 * Stores the theoretical arrival time (TAT). The backlog is the distance to a future TAT. A row's pair: the TAT rounded up to a
 * millisecond, and the ticks to subtract from the TAT. Worst case in any window: burst + limit.
 */
class GcraColumn extends PairColumn<GcraParams> {
  #backlog = 0;
  /** The debt beyond the ceiling from the time when the rate changed. This part is returned first. */
  #cut = 0;
  /** The time and the rate of the last write, for rows whose rate has changed. Every other row has the configured rate. */
  readonly #written = new Map<number, Written>();
  /** The time until which a debt may count by later rates, for rows whose rate changes. */
  readonly #kept = new Map<number, number>();

  #write(row: number, p: Changing, now: number, backlog: number): number {
    const reset = Math.ceil(backlog / p.scale);
    this.state[2 * row] = now + reset;
    this.state[2 * row + 1] = reset * p.scale - backlog;
    if (p.rates) this.#written.set(row, { at: now, scale: p.scale, increment: p.increment, cut: this.#cut });
    else if (this.#written.size > 0) this.#written.delete(row);
    if (this.#kept.size > 0) this.#kept.delete(row);
    if (p.rates) this.keep(row, lastOf(p, now, now + reset));
    return reset;
  }

  override keep(row: number, until: number): void {
    if (until > super.until(row)) this.#kept.set(row, until);
  }

  override until(row: number): number {
    const until = super.until(row);
    return this.#kept.size > 0 && until > 0 ? Math.max(until, this.#kept.get(row) ?? 0) : until;
  }

  #read(row: number, p: Changing, now: number): number {
    const { scale, rates } = p;
    const stop = this.state[2 * row]!;
    const written = this.#written.size > 0 ? this.#written.get(row) : undefined;
    const isChanged = rates !== undefined || written !== undefined;
    this.#cut = 0;
    this.isStale = false;
    if (stop <= now && !isChanged) return 0;
    const part = this.state[2 * row + 1]!;
    let backlog: number;
    if (isChanged) {
      const left = debtLeft(p, { stop, part }, written ?? { ...baseOf(p), at: 0, cut: 0 }, now);
      ({ backlog, cut: this.#cut } = left);
    } else {
      backlog = Math.max(0, (stop - now) * scale - (part < scale ? part : 0));
    }
    this.isStale = backlog > p.ceiling;
    return this.isStale ? p.ceiling : backlog;
  }

  look(row: number, p: Changing, cost: number, now: number): void {
    const { scale, increment, capacity } = p;
    const patience = p.rates ? patienceOf(p) : p.patience;
    const backlog = this.#read(row, p, now);
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

  override refresh(row: number, p: Changing, now: number): void {
    this.#write(row, p, now, this.#backlog);
  }

  commit(row: number, p: GcraParams, cost: number, now: number): void {
    const backlog = this.#backlog + cost * p.increment;
    this.reset = this.#write(row, p, now, backlog);
    this.remaining = Math.max(0, Math.floor((p.capacity - backlog) / p.increment));
  }

  adjust(row: number, p: Changing, { units, now, of }: Adjustment): number {
    let backlog = this.#read(row, p, now);
    // Bounds the debt, so that a key never waits longer than one window for a unit.
    const charged = Math.max(0, Math.min(units, Math.floor((p.ceiling - backlog) / p.increment)));
    let [back, returned] = [0, 0];
    if (units > 0) {
      backlog += charged * p.increment;
    } else {
      const charge = -units * p.increment;
      back = Math.min(backlog + this.#cut, of ? this.#left(p, charge, now, of) : charge);
      const cut = Math.min(this.#cut, back);
      this.#cut -= cut;
      backlog -= back - cut;
      // Histories are in ticks of the configured rate.
      if (p.rates) returned = Math.ceil((back * baseOf(p).increment) / p.increment);
      else returned = back;
    }
    this.wait = 0;
    this.reset = this.#write(row, p, now, backlog);
    if (backlog === 0) this.clear(row);
    this.remaining = Math.max(0, Math.floor((p.capacity - backlog) / p.increment));
    return back > 0 ? returned : charged;
  }

  /**
   * The part of a charge that certainly has not drained yet. A charge drains after earlier charges, and not before its own time. Drained
   * units cannot be returned, because the key could already have spent the units again.
   */
  #left(p: Changing, charge: number, now: number, { mark, at, shift }: Returned): number {
    const { scale, rates } = p;
    if (rates) return leftOfOld(p, charge, now, { mark, at, shift });
    const inTurn = (mark - now) * scale - roundingOf(p) - shift;
    return Math.max(0, Math.min(charge, Math.max(inTurn, charge - (now - at) * scale)));
  }

  override clear(row: number): void {
    super.clear(row);
    if (this.#written.size > 0) this.#written.delete(row);
    if (this.#kept.size > 0) this.#kept.delete(row);
  }

  override take(from: GcraColumn, theirs: number, ours: number): void {
    super.take(from, theirs, ours);
    const written = from.#written.get(theirs);
    if (written !== undefined) this.#written.set(ours, written);
    else if (this.#written.size > 0) this.#written.delete(ours);
    const kept = from.#kept.get(theirs);
    if (kept !== undefined) this.#kept.set(ours, kept);
    else if (this.#kept.size > 0) this.#kept.delete(ours);
  }

  override save(row: number): Saved {
    const written = this.#written.get(row);
    const saved = super.save(row);
    return written ? [...saved, written.at, written.scale, written.increment, written.cut] : saved;
  }

  override load(row: number, saved: Saved): void {
    if (saved.length !== 6 || !areNumbers(saved)) return super.load(row, saved);
    const [at, scale, increment, cut] = saved.slice(2) as [number, number, number, number];
    if (scale === 0 || increment === 0) return;
    super.load(row, saved.slice(0, 2));
    this.#written.set(row, { at, scale, increment, cut });
  }

  sibling(rows: number): GcraColumn {
    return new GcraColumn(rows);
  }
}

function divisor(a: number, b: number): number {
  return b === 0 ? a : divisor(b, a % b);
}

/** The largest `scale`. Below it, a fraction of a millisecond fits in 32 bits. */
const MAX_TICKS_PER_MS = 2 ** 31;

/**
 * Picks a scale in which a unit is a whole number of ticks, so that no rate is rounded. A rate that is too fine for such a scale is rounded
 * down by less than 0.1 %, so that Headgate admits slightly less than configured, never more.
 */
function compile(what: string, given: Given): Compiled<GcraParams> {
  const { limit } = given;
  const window = FIELD_TABLE.window.read(`${what}.window`, given.window);
  const burst = FIELD_TABLE.burst.read(`${what}.burst`, given.burst) ?? limit;
  const maxDelay = FIELD_TABLE.maxDelay.read(`${what}.maxDelay`, given.maxDelay);
  const exact = limit / divisor(limit, window);
  // The longest backlog in ms limits how many ticks a millisecond can have.
  const longest = Math.ceil((burst / limit) * window) + maxDelay + window;
  const fits = exact <= MAX_TICKS_PER_MS && exact * longest <= MAX_TICKS;
  const scale = fits ? exact : Math.min(MAX_TICKS_PER_MS, Math.floor(MAX_TICKS / longest));
  const increment = Math.ceil((window * scale) / limit);
  if (longest > MAX_FILL_MS || (!fits && increment <= 1000)) {
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
    paceMs: maxDelay > 0 ? increment / scale : undefined,
    // A refund of earlier charges may move a slice forward, so its units may begin to drain at once.
    slices: maxDelay > 0 ? undefined : { endsIn: (resetMs) => resetMs, lostPerMs: scale / increment },
    unit: undefined,
    nextUnitMs: (remaining, resetMs) => resetMs - ((burst - remaining - 1) * window) / limit,
    aheadMs: maxDelay > 0 ? maxDelay : undefined,
    // The ceiling stays, so that the state has the same meaning for callers that do not reserve.
    reserving(ms) {
      const ahead = Math.max(patience, Math.min(ms * scale, ceiling - capacity));
      return {
        params: { ...params, patience: ahead },
        traits: { paceMs: increment / scale, aheadMs: ahead / scale, slices: undefined },
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
  drains: true,
  luaParams: { scale: 4, increment: 6, capacity: 6, patience: 6, ceiling: 6 },
  compile,
  createColumn: (rows) => new GcraColumn(rows),
};
