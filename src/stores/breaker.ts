import { performance } from 'node:perf_hooks';
import { healthChannel, type HealthMessage } from '../channels.js';
import type { HeadgateError } from '../errors.js';
import type { Store } from './store.js';

/** How a limiter's store is doing. */
export interface Health {
  /** `'down'`: after repeated failures the store is no longer waited for; now and then a request tries it. */
  readonly state: 'up' | 'down';
  /** When that state began, ms since the epoch, by this process' clock. */
  readonly since: number;
  /** Failures since the store last answered. */
  readonly failures: number;
  /** The last failure, if there was any since the store last answered. */
  readonly lastError: HeadgateError | undefined;
  /**
   * Of a memory store: how often a new key found no room. Then `onFull` decides; a ban by hand evicts who is denied instead.
   */
  readonly unremembered?: number;
}

/** Of a store that is never away. */
export const UP: Health = { state: 'up', since: Date.now(), failures: 0, lastError: undefined };

/** It takes so many failures in a row, and so long, ms: of a cluster one node may fail while others answer. */
const FAILURES = 5;
const FAILING_FOR = 100;

/** A store that is down is tried every 100 to 200 ms: not by all processes at once. */
const TRY_AFTER = 100;

/** Tries that a stalled store has not answered at all: commands do not pile up for as long as it stalls. */
const MOST_UNANSWERED = 16;

/** Learns from calls whether a store is up. All limiters of a store share it. */
export class Breaker {
  readonly #store: Store;
  #down = false;
  #since = Date.now();
  #failures = 0;
  #failingSince = 0;
  #lastError: HeadgateError | undefined;
  #trying = false;
  #nextTry = 0;
  #unanswered = 0;
  readonly listeners = new Set<(health: Health) => void>();

  constructor(store: Store) {
    this.#store = store;
  }

  get down(): boolean {
    return this.#down;
  }

  get health(): Health {
    return {
      state: this.#down ? 'down' : 'up',
      since: this.#since,
      failures: this.#failures,
      lastError: this.#lastError,
    };
  }

  /** Whether this call may try a store that is down: one at a time. Who may tells what came of it. */
  mayTry(): boolean {
    if (this.#trying || this.#unanswered >= MOST_UNANSWERED || performance.now() < this.#nextTry)
      return false;
    this.#trying = true;
    this.#unanswered++;
    return true;
  }

  /** The try has failed, or its caller waits no longer. */
  tried(): void {
    this.#trying = false;
    this.#nextTry = performance.now() + TRY_AFTER * (1 + Math.random());
  }

  /** The try's call is over. A store that answers at all, if late, is tried again at once. */
  answered(inTime: boolean): void {
    this.#unanswered--;
    if (inTime) this.#trying = false;
    else this.#nextTry = 0;
  }

  /** The call was decided without asking the store. */
  skipped(): void {
    this.answered(true);
  }

  success(): void {
    if (this.#failures === 0) return;
    this.#failures = 0;
    this.#lastError = undefined;
    if (this.#down) this.#turn(false);
  }

  failure(error: HeadgateError): void {
    this.#lastError = error;
    if (this.#failures++ === 0) this.#failingSince = performance.now();
    if (this.#down || this.#failures < FAILURES || performance.now() - this.#failingSince < FAILING_FOR)
      return;
    this.tried();
    this.#turn(true);
  }

  #turn(down: boolean): void {
    this.#down = down;
    this.#since = Date.now();
    if (healthChannel.hasSubscribers) {
      const message: HealthMessage = { store: this.#store, health: this.health };
      healthChannel.publish(message);
    }
    for (const listener of this.listeners) {
      try {
        listener(this.health);
      } catch (error) {
        process.emitWarning(`onHealth threw: ${String(error)}`, 'HeadgateWarning');
      }
    }
  }
}

const breakers = new WeakMap<Store, Breaker>();

/** The breaker of a store. */
export function breakerOf(store: Store): Breaker {
  let breaker = breakers.get(store);
  if (!breaker) breakers.set(store, (breaker = new Breaker(store)));
  return breaker;
}
