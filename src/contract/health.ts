import type { HeadgateError } from '../common/errors.js';

/** How a limiter's store is doing. */
export interface Health {
  /**
   * `'down'`: the store has failed repeatedly and is no longer waited for. Now and then Headgate asks it whether it is back. A cluster is
   * down when all its servers are.
   */
  readonly state: 'up' | 'down';
  /** When that state began, ms since the epoch, by the clock of this process. */
  readonly since: number;
  /** Failures since the store last answered in time. For a cluster: those of all servers. */
  readonly failures: number;
  /** The last failure since the store last answered in time, if there was any. */
  readonly lastError: HeadgateError | undefined;
  /** Only for a memory store: how often it had no room for a new key. `onFull` then decides; for a ban by hand, a denied key is evicted. */
  readonly unremembered?: number;
  /** Whether the store is overloaded or far away, but not gone: its answers come, but later than `timeout`. */
  readonly slow: boolean;
  /** How many calls this process was too busy to read within `timeout` since it started. Their answers count, and are not failures. */
  readonly late: number;
  /** For a cluster: the servers (`host:port`) that are no longer waited for. `onStoreError` decides only for their keys. */
  readonly serversDown: readonly string[];
}

/** The health of a store that is never away: up since the process began. Modules must not read a clock while they load. */
export const UP: Health = {
  state: 'up',
  since: Math.round(performance.timeOrigin),
  failures: 0,
  lastError: undefined,
  slow: false,
  late: 0,
  serversDown: [],
};
