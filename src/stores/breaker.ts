import { performance } from 'node:perf_hooks';
import { healthChannel, type HealthMessage } from '../channels.js';
import type { HeadgateError } from '../errors.js';
import { Backlog } from './backlog.js';
import type { Store } from './store.js';

/** How a limiter's store is doing. */
export interface Health {
  /** `'down'`: after repeated failures the store is no longer waited for; now and then Headgate asks whether it is back. */
  readonly state: 'up' | 'down';
  /** When that state began, ms since the epoch, by this process' clock. */
  readonly since: number;
  /** Failures since the store last answered in time. */
  readonly failures: number;
  /** The last failure, if there was any since the store last answered in time. */
  readonly lastError: HeadgateError | undefined;
  /**
   * Of a memory store: how often a new key found no room. Then `onFull` decides; a ban by hand evicts who is denied instead.
   */
  readonly unremembered?: number;
  /** The store fails only by taking longer than `timeout`: its answers come, too late. It is overloaded or far away, not gone. */
  readonly slow: boolean;
  /**
   * Calls that this process was too busy for since it started: their answers were there, but not read within `timeout`. Those count
   * all the same, and not as failures.
   */
  readonly late: number;
}

/** Asks a store by a call of its own. */
export interface Prober {
  /** Resolves when its outcome is known, or it takes too long. */
  probe(): Promise<void>;
  /** Resolves the next time that the store's client is connected; undefined if nobody knows. */
  whenReady(): Promise<void> | undefined;
}

/** Of a store that is never away. */
export const UP: Health = {
  state: 'up',
  since: Date.now(),
  failures: 0,
  lastError: undefined,
  slow: false,
  late: 0,
};

/** It takes so many failures in a row, and so long, ms: of a cluster one node may fail while others answer. */
const FAILURES = 5;
const FAILING_FOR = 100;

/** A store is asked again after this part of the time that it has been down, within limits, ms; and up to twice that: not by all at once. */
const PART = 0.1;
const SOONEST = 100;
const LATEST = 2000;

/** A store that has answered too late within this time, ms, is slow rather than gone: longer than the pause between two probes. */
const SLOW_FOR = 5000;

/** Learns from calls whether a store is up. All limiters of a store share it. */
export class Breaker {
  readonly #store: Store;
  #down = false;
  #since = Date.now();
  #failures = 0;
  #failingSince = 0;
  #lastError: HeadgateError | undefined;
  #answeredLate = -Infinity;
  #late = 0;
  #hasAnswered = false;
  /** While it is down: who can ask. */
  readonly #probers = new Set<Prober>();
  #timer: NodeJS.Timeout | undefined;
  #probing = false;
  #awaitsReady = false;
  readonly listeners = new Set<(health: Health) => void>();
  /** What is given back once the store is up. */
  readonly backlog = new Backlog(() => !this.#down);

  constructor(store: Store) {
    this.#store = store;
  }

  get down(): boolean {
    return this.#down;
  }

  /** Whether the store has answered in time, ever. */
  get hasAnswered(): boolean {
    return this.#hasAnswered;
  }

  get health(): Health {
    return {
      state: this.#down ? 'down' : 'up',
      since: this.#since,
      failures: this.#failures,
      lastError: this.#lastError,
      slow: this.#failures > 0 && performance.now() - this.#answeredLate < SLOW_FOR,
      late: this.#late,
    };
  }

  /** The store has answered in time. @param late this process has read it too late */
  success(late: boolean): void {
    if (late) this.#late++;
    this.#hasAnswered = true;
    if (this.#failures === 0) return;
    this.#failures = 0;
    this.#lastError = undefined;
    if (this.#down) this.#turn(false);
  }

  failure(error: HeadgateError, prober: Prober): void {
    this.#lastError = error;
    if (this.#failures++ === 0) this.#failingSince = performance.now();
    if (this.#down || this.#failures < FAILURES || performance.now() - this.#failingSince < FAILING_FOR)
      return;
    this.#turn(true);
    this.watch(prober);
    this.#probeWhenReady(prober);
  }

  /** The store has answered a call that nobody waits for any more: a stalled one may be back. */
  answeredLate(): void {
    this.#answeredLate = performance.now();
    if (this.#down) void this.#probe();
  }

  /** A limiter needs a store that is down. */
  watch(prober: Prober): void {
    this.#probers.add(prober);
    if (!this.#timer && !this.#probing) this.#schedule();
  }

  /** A limiter is closed. */
  unwatch(prober: Prober): void {
    this.#probers.delete(prober);
    if (this.#probers.size === 0) this.#stop();
  }

  #schedule(): void {
    const pause = Math.min(Math.max(SOONEST, PART * (Date.now() - this.#since)), LATEST);
    this.#timer = setTimeout(() => void this.#probe(), pause * (1 + Math.random())).unref();
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  async #probe(): Promise<void> {
    this.#stop();
    const [prober] = this.#probers;
    if (this.#probing || !prober) return;
    this.#probing = true;
    await prober.probe();
    this.#probing = false;
    if (this.#down && this.#probers.size > 0) this.#schedule();
  }

  #probeWhenReady(prober: Prober): void {
    if (this.#awaitsReady) return;
    this.#awaitsReady = true;
    void prober.whenReady()?.then(() => {
      this.#awaitsReady = false;
      if (!this.#down) return;
      void this.#probe();
      this.#probeWhenReady(prober);
    });
  }

  #turn(down: boolean): void {
    this.#down = down;
    this.#since = Date.now();
    if (!down) {
      this.#stop();
      this.#probers.clear();
      this.backlog.drain();
    }
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
