import { HeadgateError } from '../../common/errors.js';
import { setImmediate } from '../../common/real-time.js';
import { within } from '../../common/within.js';
import { isPromise } from '../../contract/store.js';
import type { Counted, Counter } from './counter.js';
import type { ClientRateLimitInfo, LegacyStore, Store } from './types.js';

/** Counts with a store that was written for express-rate-limit. */
export class ForeignCounter implements Counter {
  readonly get: Counter['get'];
  readonly #store: Store;
  readonly #timeout: number;

  /** @param timeout the store's time limit, ms */
  constructor(store: Store, timeout: number) {
    this.#store = store;
    this.#timeout = timeout;
    this.get = store.get?.bind(store);
  }

  async count(key: string, limit: number): Promise<Counted> {
    const store = this.#store;
    const answer = store.increment(key);
    // The values are read at once, because a store may return a live record, which later requests change.
    const { totalHits, resetTime } = isPromise(answer) ? await this.#inTime(answer) : answer;
    // A store may also return a number. The number is passed on unchanged, because only the program reads it.
    const end = (resetTime as Partial<Date> | undefined)?.getTime?.();
    return {
      used: totalHits,
      denied: totalHits > limit,
      resetTime: end === undefined ? resetTime : new Date(end),
      undo: () => {
        if (end === undefined || Date.now() < end) return store.decrement(key);
      },
    };
  }

  resetKey(key: string) {
    return this.#store.resetKey(key);
  }

  #inTime<T>(answer: Promise<T>): Promise<T> {
    return within(this.#timeout, answer, async () => {
      // A busy process runs timers before it reads sockets, so an answer that has already arrived is read first.
      await new Promise<void>(setImmediate);
      throw new HeadgateError('HEADGATE_STORE_TIMEOUT', `The store took longer than ${this.#timeout} ms.`);
    });
  }
}

/** Wraps a store of an older version in the current interface. */
export function modernized(store: Store | LegacyStore): Store {
  if (typeof store !== 'object' || !('incr' in store) || 'increment' in store) return store as Store;
  return {
    increment: (key) =>
      new Promise<ClientRateLimitInfo>((resolve, reject) => {
        store.incr(key, (error, totalHits, resetTime) => {
          if (error) reject(error);
          else resolve({ totalHits, resetTime });
        });
      }),
    decrement: (key) => store.decrement(key),
    resetKey: (key) => store.resetKey(key),
  };
}
