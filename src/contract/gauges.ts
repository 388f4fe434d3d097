import type { Health } from './health.js';
import type { Store } from './store.js';

/** The current counts of a limiter in this process, cheap to read. */
export interface Gauges {
  /** Requests that wait in `limiter.wait`. */
  readonly waiting: number;
  /** Requests that are held until their turn (`maxDelay`). */
  readonly held: number;
  /** The option `maxWaiting`: the most requests that may wait, and the most that may be held. */
  readonly maxWaiting: number;
  /** Concurrency slots held by requests of this process: not given back, and within the lease. */
  readonly slots: number;
  /** 1 while an override of all keys is in force, as far as this process knows. Only the store knows the overrides of single keys. */
  readonly overrides: number;
  /**
   * Keys with this limiter's name that have state in this process, or had state recently. The state is in a memory store, or in the
   * substitute that decides by `onStoreError: 'local'` while the store is down.
   */
  readonly keys: number;
}

/** The waiting requests and the slots of a key in this process. */
export interface KeyQueue {
  /** The waiting requests. */
  readonly waiting: number;
  /** The longest present wait, ms. */
  readonly waitedMs: number;
  /** The slots in use. */
  readonly slots: number;
  /** The longest time for which one of the slots is held, ms. */
  readonly heldMs: number;
}

/** Two queues of a key together. */
export function bothQueues(one: KeyQueue | undefined, other: KeyQueue): KeyQueue {
  if (!one) return other;
  return {
    waiting: one.waiting + other.waiting,
    waitedMs: Math.max(one.waitedMs, other.waitedMs),
    slots: one.slots + other.slots,
    heldMs: Math.max(one.heldMs, other.heldMs),
  };
}

/** The parts of a limiter that metrics read. */
export interface Gauged {
  readonly name: string;
  /** The store that was passed to the limiter. */
  readonly source: Store;
  readonly health: Health;
  readonly gauges: Gauges;
  /** The keys with waiting requests or slots, by `idsOf`. Operators read them once a second. */
  queues(): ReadonlyMap<string, KeyQueue>;
}

// Weak references, so that a limiter without a `close` can still be collected as garbage.
const open = new Set<WeakRef<Gauged>>();
const forget = new FinalizationRegistry<WeakRef<Gauged>>((ref) => open.delete(ref));

/** Registers a limiter for metrics. @returns ends the registration */
export function noteOpen(limiter: Gauged): () => void {
  const ref = new WeakRef(limiter);
  open.add(ref);
  forget.register(limiter, ref, ref);
  return () => {
    open.delete(ref);
    forget.unregister(ref);
  };
}

export function openLimiters(): Gauged[] {
  return [...open].flatMap((ref) => ref.deref() ?? []);
}
