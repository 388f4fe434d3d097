import { Column, resized, type AlgorithmDefinition } from './algorithm.js';

type FixedWindowParams = {
  readonly limit: number;
  readonly window: number;
};

/** A counter and the end of its window. Worst case in any window: 2 x limit. */
class FixedWindowColumn extends Column<FixedWindowParams> {
  #used = new Float64Array(1);
  #stop = new Float64Array(1);

  /** Sets `#used` and returns `stop`, 0 if there is no window. */
  #read(slot: number, p: FixedWindowParams, now: number, writable: boolean): number {
    let stop = this.#stop[slot]!;
    if (stop <= now) return 0;
    if (stop > now + p.window) {
      stop = now + p.window;
      if (writable) this.#stop[slot] = stop;
    }
    return stop;
  }

  look(slot: number, p: FixedWindowParams, cost: number, now: number, writable: boolean): void {
    const stop = this.#read(slot, p, now, writable);
    const used = stop === 0 ? 0 : this.#used[slot]!;
    this.wait = cost === 0 || used + cost <= p.limit ? 0 : cost > p.limit ? -1 : stop - now;
    this.remaining = Math.max(0, p.limit - used);
    this.reset = stop === 0 ? 0 : stop - now;
  }

  commit(slot: number, p: FixedWindowParams, cost: number, now: number): void {
    if (this.reset === 0) {
      this.#used[slot] = cost;
      this.#stop[slot] = now + p.window;
      this.reset = p.window;
    } else {
      this.#used[slot]! += cost;
    }
    this.remaining -= cost;
  }

  adjust(slot: number, p: FixedWindowParams, units: number, mark: number, now: number): void {
    let stop = this.#read(slot, p, now, true);
    let used = stop === 0 ? 0 : this.#used[slot]!;
    if (units > 0) {
      if (stop === 0) stop = now + p.window;
      // A debt beyond one more full quota would change nothing: the window's end forgives it.
      used = Math.max(used, Math.min(used + units, 2 * p.limit));
    } else if (stop !== 0 && (mark === 0 || mark === stop)) {
      used = Math.max(0, used + units);
    }
    if (stop !== 0) {
      if (used === 0) stop = 0;
      this.#used[slot] = used;
      this.#stop[slot] = stop;
    }
    this.wait = 0;
    this.remaining = Math.max(0, p.limit - used);
    this.reset = stop === 0 ? 0 : stop - now;
  }

  until(slot: number): number {
    return this.#stop[slot]!;
  }

  clear(slot: number): void {
    this.#stop[slot] = 0;
  }

  resize(slots: number): void {
    this.#used = resized(this.#used, slots);
    this.#stop = resized(this.#stop, slots);
  }
}

export const fixedWindow: AlgorithmDefinition<FixedWindowParams> = {
  tag: 'f1',
  compile: (_what, { limit, window }) => ({ limit, window }),
  createColumn: () => new FixedWindowColumn(),
};
