import { invalidOption } from '../errors.js';
import { checkInteger } from '../validate.js';
import { Column, type AlgorithmDefinition, type Given } from './algorithm.js';

type SlidingWindowParams = {
  readonly limit: number;
  /** The length of a sub-window, ms. */
  readonly segment: number;
  /** How many full ones make a window; one more is counted. */
  readonly segments: number;
  /** Bytes a counter. */
  readonly width: number;
};

type Counters = Uint8Array | Uint16Array | Uint32Array | Float64Array;

function countersOf(buffer: ArrayBuffer, width: number): Counters {
  if (width === 1) return new Uint8Array(buffer);
  if (width === 2) return new Uint16Array(buffer);
  return width === 4 ? new Uint32Array(buffer) : new Float64Array(buffer);
}

/** Counters of sub-windows, the oldest counted whole. Worst case in any window: limit. */
class SlidingWindowColumn extends Column<SlidingWindowParams> {
  /** By which params a slot can be written: it has an index of these. */
  readonly #layouts: SlidingWindowParams[];
  /**
   * A slot's state lies together: the moment at which the newest segment no longer counts (8 bytes); then, `#width` bytes each,
   * its layout, the total, and the counters of all segments but the newest, newest first.
   */
  #stops!: Float64Array;
  #counts!: Counters;
  #width!: number;
  /** How many segments there is room for. */
  #segments!: number;
  readonly #slots: number;
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

  constructor(slots: number, width = 1, segments = 0, layouts: readonly SlidingWindowParams[] = []) {
    super();
    this.#slots = slots;
    this.#layouts = [...layouts];
    this.#shape(width, segments);
  }

  #indexOf(p: SlidingWindowParams): number {
    const layouts = this.#layouts;
    for (let i = 0; i < layouts.length; i++) {
      const layout = layouts[i]!;
      if (
        layout === p ||
        (layout.segment === p.segment && layout.segments === p.segments && layout.width === p.width)
      ) {
        return i;
      }
    }
    const width = Math.max(this.#width, p.width, widthOf(layouts.length));
    this.#fit(width, Math.max(this.#segments, p.segments));
    return layouts.push(p) - 1;
  }

  /** Moves the slots to a buffer of another shape, with room for all that they have. */
  #fit(width: number, segments: number): void {
    if (width === this.#width && segments === this.#segments) return;
    const before = this.sibling(0);
    before.#stops = this.#stops;
    before.#counts = this.#counts;
    this.#shape(width, segments);
    for (let slot = 1; slot <= this.#slots; slot++) this.take(before, slot, slot);
  }

  /** Begins with an empty buffer of this shape. */
  #shape(width: number, segments: number): void {
    const bytes = 8 * Math.ceil((8 + width * (2 + segments)) / 8);
    this.#stops = new Float64Array((bytes / 8) * (this.#slots + 1));
    this.#counts = countersOf(this.#stops.buffer as ArrayBuffer, width);
    this.#width = width;
    this.#segments = segments;
    this.#stopsEach = bytes / 8;
    this.#countsEach = bytes / width;
    this.#countsFrom = 8 / width;
  }

