import type { HeadgateError } from '../common/errors.js';

/** The health of a limiter's store. */
export interface Health {
  /**
   * `'down'`: the store failed repeatedly, and requests no longer wait for it. Headgate probes the store now and then. A cluster is down once
   * every server is.
   */
  readonly state: 'up' | 'down';
  /** The start of the state, ms since the epoch, by the clock of this process. */
  readonly since: number;
  /** Failures since the store last answered in time. For a cluster, the sum of all servers. */
  readonly failures: number;
  /** The last failure since the store last answered in time, or `undefined` if there was none. */
  readonly lastError: HeadgateError | undefined;
  /** Memory stores only: how often there was no room for a new key. `onFull` decides then, except that a ban by hand evicts a denied key. */
  readonly unremembered?: number;
  /** Whether the store is overloaded or far away, but not down: it answers later than `timeout`. */
  readonly slow: boolean;
  /** Calls since the process started whose answers it was too busy to read within `timeout`. The answers count and are not failures. */
  readonly late: number;
  /** The servers of a cluster (`host:port`) for which requests no longer wait. Only keys of these servers are decided by `onStoreError`. */
  readonly serversDown: readonly string[];
}

/** The health of a store that is never down: up since the process began. Modules must not read a clock at load time. */
export const UP: Health = {
  state: 'up',
  since: Math.round(performance.timeOrigin),
  failures: 0,
  lastError: undefined,
  slow: false,
  late: 0,
  serversDown: [],
};

/** The scope of the keys that probes of a store's health charge. Operators do not see these keys. */
export const PROBE_SCOPE = 'headgate-probe';
