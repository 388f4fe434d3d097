import { openLimiters } from '../contract/gauges.js';
import type { HealthMessage } from '../contract/diagnostics.js';
import type { Store } from '../contract/store.js';

/** For how long the stores of open limiters have been down together, as long as somebody has watched. */
export class DownTime {
  #seconds = 0;
  /** Stores that are down, and until when that is counted. */
  readonly #counted = new Map<Store, number>();

  readonly onHealth = (message: unknown): void => {
    const { store, health } = message as HealthMessage;
    this.#countUp();
    if (health.state === 'down') this.#counted.set(store, performance.now());
    else this.#counted.delete(store);
  };

  get seconds(): number {
    this.#countUp();
    // Stores that were down before anybody watched, and those whose limiters are closed: nobody tells of these any more.
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
