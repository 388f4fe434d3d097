import { toMilliseconds, toText, type Duration } from '../common/duration.js';
import { invalidOption } from '../common/errors.js';
import { checkInteger } from '../common/validate.js';
import {
  areNumbers,
  Column,
  MOST_COUNTED,
  type AlgorithmDefinition,
  type Compiled,
  type Given,
  type QuotaPolicy,
  type Returned,
  type Saved,
} from './algorithm.js';

/** The default: at most `limit` units in any window, in constant space, by counting `segments` sub-windows. */
export interface SlidingWindowPolicy extends QuotaPolicy {
  /** How it counts: this is the default. */
  algorithm?: 'sliding-window';
  /** The length of the window: ms, or `'10s'`, `'15m'`, `'1h'`, up to 366 days. */
  window: Duration;
  /** Sub-windows: 1 to 100, default 10. More frees units sooner (a unit is held at most window/segments too long). */
  segments?: number;
}

type SlidingWindowParams = {
  readonly limit: number;
  /** The length of a sub-window, ms. */
  readonly segment: number;
  /** How many full ones make a window; one more is counted. */
  readonly segments: number;
};

type Counters = Uint8Array | Uint16Array | Uint32Array | Float64Array;

function countersOf(buffer: ArrayBuffer, width: number): Counters {
  if (width === 1) return new Uint8Array(buffer);
  if (width === 2) return new Uint16Array(buffer);
  return width === 4 ? new Uint32Array(buffer) : new Float64Array(buffer);
}

/** The fewest bytes that hold a count. */
function widthOf(count: number): number {
  if (count < 2 ** 8) return 1;
  if (count < 2 ** 16) return 2;
  return count < 2 ** 32 ? 4 : 8;
}

/** Counters of sub-windows, the oldest counted whole. Worst case in any window: limit. */
class SlidingWindowColumn extends Column<SlidingWindowParams> {
  readonly #slots: number;
  readonly #segments: number;
  /**
   * A slot's state lies together: the moment at which the newest segment no longer counts (8 bytes); then, `#width` bytes each,
   * the total, and the counters of all segments but the newest, newest first.
   */
  #stops!: Float64Array;
  #counts!: Counters;
  #width!: number;
  /** The elements of a slot in `#stops`, in `#counts`, and those before its counts. */
  #stopsEach!: number;
  #countsEach!: number;
  #countsFrom!: number;

  /** What `#read` found: the counters of a slot, shifted to now. `#current`: as they are stored. */
  #total = 0;
  #newest = 0;
  #older: number[] = [];
  #end = 0;
  #current = false;

  constructor(slots: number, segments: number, width = 1) {
    super();
    this.#slots = slots;
    this.#segments = segments;
    this.#shape(width);
  }

  /** Begins with an empty buffer of counters of `width` bytes. */
  #shape(width: number): void {
    const bytes = 8 * Math.ceil((8 + width * (1 + this.#segments)) / 8);
    this.#stops = new Float64Array((bytes / 8) * (this.#slots + 1));
    this.#counts = countersOf(this.#stops.buffer as ArrayBuffer, width);
    this.#width = width;
    this.#stopsEach = bytes / 8;
    this.#countsEach = bytes / width;
    this.#countsFrom = 8 / width;
  }

  /** Makes room for a total. Columns begin with one byte a counter, and few ever need more than two. */
  #fit(total: number): void {
    const width = widthOf(total);
    if (width <= this.#width) return;
    const before = this.sibling(0);
    before.#stops = this.#stops;
    before.#counts = this.#counts;
    this.#shape(width);
    for (let slot = 1; slot <= this.#slots; slot++) this.take(before, slot, slot);
  }

  #stopAt(slot: number): number {
    return slot * this.#stopsEach;
  }

  /** Where a slot's total is; its counters follow. */
  #countsAt(slot: number): number {
    return slot * this.#countsEach + this.#countsFrom;
  }

  /** Newest segments without a unit are left out, so that the state ends when its last unit leaves. Returns that moment. */
  #write(slot: number, p: SlidingWindowParams, newest: number): number {
    this.#fit(this.#total);
    const older = this.#older;
    let skip = 0;
    while (newest === 0 && skip < p.segments) newest = older[++skip] ?? 0;
    const at = this.#countsAt(slot);
    this.#counts[at] = this.#total;
    for (let i = 1; i <= p.segments; i++) this.#counts[at + i] = older[i + skip] ?? 0;
    return (this.#stops[this.#stopAt(slot)] = this.#end - skip * p.segment);
  }

  /** The stored counters without the newest, into `#older[1..]` and `#newest`. */
  #unpack(slot: number): void {
    const at = this.#countsAt(slot);
    this.#newest = this.#counts[at]!;
    for (let i = 1; i <= this.#segments; i++) {
      const count = this.#counts[at + i]!;
      this.#older[i] = count;
      this.#newest -= count;
    }
    this.#older.length = this.#segments + 1;
  }

