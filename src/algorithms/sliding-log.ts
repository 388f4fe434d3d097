import { checkInteger } from '../validate.js';
import { Column, type AlgorithmDefinition } from './algorithm.js';

type SlidingLogParams = {
  readonly limit: number;
  readonly window: number;
};

/** The last `capacity` admission times; grows as they come. */
interface Ring {
  capacity: number;
  next: number;
  live: number;
  newest: number;
  /** When it expires, by the window under which it was written. */
  stop: number;
  times: Float64Array;
}

/** A ring of admission times. Exact: worst case in any window: limit. */
class SlidingLogColumn extends Column<SlidingLogParams> {
  readonly #rings: (Ring | undefined)[];
  /** What `#read` found: nothing if it is undefined or has no live unit; `#live` leaves expired units out. */
  #ring: Ring | undefined;
  #live = 0;
  /** All units end with the ring at the latest: it was written under a shorter window if that is before their time. */
  #stop = 0;

  constructor(slots: number) {
    super();
    this.#rings = new Array<Ring | undefined>(slots + 1).fill(undefined);
  }

  /** The ring was written under another limit, or the clock went back. No unit lies in the future; the newest are kept. */
  #rebuild(slot: number, ring: Ring, p: SlidingLogParams, now: number, writable: boolean): Ring | undefined {
    const all: number[] = [];
    for (let i = ring.next - ring.live; i < ring.next; i++) {
      const time = ring.times[(i + ring.capacity) % ring.capacity]!;
      if (time + p.window > now) all.push(Math.min(now, time));
    }
    const times = Float64Array.from(all.slice(-p.limit));
    const live = times.length;
    if (live === 0) return undefined;
    const newest = times[live - 1]!;
    const rebuilt = { capacity: p.limit, next: live % p.limit, live, newest, stop: newest + p.window, times };
    if (writable) this.#rings[slot] = rebuilt;
    return rebuilt;
  }

  #read(slot: number, p: SlidingLogParams, now: number, writable: boolean): void {
    const { limit, window } = p;
    let ring = this.#rings[slot];
    this.#ring = undefined;
    this.#live = 0;
    if (!ring || ring.stop <= now || ring.live === 0) return;
    if (ring.capacity !== limit || ring.newest > now) ring = this.#rebuild(slot, ring, p, now, writable);
    if (!ring || ring.newest + window <= now) return;
    let { live } = ring;
    // Move the tail past what has expired: a binary search, as the ring is in order of time and its newest still counts.
    if (this.#time(ring, live, 0) + window <= now) {
      let first = 1;
      let last = live - 1;
      while (first < last) {
        const middle = Math.floor((first + last) / 2);
        if (this.#time(ring, live, middle) + window > now) last = middle;
        else first = middle + 1;
      }
      live -= first;
    }
    this.#ring = ring;
    this.#live = live;
    this.#stop = Math.min(ring.stop, ring.newest + window);
  }

  /** The time of the i-th oldest of `live` units. */
  #time(ring: Ring, live: number, i: number): number {
    return ring.times[(ring.next - live + i + ring.capacity) % ring.capacity]!;
  }

  look(slot: number, p: SlidingLogParams, cost: number, now: number, writable: boolean): void {
    const { limit, window } = p;
    this.#read(slot, p, now, writable);
    const ring = this.#ring;
    const live = this.#live;
    this.wait = 0;
    if (cost > limit) {
      this.wait = -1;
    } else if (ring && cost > 0 && live + cost > limit) {
      // So many of the oldest must leave; the last of them says when.
      const leaving = live + cost - limit;
      this.wait = Math.min(this.#stop, this.#time(ring, live, leaving - 1) + window) - now;
    }
    this.remaining = limit - live;
    this.reset = ring ? this.#stop - now : 0;
  }

  commit(slot: number, p: SlidingLogParams, cost: number, now: number): void {
    const { limit, window } = p;
    let ring = this.#ring;
    if (!ring) {
      const times = new Float64Array(Math.min(limit, Math.max(cost, 4)));
      ring = { capacity: limit, next: 0, live: 0, newest: now, stop: 0, times };
      this.#rings[slot] = ring;
    }
    const reach = Math.min(limit, ring.next + cost);
    if (ring.times.length < reach) {
      const times = new Float64Array(Math.min(limit, Math.max(reach, 2 * ring.times.length)));
      times.set(ring.times);
      ring.times = times;
    }
    const straight = Math.min(cost, limit - ring.next);
    ring.times.fill(now, ring.next, ring.next + straight);
    ring.times.fill(now, 0, cost - straight);
    ring.next = (ring.next + cost) % limit;
    ring.live = Math.min(limit, this.#live + cost);
    ring.newest = now;
    ring.stop = now + window;
    this.#live = ring.live;
    this.remaining = limit - ring.live;
    this.reset = window;
  }

  adjust(slot: number, p: SlidingLogParams, units: number, mark: number, now: number): void {
    const { limit } = p;
    this.#read(slot, p, now, true);
    this.wait = 0;
    // A debt takes the place of the oldest units: the ring is full, and nobody waits longer than one window.
    if (units > 0) return this.commit(slot, p, Math.min(units, limit), now);
    const ring = this.#ring;
    // The oldest units are given back: what stays counts longest, so that no window can hold more than `limit`.
    if (ring && (mark === 0 || mark > now)) {
      this.#live = ring.live = Math.max(0, this.#live + units);
      if (ring.live === 0) this.#rings[slot] = undefined;
    }
    this.remaining = limit - this.#live;
    this.reset = ring && this.#live > 0 ? this.#stop - now : 0;
  }

  until(slot: number): number {
    return this.#rings[slot]?.stop ?? 0;
  }

  clear(slot: number): void {
    this.#rings[slot] = undefined;
  }

  sibling(slots: number): SlidingLogColumn {
    return new SlidingLogColumn(slots);
  }

  take(from: SlidingLogColumn, theirs: number, ours: number): void {
    this.#rings[ours] = from.#rings[theirs];
  }
}

export const slidingLog: AlgorithmDefinition<SlidingLogParams> = {
  tag: 'l1',
  compile: (what, { limit, window }) => ({ limit: checkInteger(`${what}.limit`, limit, 1, 1e6), window }),
  createColumn: (slots) => new SlidingLogColumn(slots),
};