  #stopAt(slot: number): number {
    return slot * this.#stopsEach;
  }

  /** Where a slot's layout is; its counters follow. */
  #countsAt(slot: number): number {
    return slot * this.#countsEach + this.#countsFrom;
  }

  /** Newest segments without a unit are left out, so that the state ends when its last unit leaves. Returns that moment. */
  #write(slot: number, p: SlidingWindowParams, newest: number): number {
    const older = this.#older;
    let skip = 0;
    while (newest === 0 && skip < p.segments) newest = older[++skip] ?? 0;
    const layout = this.#indexOf(p);
    const at = this.#countsAt(slot);
    this.#counts[at] = layout;
    this.#counts[at + 1] = this.#total;
    for (let i = 1; i <= p.segments; i++) this.#counts[at + 1 + i] = older[i + skip] ?? 0;
    return (this.#stops[this.#stopAt(slot)] = this.#end - skip * p.segment);
  }

  /** The stored counters without the newest, into `#older[1..]` and `#newest`. */
  #unpack(slot: number, segments: number): void {
    const at = this.#countsAt(slot) + 1;
    this.#newest = this.#counts[at]!;
    for (let i = 1; i <= segments; i++) {
      const count = this.#counts[at + i]!;
      this.#older[i] = count;
      this.#newest -= count;
    }
    this.#older.length = segments + 1;
  }

  #none(): void {
    this.#total = this.#newest = this.#end = 0;
    this.#older.length = 0;
    this.#current = false;
  }

  #read(slot: number, p: SlidingWindowParams, now: number, writable: boolean): void {
    const { limit, segment, segments } = p;
    const life = (segments + 1) * segment;
    let stop = this.#stops[this.#stopAt(slot)]!;
    if (stop <= now) return this.#none();
    const index = this.#counts[this.#countsAt(slot)]!;
    const { segment: s, segments: n } = this.#layouts[index]!;
    let heal = index !== this.#indexOf(p);
    let start = stop - (n + 1) * s;
    if (!heal && start <= now && now < start + segment) {
      this.#total = this.#counts[this.#countsAt(slot) + 1]!;
      this.#end = stop;
      this.#current = true;
      return;
    }

    // The newest segment is over, or the layout is another, or the clock went back: take the counters apart.
    this.#unpack(slot, n);
    const older = this.#older;
    let newest = this.#newest;
    if (start > now) {
      start = now;
      heal = true;
    }
    if (s !== segment) {
      // The window was changed: what still counts by the old one moves to a segment that starts now.
      for (let i = n - Math.floor((now - start) / s); i >= 1; i--) newest += older[i]!;
      older.length = 0;
      start = now;
    }
    // Shift them by the segments that have begun since, and count, newest first, no more than two quotas: the oldest of
    // a larger debt (the limit was lowered) would leave before it mattered.
    const passed = Math.floor((now - start) / segment);
    const shifted: number[] = [];
    let room = 2 * limit;
    for (let i = 0; i <= segments; i++) {
      const from = i - passed;
      const count = Math.min(room, from === 0 ? newest : from < 0 ? 0 : (older[from] ?? 0));
      shifted[i] = count;
      room -= count;
    }
    if (room === 2 * limit) return this.#none();
    stop = start + passed * segment + life;
    this.#total = 2 * limit - room;
    this.#newest = shifted[0]!;
    this.#older = shifted;
    this.#end = stop;
    this.#current = false;
    if (heal && writable) this.#write(slot, p, this.#newest);
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
      if (this.#current) this.#unpack(slot, p.segments);
      this.wait = this.#until(p, now, limit - cost);
    }
  }

  commit(slot: number, p: SlidingWindowParams, cost: number, now: number): void {
    this.#total += cost;
    if (this.#current) {
      this.#counts[this.#countsAt(slot) + 1] = this.#total;
    } else {
      if (this.#end === 0) this.#end = now + (p.segments + 1) * p.segment;
      this.#write(slot, p, cost);
    }
    this.remaining = p.limit - this.#total;
    this.reset = this.#end - now;
  }

  adjust(slot: number, p: SlidingWindowParams, units: number, mark: number, now: number): void {
    const { limit, segment, segments } = p;
    this.#read(slot, p, now, true);
    if (this.#current) this.#unpack(slot, segments);
    const older = this.#older;
    if (units > 0) {
      if (this.#end === 0) this.#end = now + (segments + 1) * segment;
      this.#newest += Math.max(0, Math.min(units, 2 * limit - this.#total));
    } else {
      // Back to the segment that was charged; without a mark, from the oldest on, which frees least.
      for (let i = segments; i >= 0; i--) {
        if (mark !== 0 && mark !== this.#end - i * segment) continue;
        const count = i === 0 ? this.#newest : (older[i] ?? 0);
        const back = Math.min(count, -units);
        units += back;
        if (i === 0) this.#newest = count - back;
        else older[i] = count - back;
      }
    }
    this.#total = this.#newest;
    for (let i = 1; i <= segments; i++) this.#total += older[i] ?? 0;
    this.wait = 0;
    if (this.#total === 0) {
      if (this.#end !== 0) this.clear(slot);
      this.remaining = limit;
      this.reset = 0;
    } else {
      this.remaining = Math.max(0, limit - this.#total);
      this.reset = this.#write(slot, p, this.#newest) - now;
    }
  }

  until(slot: number): number {
    return this.#stops[this.#stopAt(slot)]!;
  }

  clear(slot: number): void {
    this.#stops[this.#stopAt(slot)] = 0;
  }

  sibling(slots: number): SlidingWindowColumn {
    return new SlidingWindowColumn(slots, this.#width, this.#segments, this.#layouts);
  }

  take(from: SlidingWindowColumn, theirs: number, ours: number): void {
    this.#stops[this.#stopAt(ours)] = from.#stops[from.#stopAt(theirs)]!;
    const at = from.#countsAt(theirs);
    const to = this.#countsAt(ours);
    for (let i = 0; i < 2 + from.#segments; i++) this.#counts[to + i] = from.#counts[at + i]!;
  }

  override fetch(slot: number): number {
    return this.#stops[this.#stopAt(slot)]!;
  }
}

/** State counts up to two quotas (a debt of one): the fewest bytes that hold that. */
function widthOf(limit: number): number {
  if (limit < 2 ** 7) return 1;
  if (limit < 2 ** 15) return 2;
  return limit < 2 ** 31 ? 4 : 8;
}

/** Segments are rounded up to whole milliseconds: the window is never shorter than was asked for. */
function compile(what: string, given: Given): SlidingWindowParams {
  const { limit, window } = given;
  const asked = given.segments === undefined ? 10 : checkInteger(`${what}.segments`, given.segments, 1, 100);
  const segment = Math.ceil(window / asked);
  if (segment >= 2 ** 32) {
    throw invalidOption(
      `${what}.window`,
      window,
      'Sub-windows of more than 49 days are not possible: raise `segments`.',
    );
  }
  return { limit, segment, segments: Math.ceil(window / segment), width: widthOf(limit) };
}

export const slidingWindow: AlgorithmDefinition<SlidingWindowParams> = {
  tag: 's1',
  compile,
  createColumn: (slots) => new SlidingWindowColumn(slots),
};
