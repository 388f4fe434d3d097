import type { HeadgateError } from '../common/errors.js';

/** How a limiter's store is doing. */
export interface Health {
  /**
   * `'down'`: after repeated failures the store is no longer waited for; now and then Headgate asks whether it is back. A cluster is
   * down when all its servers are.
   */
  readonly state: 'up' | 'down';
  /** When that state began, ms since the epoch, by this process' clock. */
  readonly since: number;
  /** Failures since the store last answered in time; of a cluster, those of all servers. */
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
  /** Of a cluster: the servers (`host:port`) that are no longer waited for. Only for their keys decides `onStoreError`. */
  readonly serversDown: readonly string[];
}

/** Of a store that is never away. */
export const UP: Health = {
  state: 'up',
  since: Date.now(),
  failures: 0,
  lastError: undefined,
  slow: false,
  late: 0,
  serversDown: [],
};
