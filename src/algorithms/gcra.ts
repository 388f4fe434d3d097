import { toText, type Duration } from '../common/duration.js';
import { invalidOption } from '../common/errors.js';
import {
  areNumbers,
  MAX_FILL_MS,
  MAX_TICKS,
  PairColumn,
  type AlgorithmDefinition,
  type Compiled,
  type Given,
  type WindowPolicy,
  type Rates,
  type Returned,
  type Saved,
} from './algorithm.js';
import { FIELD_TABLE } from './fields.js';

/** The GCRA kernel under its common names: `limit` per `window`, spread evenly, with `burst` at once. */
export interface TokenBucketPolicy extends WindowPolicy {
  /** Admits bursts of `burst` units, then a steady rate of `limit` per `window`. The two names have the same meaning. */
  algorithm: 'token-bucket' | 'gcra';
  /** The most units that can be spent at once. In redis-cell: `max_burst + 1`. @default limit */
  burst?: number;
}

/** A leaky bucket: a meter equal to the token bucket. With `maxDelay`, requests are held until their turn. */
export interface LeakyBucketPolicy extends WindowPolicy {
  /** As `'token-bucket'`. With `maxDelay`, requests wait for their turn at a steady rate instead of being denied. */
  algorithm: 'leaky-bucket';
  /** The most units that can be spent at once. @default limit */
  burst?: number;
  /** The longest time to hold a request for its turn instead of denying the request. With 0, the bucket is only a meter. @default 0 */
  maxDelay?: Duration;
}

/** All fields but `scale` are in ticks; a millisecond has `scale` ticks. */
type GcraParams = {
  readonly scale: number;
  /** One unit. */
  readonly increment: number;
  /** `burst` units: the most that can be spent at once. */
  readonly capacity: number;
  /** The most that a request may be delayed (leaky bucket with maxDelay). */
  readonly patience: number;
  /** The largest backlog, so that a key never has to wait longer than one window. */
  readonly ceiling: number;
};

/** The params of a bucket that an override changes now, or has changed lately. */
type Changing = GcraParams & { readonly rates?: Rates };

/**
 * Stores the theoretical arrival time (TAT). The backlog is the distance to a future TAT. A row's pair: the TAT rounded up to a
 * millisecond, and the ticks to subtract from the TAT. Worst case in any window: burst + limit.
 */
class GcraColumn extends PairColumn<GcraParams> {
  #backlog = 0;
  /** The debt beyond the ceiling from the time when an override changed the rate. This part is returned first. */
  #cut = 0;
  /** The time and the rate of the last write, for rows that have had an override. Every other row has the configured rate. */
  readonly #written = new Map<number, Written>();

  #write(row: number, p: Changing, now: number, backlog: number): number {
    const reset = Math.ceil(backlog / p.scale);
    this.state[2 * row] = now + reset;
    this.state[2 * row + 1] = reset * p.scale - backlog;
    if (p.rates) this.#written.set(row, { at: now, scale: p.scale, increment: p.increment, cut: this.#cut });
    else if (this.#written.size > 0) this.#written.delete(row);
    return reset;
  }

