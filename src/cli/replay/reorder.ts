import type { Entry } from './line.js';

/** How many requests are held back for others that were logged late. */
export const REORDER = 50_000;

/**
 * Puts the lines of one log in order of time. Many servers write a line when the response ends, but with the time of the request. A line
 * that comes more than `capacity` lines late gets the time of the line before it.
 */
export class Reorder {
  readonly #capacity: number;
  /** The waiting requests in order of time, from `#head` on. */
  #waiting: Entry[] = [];
  #head = 0;
  #now = 0;
  /** How many lines came too late for their place. */
  late = 0;

  constructor(capacity: number = REORDER) {
    this.#capacity = capacity;
  }

  /** Adds a request. If the buffer is full, returns the earliest one. */
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

  /** The earliest of the waiting requests. */
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

  /** The place behind all requests of the same time. */
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
