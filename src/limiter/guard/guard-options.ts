import type { Duration } from '../../common/duration.js';
import { choice, duration, fn, number, type OptionTable, type OptionValues } from '../../common/options.js';
import type { Health } from '../../contract/health.js';

/** Options for the time while the store does not decide. */
export interface FailureOptions {
  /**
   * The answer when the store fails or is late. `'local'`: decide in an embedded memory store. `'allow'`: admit. `'deny'`: deny (503).
   * `'throw'`: throw the store's error. @default 'local'
   */
  onStoreError?: 'local' | 'allow' | 'deny' | 'throw' | undefined;
  /**
   * For `'local'`: this process' share of each limit. The result is rounded down, but is at least 1: a share of 0.1 of a
   * limit of 5 is 1. @default 1
   */
  localShare?: number | undefined;
  /**
   * The store's time to answer, `'1ms'` to `'1m'`. The time in which this process is busy, and cannot read
   * answers, does not count. @default '100ms'
   */
  timeout?: Duration | undefined;
  /**
   * The time to wait for a connection until the store has answered once, `'1ms'` to `'1m'`. Afterwards, or if `timeout` is
   * longer, `timeout` applies. A refused connection fails at once. @default '2s'
   */
  connectTimeout?: Duration | undefined;
  /**
   * Called when a store or server goes down or comes back. Also, with `lastError`, when the file of a SQLite store was
   * deleted, emptied or replaced. Errors of the function become process warnings.
   */
  onHealth?: ((health: Health) => void) | undefined;
}

/** The longest time that a decision may wait for a store, ms. */
const MAX_TIMEOUT_MS = 60_000;

export const FAILURE_TABLE = {
  onStoreError: choice(['local', 'allow', 'deny', 'throw'], 'local'),
  localShare: number(0, 1, 1, true),
  timeout: duration('100ms', { most: MAX_TIMEOUT_MS, usual: 'brief' }),
  connectTimeout: duration('2s', { most: MAX_TIMEOUT_MS, usual: 'brief' }),
  onHealth: fn(),
} satisfies OptionTable<FailureOptions>;

export type FailureValues = OptionValues<typeof FAILURE_TABLE>;

/** The failures in a row, and their least time span (ms), until a server is down. Neither alone is a proof. */
export const MIN_FAILURES = 5;
export const MIN_FAILING_MS = 100;

/**
 * The pause before the next probe of a server that is down, ms: a fraction of the down time, within limits. A random factor of 1 to 2 keeps
 * processes from probing simultaneously.
 */
export const PROBE_PAUSE_FRACTION = 0.1;
export const MIN_PROBE_PAUSE_MS = 100;
export const MAX_PROBE_PAUSE_MS = 2000;

/** The largest age of a late answer that proves a failing server to be slow, ms, above the pause between two probes. */
export const SLOW_MS = 5000;

/** The silence after which a store is probed, ms. A call of this length proves that the store hangs. */
export const IDLE_MS = 1000;

/** The pause between probes of a failing store that is not down yet, ms. */
export const IDLE_PROBE_PAUSE_MS = 30;

/** The time for which an idle store is probed after its health was read, ms. */
export const HEALTH_INTEREST_MS = 60_000;

/** The number of keys for probes: few, so that little state remains, and several, so that the last probe's denial is not remembered. */
export const PROBE_KEYS = 16;

/** The attempts at a key on a certain server, enough for a server with a hundredth of the cluster. */
export const MAX_KEY_TRIES = 1000;

/** The time after which a probe is given up if the client has not ended the call, ms. It exceeds any useful timeout of a client. */
export const MAX_SILENCE_MS = 10_000;

/** The longest delay of a timer in an idle process, ms. */
export const MAX_TIMER_DELAY_MS = 5;

/** The most refunds that wait for the store. Beyond, the oldest refund is dropped, because charges and slots also end by themselves. */
export const MAX_WAITING_REFUNDS = 10_000;

export const MAX_CONCURRENT_REFUNDS = 64;

/** The most bans by the substitute of a failing store that are remembered, to end with the failure. Beyond, the oldest ban ends at once. */
export const MAX_LOCAL_BANS = 10_000;

/** The pause before a failed refund is repeated while the store is up, ms. */
export const REFUND_RETRY_MS = 200;
