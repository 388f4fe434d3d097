import { openLimiters } from '../contract/gauges.js';
import type { HealthMessage } from '../contract/diagnostics.js';
import type { Store } from '../contract/store.js';

/** How long the stores of open limiters have been down in total, while this was being observed. */
export class DownTime {
  #seconds = 0;
  /** Stores that are down, and until when their time was counted. */
  readonly #counted = new Map<Store, number>();

  readonly onHealth = (message: unknown): void => {
    const { store, health } = message as HealthMessage;
    this.#countUp();
    if (health.state === 'down') this.#counted.set(store, performance.now());
    else this.#counted.delete(store);
  };

  get seconds(): number {
    this.#countUp();
    // No event tells about stores that were down before the observation began, or about stores whose limiters are closed.
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
