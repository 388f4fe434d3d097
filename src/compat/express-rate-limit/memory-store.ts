import { memoryStore } from '../../stores/memory/memory.js';
import type { MaybePromise } from '../../contract/store.js';
import type { Counted } from './counter.js';
import { Quota } from './quota.js';
import type { ClientRateLimitInfo, Options, Store } from './types.js';

/** Counts clients in this process, by Headgate's memory store behind express-rate-limit's interface. */
export class MemoryStore implements Store {
  windowMs = 60_000;
  readonly localKeys = true;
  #quota: Quota | undefined;

  init({ windowMs }: Pick<Options, 'windowMs'>): void {
    if (windowMs !== this.windowMs) this.#quota = undefined;
    this.windowMs = windowMs;
    this.#open();
  }

  get(key: string): Promise<ClientRateLimitInfo | undefined> {
    return this.#open().get(key);
  }

  increment(key: string): Promise<ClientRateLimitInfo> {
    return this.#open().increment(key);
  }

  decrement(key: string): Promise<void> {
    return this.#open().decrement(key);
  }

  resetKey(key: string): Promise<void> {
    return this.#open().resetKey(key);
  }

  resetAll(): Promise<void> {
    this.#quota = undefined;
    return Promise.resolve();
  }

  /** Removes all counts. There is no timer to stop. */
  shutdown(): void {
    this.#quota = undefined;
  }

  /** @internal Counts a request, or returns `undefined` if a program replaced a method, which must then count. */
  count(key: string, limit: number): MaybePromise<Counted> | undefined {
    const { increment, decrement } = MemoryStore.prototype;
    if (this.increment !== increment || this.decrement !== decrement) return undefined;
    return this.#open().count(key, limit);
  }

  #open(): Quota {
    if (!this.#quota) {
      // Stores the time of the decision, because all requests of a window must get the same end.
      let now = 0;
      const store = memoryStore({ clock: () => (now = Date.now()) });
      this.#quota = new Quota({ store, windowMs: this.windowMs }, () => now);
    }
    return this.#quota;
  }
}
