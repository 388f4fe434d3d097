import type { Health } from './health.js';
import type { Store } from './store.js';

/** What a limiter has in this process now. Read it for metrics of your own, as often as you like. */
export interface Gauges {
  /** Requests that wait in `limiter.wait`. */
  readonly waiting: number;
  /** Requests that are held for their turn (`maxDelay`). */
  readonly held: number;
  /** The most that may wait, and the most that may be held: the option `maxWaiting`. */
  readonly maxWaiting: number;
  /** Concurrency slots that requests of this process hold: neither given back, nor ended with their lease. */
  readonly slots: number;
  /**
   * Keys of this limiter's name that have state in this process, or had not long ago: of a memory store, or of what decides by
   * `onStoreError: 'local'` while the store is away.
   */
  readonly keys: number;
}

/** What metrics read of a limiter. */
export interface Gauged {
  readonly name: string;
  /** The store that it was made with. */
  readonly source: Store;
  readonly health: Health;
  readonly gauges: Gauges;
}

// Weak, as limiters that nobody closes are garbage all the same.
const open = new Set<WeakRef<Gauged>>();
const forget = new FinalizationRegistry<WeakRef<Gauged>>((ref) => open.delete(ref));

/** Lets metrics read a limiter, until the returned function is called. */
export function noteOpen(limiter: Gauged): () => void {
  const ref = new WeakRef(limiter);
  open.add(ref);
  forget.register(limiter, ref, ref);
  return () => {
    open.delete(ref);
    forget.unregister(ref);
  };
}

/** The limiters of this process that are not closed. */
export function openLimiters(): Gauged[] {
  return [...open].flatMap((ref) => ref.deref() ?? []);
}
