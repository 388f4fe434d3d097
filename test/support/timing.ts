import { setImmediate } from 'node:timers/promises';
import type { Timing } from '../../src/timing.js';
import { START } from './clock.js';

/** Time that passes when the test says so, and timers that run in it. */
export class TestTiming implements Timing {
  #now = 0;
  #timers: { at: number; run: () => void }[] = [];

  now(): number {
    return this.#now;
  }

  /** For a store that shares this time. */
  readonly clock = (): number => START + Math.floor(this.#now);

  after(ms: number, run: () => void): () => void {
    const timer = { at: this.#now + ms, run };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** How many timers are set. */
  get timers(): number {
    return this.#timers.length;
  }

  /** Lets time pass, from timer to timer, with all that follows from each before the next. `settle` waits for that. */
  async advance(ms: number, settle: () => Promise<unknown> = () => setImmediate()): Promise<void> {
    const end = this.#now + ms;
    await settle();
    for (;;) {
      const next = this.#timers.sort((a, b) => a.at - b.at)[0];
      if (!next || next.at > end) break;
      this.#timers.shift();
      this.#now = Math.max(this.#now, next.at);
      next.run();
      await settle();
    }
    this.#now = end;
  }
}
