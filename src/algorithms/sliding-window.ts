import { toText } from '../common/duration.js';
import { invalidOption } from '../common/errors.js';
import {
  areNumbers,
  MemoryColumn,
  MAX_COUNTED_UNITS,
  type Adjustment,
  type AlgorithmDefinition,
  type Compiled,
  type Given,
  type WindowPolicy,
  type Saved,
} from './algorithm.js';
import { FIELD_TABLE } from './fields.js';

/** The default: at most `limit` units in any window, in constant space, by counting `segments` sub-windows. */
export interface SlidingWindowPolicy extends WindowPolicy {
  /** At most `limit` in any window, counted in `segments` sub-windows. */
  algorithm?: 'sliding-window' | undefined;
  /** Sub-windows, 1 to 100. More of them free units sooner: a unit is held at most window/segments too long. @default 10 */
  segments?: number | undefined;
  /**
   * The dimension whose keys share the limit fairly. See https://github.com/headgate/headgate/blob/main/docs/fair-shares.md. A lone tenant may use the whole
   * limit, and backlogged tenants divide it by their weights. Requests without such a key are one tenant. @default the limit is not shared
   */
  share?: string | undefined;
  /** The weight of a request's tenant in `share`, 1 to 1,000, unless the request has its own. @default 1 */
  weight?: number | undefined;
}

type SlidingWindowParams = {
  readonly limit: number;
  /** The length of a sub-window, ms. */
  readonly segment: number;
  /** Segments per window. One more is counted. */
  readonly segments: number;
};

type Counters = Uint8Array | Uint16Array | Uint32Array | Float64Array;

function countersOf(buffer: ArrayBuffer, width: number): Counters {
  if (width === 1) return new Uint8Array(buffer);
  if (width === 2) return new Uint16Array(buffer);
  return width === 4 ? new Uint32Array(buffer) : new Float64Array(buffer);
}

/** The smallest counter width, in bytes, that holds a count. */
function widthOf(count: number): number {
  if (count < 2 ** 8) return 1;
  if (count < 2 ** 16) return 2;
  return count < 2 ** 32 ? 4 : 8;
}

/** Counters of segments, of which the oldest counts in full. Worst case in any window: limit. */
class SlidingWindowColumn extends MemoryColumn<SlidingWindowParams> {
  readonly #rows: number;
  readonly #segments: number;
  /**
   * A row's state is contiguous: the time at which the newest segment stops counting in 8 bytes, then in `#width` bytes each the total, and
   * the counters of all segments except the newest, newest first.
   */
  #stops!: Float64Array;
  #counts!: Counters;
  #width!: number;
  /** The largest total that fits into the counters. */
  #most!: number;
  /** Elements per row in `#stops` and in `#counts`, and the elements of `#counts` before a row's total. */
  #stopsEach!: number;
  #countsEach!: number;
  #countsFrom!: number;

  /** The results of `#read`: the current total, the stored end (0 if there is no state), and the segments begun since the newest stored one. */
  #total = 0;
  #stop = 0;
  #passed = 0;

  constructor(rows: number, segments: number, width = 1) {
    super();
    this.#rows = rows;
    this.#segments = segments;
    this.#shape(width);
  }