  #none(): void {
    this.#total = this.#newest = this.#end = 0;
    this.#older.length = 0;
    this.#current = false;
  }

  #read(slot: number, p: SlidingWindowParams, now: number, writable: boolean): void {
    const { segment, segments } = p;
    const life = (segments + 1) * segment;
    const stop = this.#stops[this.#stopAt(slot)]!;
    if (stop <= now) return this.#none();
    let start = stop - life;
    if (start <= now && now < start + segment) {
      this.#total = this.#counts[this.#countsAt(slot)]!;
      this.#end = stop;
      this.#current = true;
      return;
    }

    // The newest segment is over, or the clock went back: take the counters apart.
    const healing = start > now;
    if (healing) start = now;
    this.#unpack(slot);
    const passed = Math.floor((now - start) / segment);
    const shifted: number[] = [];
    this.#total = 0;
    for (let i = 0; i <= segments; i++) {
      const from = i - passed;
      shifted[i] = from === 0 ? this.#newest : from < 0 ? 0 : this.#older[from]!;
      this.#total += shifted[i]!;
    }
    if (this.#total === 0) return this.#none();
    this.#newest = shifted[0]!;
    this.#older = shifted;
    this.#end = start + passed * segment + life;
    this.#current = false;
    if (healing && writable) this.#write(slot, p, this.#newest);
  }

  /** The time until at most `allowed` units are left: segments leave from the oldest on. */
  #until(p: SlidingWindowParams, now: number, allowed: number): number {
    let total = this.#total;
    for (let i = p.segments; i >= 1; i--) {
      total -= this.#older[i] ?? 0;
      if (total <= allowed) return this.#end - i * p.segment - now;
    }
    return this.#end - now;
  }

  /** The same for counters as they are stored, in place. */
  #untilStored(slot: number, p: SlidingWindowParams, now: number, allowed: number): number {
    const counts = this.#counts;
    const at = this.#countsAt(slot);
    let total = this.#total;
    let i = p.segments;
    while (i >= 1 && (total -= counts[at + i]!) > allowed) i--;
    return this.#end - i * p.segment - now;
  }

  look(slot: number, p: SlidingWindowParams, cost: number, now: number, writable: boolean): void {
    const { limit } = p;
    this.#read(slot, p, now, writable);
    const total = this.#total;
    this.remaining = total < limit ? limit - total : 0;
    this.reset = total === 0 ? 0 : this.#current ? this.#end - now : this.#until(p, now, 0);
    if (cost === 0 || total + cost <= limit) {
      this.wait = 0;
    } else if (cost > limit) {
      this.wait = -1;
    } else {
      this.wait = this.#current
        ? this.#untilStored(slot, p, now, limit - cost)
        : this.#until(p, now, limit - cost);
    }
  }

  commit(slot: number, p: SlidingWindowParams, cost: number, now: number): void {
    this.#total += cost;
    if (this.#current) {
      this.#fit(this.#total);
      this.#counts[this.#countsAt(slot)] = this.#total;
    } else {
      if (this.#end === 0) this.#end = now + (p.segments + 1) * p.segment;
      this.#write(slot, p, cost);
    }
    this.remaining = p.limit - this.#total;
    this.reset = this.#end - now;
  }

  adjust(slot: number, p: SlidingWindowParams, units: number, now: number, of: Returned | undefined): number {
    const { limit, segment, segments } = p;
    this.#read(slot, p, now, true);
    if (this.#current) this.#unpack(slot);
    const older = this.#older;
    const charged = Math.max(0, Math.min(units, MOST_COUNTED - this.#total));
    if (charged > 0) {
      if (this.#end === 0) this.#end = now + (segments + 1) * segment;
      this.#newest += charged;
      this.#total += charged;
    } else {
      // Back to the segment that was charged; without a mark, from the oldest on, which frees least.
      for (let i = segments; i >= 0; i--) {
        if (of && of.mark !== this.#end - i * segment) continue;
        const count = i === 0 ? this.#newest : (older[i] ?? 0);
        const back = Math.min(count, -units);
        units += back;
        this.#total -= back;
        if (i === 0) this.#newest = count - back;
        else older[i] = count - back;
      }
    }
    this.wait = 0;
    if (this.#total === 0) {
      if (this.#end !== 0) this.clear(slot);
      this.remaining = limit;
      this.reset = 0;
    } else {
      this.remaining = Math.max(0, limit - this.#total);
      this.reset = this.#write(slot, p, this.#newest) - now;
    }
    return charged;
  }

  until(slot: number): number {
    return this.#stops[this.#stopAt(slot)]!;
  }

  clear(slot: number): void {
    this.#stops[this.#stopAt(slot)] = 0;
  }

  sibling(slots: number): SlidingWindowColumn {
    return new SlidingWindowColumn(slots, this.#segments, this.#width);
  }

  take(from: SlidingWindowColumn, theirs: number, ours: number): void {
    this.#stops[this.#stopAt(ours)] = from.#stops[from.#stopAt(theirs)]!;
    const at = from.#countsAt(theirs);
    const to = this.#countsAt(ours);
    for (let i = 0; i <= this.#segments; i++) this.#counts[to + i] = from.#counts[at + i]!;
  }

  save(slot: number): Saved {
    const at = this.#countsAt(slot);
    return [this.until(slot), ...this.#counts.subarray(at, at + 1 + this.#segments)];
  }

  load(slot: number, saved: Saved): void {
    if (saved.length !== 2 + this.#segments || !areNumbers(saved)) return;
    const [stop, total, ...older] = saved as readonly [number, number, ...number[]];
    if (older.reduce((sum, count) => sum + count, 0) > total) return;
    this.#fit(total);
    this.#counts.set([total, ...older], this.#countsAt(slot));
    this.#stops[this.#stopAt(slot)] = stop;
  }

  override fetch(slot: number): number {
    return this.#stops[this.#stopAt(slot)]!;
  }
}

/** Segments are rounded up to whole milliseconds: the window is never shorter than was asked for. */
function compile(what: string, given: Given): Compiled<SlidingWindowParams> {
  const { limit } = given;
  const window = toMilliseconds(`${what}.window`, given.window);
  const asked = given.segments === undefined ? 10 : checkInteger(`${what}.segments`, given.segments, 1, 100);
  const segment = Math.ceil(window / asked);
  if (segment >= 2 ** 32) {
    throw invalidOption(
      `${what}.window`,
      window,
      'Sub-windows of more than 49 days are not possible: raise `segments`.',
    );
  }
  const segments = Math.ceil(window / segment);
  return {
    params: { limit, segment, segments },
    window,
    shape: `${toText(segment)}x${segments}`,
    life: (segments + 1) * segment,
    traits: {
      capacity: limit,
      drains: false,
      paceMs: undefined,
      slices: 'any-time',
      unit: undefined,
      nextUnitMs: (remaining, resetMs) => (remaining === 0 ? resetMs : 0),
    },
  };
}

export const slidingWindow: AlgorithmDefinition<SlidingWindowParams, SlidingWindowPolicy> = {
  tag: 's3',
  names: { 'sliding-window': ['window', 'segments'] },
  holdsSlots: false,
  compile,
  createColumn: (slots, { segments }) => new SlidingWindowColumn(slots, segments),
};
