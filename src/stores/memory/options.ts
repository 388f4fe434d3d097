import type { Warnings } from '../../common/warnings.js';
import type { Clock, Store } from '../../contract/store.js';

/** Options of `memoryStore`. */
export interface MemoryStoreOptions {
  /**
   * For tests: the time in whole ms since the epoch. @default Date.now
   */
  clock?: Clock | undefined;
  /**
   * The most keys per limiter name and dimension, 100 to 16,000,000. At this number, new keys first replace expired keys, then keys that
   * are neither denied nor banned. If there is no such key, `onFull` decides. As many ids of requests are remembered per limiter name. Per
   * limiter name, the state of 1,000 different policies is kept.
   *
   * @default 1_000_000
   */
  maxKeys?: number | undefined;
  /**
   * The answer to a request whose key finds no room. Every key in the store is then denied or banned. The decision's `reason` is
   * `'store-full'`:
   * - `'admit'` (default): admitted if the policies admit a new key, and not charged. The key is not limited meanwhile;
   * - `'deny'`: denied, 503 over HTTP, until there may be room (`retryAfterMs`, estimated). A client that can fill the store keeps new
   *   clients out.
   *
   * A ban by hand always finds room by evicting a denied key; without a denied key, a key banned by denials; and only then a key banned by
   * hand. Of each kind, the key that is free soonest is evicted.
   */
  onFull?: 'admit' | 'deny' | undefined;
  /** `'stream'`: the last 100,000 crossings are kept for `admin.thresholds`. @default false */
  thresholds?: 'stream' | false | undefined;
  /** Counts decisions from the first `createAdmin` or dashboard on. @default true */
  counts?: boolean | undefined;
  /** The warnings to silence; `false` silences all. See docs/errors.md. */
  warnings?: Warnings | undefined;
}

/** The store of {@link memoryStore}. */
export interface MemoryStore extends Store {
  /** The number of keys with state now or recently. */
  readonly size: number;
  /** Forgets everything, including bans, for all limiters on this store. Earlier charges cannot be given back afterwards. For tests. */
  clear(): void;
}