  /** Starts over with an empty buffer whose counters have `width` bytes. */
  #shape(width: number): void {
    const bytes = 8 * Math.ceil((8 + width * (1 + this.#segments)) / 8);
    this.#stops = new Float64Array((bytes / 8) * (this.#rows + 1));
    this.#counts = countersOf(this.#stops.buffer as ArrayBuffer, width);
    this.#width = width;
    this.#most = width === 8 ? Infinity : 2 ** (8 * width) - 1;
    this.#stopsEach = bytes / 8;
    this.#countsEach = bytes / width;
    this.#countsFrom = 8 / width;
  }

  /** Widens all counters. A column begins with a byte per counter, and few columns need more than two. */
  #widen(width: number): void {
    const before = this.sibling(0);
    before.#stops = this.#stops;
    before.#counts = this.#counts;
    this.#shape(width);
    for (let row = 1; row <= this.#rows; row++) this.take(before, row, row);
  }

  /** The position of a row's total. Its counters follow. */
  #countsAt(row: number): number {
    return row * this.#countsEach + this.#countsFrom;
  }

  #read(row: number, { segment, segments }: SlidingWindowParams, now: number): void {
    const life = (segments + 1) * segment;
    const stop = this.#stops[row * this.#stopsEach]!;
    this.#total = this.#stop = this.#passed = 0;
    this.isStale = false;
    if (stop <= now) return;
    const at = this.#countsAt(row);
    this.#total = this.#counts[at]!;
    this.#stop = stop;
    const age = now - (stop - life);
    if (age < 0) {
      // The clock went back. No segment may begin in the future.
      this.#stop = now + life;
      this.isStale = true;
    } else if (age >= segment) {
      this.#passed = Math.floor(age / segment);
      for (let i = segments - this.#passed + 1; i <= segments; i++) this.#total -= this.#counts[at + i]!;
    }
  }

  #newest(at: number): number {
    let newest = this.#counts[at]!;
    for (let i = 1; i <= this.#segments; i++) newest -= this.#counts[at + i]!;
    return newest;
  }

  /** The time until at most `allowed` units are left. Segments leave in order, oldest first. */
  #until(row: number, p: SlidingWindowParams, now: number, allowed: number): number {
    const counts = this.#counts;
    const at = this.#countsAt(row);
    let total = this.#total;
    let i = p.segments - this.#passed;
    while (i >= 1 && (total -= counts[at + i]!) > allowed) i--;
    return this.#stop - i * p.segment - now;
  }

  look(row: number, p: SlidingWindowParams, cost: number, now: number): void {
    const { limit } = p;
    this.#read(row, p, now);
    const total = this.#total;
    this.remaining = total < limit ? limit - total : 0;
    this.reset = total === 0 ? 0 : this.#stop - now;
    if (cost === 0 || total + cost <= limit) this.wait = 0;
    else this.wait = cost > limit ? -1 : this.#until(row, p, now, limit - cost);
  }

  override refresh(row: number): void {
    this.#stops[row * this.#stopsEach] = this.#stop;
  }

  commit(row: number, p: SlidingWindowParams, cost: number, now: number): void {
    this.#charge(row, p, cost, now);
    this.remaining = p.limit - this.#total;
    this.reset = this.#stop - now;
  }

  /** Charges the current segment. The stored segments age accordingly, and expired segments are dropped. */
  #charge(row: number, { segment, segments }: SlidingWindowParams, units: number, now: number): void {
    this.#total += units;
    if (this.#total > this.#most) this.#widen(widthOf(this.#total));
    const counts = this.#counts;
    const at = this.#countsAt(row);
    if (this.#stop === 0) {
      counts.fill(0, at + 1, at + 1 + segments);
      this.#stop = now + (segments + 1) * segment;
    } else if (this.#passed > 0) {
      const passed = this.#passed;
      const newest = this.#newest(at);
      for (let i = segments; i > passed; i--) counts[at + i] = counts[at + i - passed]!;
      for (let i = 1; i < passed; i++) counts[at + i] = 0;
      counts[at + passed] = newest;
      this.#stop += passed * segment;
    }
    this.#stops[row * this.#stopsEach] = this.#stop;
    counts[at] = this.#total;
  }

