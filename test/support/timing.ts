import { setImmediate } from 'node:timers/promises';
import type { Timing } from '../../src/common/timing.js';
import { START } from './clock.js';

interface Timer {
  readonly at: number;
  readonly run: () => void;
}

/** More timers at one moment than any test sets. */
const MOST_AT_ONCE = 1000;

/** A clock for tests to advance, with timers. */
export class TestTiming implements Timing {
  #now = 0;
  /** The timers in the order in which they were set. */
  readonly #timers = new Set<Timer>();

  now(): number {
    return this.#now;
  }

  /** The clock for a store. */
  readonly clock = (): number => START + Math.floor(this.#now);

  after(ms: number, run: () => void): () => void {
    const timer = { at: this.#now + ms, run };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /** The number of timers. */
  get timers(): number {
    return this.#timers.size;
  }

  /** Advances the clock from timer to timer. `settle` waits until the effects of each timer have ended before the next timer runs. */
  async advance(ms: number, settle: () => Promise<unknown> = () => setImmediate()): Promise<void> {
    const end = this.#now + ms;
    await settle();
    let atOnce = 0;
    for (;;) {
      const next = this.#next();
      if (!next || next.at > end) break;
      this.#timers.delete(next);
      atOnce = next.at > this.#now ? 0 : atOnce + 1;
      if (atOnce > MOST_AT_ONCE) throw new Error('Timers are set repeatedly, and the time does not advance.');
      this.#now = Math.max(this.#now, next.at);
      next.run();
      await settle();
    }
    this.#now = end;
  }

  #next(): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) if (!next || timer.at < next.at) next = timer;
    return next;
  }
}