  #read(row: number, p: Changing, now: number, writable: boolean): number {
    const { scale, rates } = p;
    const stop = this.state[2 * row]!;
    const written = this.#written.size > 0 ? this.#written.get(row) : undefined;
    const isChanged = rates !== undefined || written !== undefined;
    this.#cut = 0;
    if (stop <= now && !isChanged) return 0;
    const part = this.state[2 * row + 1]!;
    let backlog: number;
    if (isChanged) {
      const left = debtLeft(p, { stop, part }, written ?? { ...baseOf(p), at: 0, cut: 0 }, now);
      ({ backlog, cut: this.#cut } = left);
    } else {
      backlog = Math.max(0, (stop - now) * scale - (part < scale ? part : 0));
    }
    if (backlog > p.ceiling) {
      backlog = p.ceiling;
      if (writable) this.#write(row, p, now, backlog);
    }
    return backlog;
  }

  look(row: number, p: Changing, cost: number, now: number, writable: boolean): void {
    const { scale, increment, capacity } = p;
    const patience = p.rates ? patienceOf(p) : p.patience;
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

  adjust(row: number, p: Changing, units: number, now: number, of: Returned | undefined): number {
    let backlog = this.#read(row, p, now, true);
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
  }

  override take(from: GcraColumn, theirs: number, ours: number): void {
    super.take(from, theirs, ours);
    const written = from.#written.get(theirs);
    if (written !== undefined) this.#written.set(ours, written);
    else if (this.#written.size > 0) this.#written.delete(ours);
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

/** A debt at its write: the time of the full payment, rounded up to a millisecond, and the ticks to subtract. */
interface Debt {
  readonly stop: number;
  readonly part: number;
}

/** The time and the rate of a debt's last write. */
interface Written extends Pick<GcraParams, 'scale' | 'increment'> {
  readonly at: number;
  /** The debt beyond the ceiling, in ticks. */
  readonly cut: number;
}

const rateAt = ({ rates, ...p }: Changing, time: number): GcraParams =>
  rates ? (rates.at(time) as GcraParams) : p;
const baseOf = ({ rates, ...p }: Changing): GcraParams => (rates ? (rates.base as GcraParams) : p);

/**
 * The rest of a debt, in ticks of the current rate. A debt drains by the rate of each time. At each change of the rate or of the ceiling, the
 * owed units stay the same: five of ten are five of a hundred.
 */
function debtLeft(p: Changing, debt: Debt, written: Written, now: number): { backlog: number; cut: number } {
  let { cut } = written;
  let rate: Pick<GcraParams, 'scale' | 'increment'> = written;
  let { stop, part } = debt;
  const boundaries = p.rates ? p.rates.boundaries(written.at, now) : [];
  // An override may have begun or ended in the millisecond in which the debt was written.
  let { ceiling } = rateAt(p, written.at);
  if (written.at > 0 && (stop - written.at) * rate.scale - part > ceiling) ceiling = Infinity;
  for (const time of [written.at, ...boundaries, now]) {
    const next = time === now ? p : rateAt(p, time);
    const isSame = next.scale === rate.scale && next.increment === rate.increment && next.ceiling === ceiling;
    if (isSame) continue;
    const ticks = (stop - time) * rate.scale - part;
    if (ticks <= 0) return { backlog: 0, cut: 0 };
    const units = Math.floor((ticks + cut) / rate.increment);
    const rest = ticks + cut - units * rate.increment;
    const all = units * next.increment + Math.ceil((rest * next.increment) / rate.increment);
    // No request waits for the debt beyond the ceiling. A higher rate makes it count again.
    ({ ceiling } = next);
    const owed = Math.min(all, ceiling);
    cut = Math.min(all - owed, MAX_TICKS);
    const paidIn = Math.ceil(owed / next.scale);
    stop = time + paidIn;
    part = paidIn * next.scale - owed;
    rate = next;
  }
  const backlog = Math.max(0, (stop - now) * rate.scale - part);
  return { backlog, cut: backlog === 0 ? 0 : cut };
}

/** The most ticks that rounding a mark up to a millisecond can have added. */
function roundingOf({ scale, increment }: GcraParams): number {
  return increment % scale === 0 ? 0 : scale - 1;
}

/** `patience` as the time for which the configured bucket may hold a request. */
function patienceOf(p: Changing): number {
  const base = baseOf(p);
  return Math.min(Math.floor((base.patience * p.scale) / base.scale), p.ceiling - p.capacity);
}

/** The part of a charge that has certainly not drained yet, if the rate may have changed since. See `GcraColumn`. */
function leftOfOld(p: Changing, charge: number, now: number, of: Returned): number {
  const shift = Math.ceil((of.shift * p.increment) / baseOf(p).increment);
  const isChanged = p.rates!.boundaries(of.at - 1, now).length > 0;
  // In the millisecond of a change, the rate of the charge is not known. Use the rate that returns least.
  const left = p.rates!.around(of.at).map((params) => {
    const rate = params as GcraParams;
    const owed = (charge / p.increment) * rate.increment;
    const time = Math.ceil(owed / rate.scale);
    const written = { ...rate, at: of.at, cut: 0 };
    // Marks are rounded up, and every change of the rate rounds up their conversion. Subtract the most that rounding can have added.
    const rounding = isChanged
      ? p.scale + Math.ceil((rate.scale * p.increment) / rate.increment)
      : roundingOf(p);
    const before = debtLeft(p, { stop: of.mark, part: 0 }, written, now);
    const alone = debtLeft(p, { stop: of.at + time, part: time * rate.scale - owed }, written, now);
    return Math.max(before.backlog + before.cut - rounding - shift, alone.backlog + alone.cut);
  });
  return Math.max(0, Math.min(charge, ...left));
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
    drains: true,
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
  holdsSlots: false,
  compile,
  createColumn: (rows) => new GcraColumn(rows),
};