  /** Gives back to the segment that was charged, or without a mark to the oldest segment, whose units become free soonest anyway. */
  #giveBack(row: number, { segment, segments }: SlidingWindowParams, units: number, mark?: number): void {
    const counts = this.#counts;
    const at = this.#countsAt(row);
    // Units that have left the window must not count again if the clock goes back.
    counts[at] = this.#total;
    for (let i = segments - this.#passed + 1; i <= segments; i++) counts[at + i] = 0;
    for (let i = segments - this.#passed; i >= 0; i--) {
      // If the clock went back, all segments end earlier than at the charge.
      if (mark !== undefined && Math.ceil((this.#stop - mark) / segment) !== i) continue;
      const back = Math.min(units, i === 0 ? this.#newest(at) : counts[at + i]!);
      units -= back;
      this.#total -= back;
      counts[at] -= back;
      if (i > 0) counts[at + i]! -= back;
    }
    // Drop newest segments without units, so that the state ends when its last unit leaves.
    if (this.#total === 0) this.#stop = 0;
    while (this.#stop > 0 && this.#newest(at) === 0) {
      counts.copyWithin(at + 1, at + 2, at + 1 + segments);
      counts[at + segments] = 0;
      this.#stop -= segment;
    }
    this.#stops[row * this.#stopsEach] = this.#stop;
  }

  adjust(row: number, p: SlidingWindowParams, { units, now, of }: Adjustment): number {
    this.#read(row, p, now);
    const charged = Math.max(0, Math.min(units, MAX_COUNTED_UNITS - this.#total));
    if (charged > 0) this.#charge(row, p, charged, now);
    else if (this.#stop > 0) this.#giveBack(row, p, -units, of?.mark);
    this.wait = 0;
    this.remaining = Math.max(0, p.limit - this.#total);
    this.reset = this.#total === 0 ? 0 : this.#stop - now;
    return charged;
  }

  until(row: number): number {
    return this.#stops[row * this.#stopsEach]!;
  }

  clear(row: number): void {
    this.#stops[row * this.#stopsEach] = 0;
  }

  sibling(rows: number): SlidingWindowColumn {
    return new SlidingWindowColumn(rows, this.#segments, this.#width);
  }

  take(from: SlidingWindowColumn, theirs: number, ours: number): void {
    this.#stops[ours * this.#stopsEach] = from.#stops[theirs * from.#stopsEach]!;
    const at = from.#countsAt(theirs);
    const to = this.#countsAt(ours);
    for (let i = 0; i <= this.#segments; i++) this.#counts[to + i] = from.#counts[at + i]!;
  }

  save(row: number): Saved {
    const at = this.#countsAt(row);
    return [this.until(row), ...this.#counts.subarray(at, at + 1 + this.#segments)];
  }

  load(row: number, saved: Saved): void {
    if (saved.length !== 2 + this.#segments || !areNumbers(saved)) return;
    const [stop, total, ...older] = saved as readonly [number, number, ...number[]];
    // The newest segment must have units.
    if (older.reduce((sum, count) => sum + count, 0) >= total) return;
    if (total > this.#most) this.#widen(widthOf(total));
    this.#counts.set([total, ...older], this.#countsAt(row));
    this.#stops[row * this.#stopsEach] = stop;
  }

  override fetch(row: number): number {
    return this.#stops[row * this.#stopsEach]!;
  }
}

/** Rounds segments up to whole milliseconds, so that the window is never shorter than configured. */
function compile(what: string, given: Given): Compiled<SlidingWindowParams> {
  const { limit } = given;
  const window = FIELD_TABLE.window.read(`${what}.window`, given.window);
  const asked = FIELD_TABLE.segments.read(`${what}.segments`, given.segments);
  const segment = Math.ceil(window / asked);
  if (segment >= 2 ** 32) {
    throw invalidOption(`${what}.window`, window, 'Sub-windows can have at most 49 days. Raise `segments`.');
  }
  const segments = Math.ceil(window / segment);
  return {
    params: { limit, segment, segments },
    window,
    shape: `${toText(segment)}x${segments}`,
    life: (segments + 1) * segment,
    traits: {
      capacity: limit,
      paceMs: undefined,
      // Units count with the segment of their charge.
      slices: { endsIn: (resetMs) => resetMs - segments * segment, lostPerMs: 0 },
      unit: undefined,
      nextUnitMs: (remaining, resetMs) => (remaining === 0 ? resetMs : 0),
    },
  };
}

export const slidingWindow: AlgorithmDefinition<SlidingWindowParams, SlidingWindowPolicy> = {
  tag: 's3',
  names: { 'sliding-window': ['window', 'segments', 'share', 'weight'] },
  luaParams: { limit: 5, segment: 5, segments: 1 },
  compile,
  createColumn: (rows, { segments }) => new SlidingWindowColumn(rows, segments),
};
