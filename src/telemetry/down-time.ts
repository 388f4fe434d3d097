import { openLimiters } from '../contract/gauges.js';
import type { HealthMessage } from '../contract/diagnostics.js';
import type { Store } from '../contract/store.js';

/** The total time for which stores of open limiters were down while this was observing. */
export class DownTime {
  #seconds = 0;
  /** Stores that are down, with the time until which the down time is counted. */
  readonly #counted = new Map<Store, number>();

  readonly onHealth = (message: unknown): void => {
    const { store, health } = message as HealthMessage;
    this.#countUp();
    if (health.state === 'down') this.#counted.set(store, performance.now());
    else this.#counted.delete(store);
  };

  get seconds(): number {
    this.#countUp();
    // Stores that were down before the observation began, and those of closed limiters, have no event.
    const down = new Set(
      openLimiters().flatMap(({ source, health }) => (health.state === 'down' ? [source] : [])),
    );
    for (const store of this.#counted.keys()) if (!down.has(store)) this.#counted.delete(store);
    for (const store of down) if (!this.#counted.has(store)) this.#counted.set(store, performance.now());
    return this.#seconds;
  }

  #countUp(): void {
    const now = performance.now();
    for (const [store, since] of this.#counted) {
      this.#seconds += (now - since) / 1000;
      this.#counted.set(store, now);
    }
  }
}
