import type { Entry } from './entry.js';

/** How many requests wait for others that were logged late. */
export const REORDER = 50_000;

/**
 * Puts the lines of one log in order of time: many servers write a line when the response ends but with the time at which the
 * request came. A line that comes more than `capacity` lines late takes the time of the one before it.
 */
export class Reorder {
  readonly #capacity: number;
  /** In order of time, from `#head` on. */
  #waiting: Entry[] = [];
  #head = 0;
  #now = 0;
  /** Lines that came too late for their place. */
  late = 0;

  constructor(capacity: number = REORDER) {
    this.#capacity = capacity;
  }

  /** Takes a request; returns the one whose turn it is, if the buffer is full. */
  push(entry: Entry): Entry | undefined {
    const waiting = this.#waiting;
    if (entry.time < this.#now) {
      entry.time = this.#now;
      this.late += 1;
    }
    const last = waiting[waiting.length - 1];
    if (last === undefined || entry.time >= last.time) waiting.push(entry);
    else waiting.splice(this.#placeOf(entry.time), 0, entry);
    return waiting.length - this.#head > this.#capacity ? this.shift() : undefined;
  }

  /** The next in order, of those that wait. */
  shift(): Entry | undefined {
    const entry = this.#waiting[this.#head];
    if (entry === undefined) return undefined;
    this.#now = entry.time;
    this.#head += 1;
    if (this.#head > this.#capacity) {
      this.#waiting = this.#waiting.slice(this.#head);
      this.#head = 0;
    }
    return entry;
  }

  /** Behind all of the same time. */
  #placeOf(time: number): number {
    let low = this.#head;
    let high = this.#waiting.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#waiting[middle]!.time <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
