import type { Duration } from '../../common/duration.js';
import { choice, duration, fn, number, type OptionTable, type OptionValues } from '../../common/options.js';
import type { Warn } from '../../common/warnings.js';
import type { Health } from '../../contract/health.js';
import { StoreGuard } from './store-guard.js';
import { Local } from './local.js';
import type { Store } from '../../contract/store.js';

/** Options for the time while the store does not decide. */
export interface FailureOptions {
  /**
   * The answer when the store fails or is late. `'local'`: decide in an embedded memory store. `'allow'`: admit. `'deny'`: deny (503).
   * `'throw'`: throw the store's error. @default 'local'
   */
  onStoreError?: 'local' | 'allow' | 'deny' | 'throw';
  /**
   * For `'local'`: the share of each limit that this process may admit meanwhile, above 0 and up to 1. The result is rounded down, but is at
   * least 1: a share of 0.1 of a limit of 5 is 1. @default 1
   */
  localShare?: number;
  /**
   * The time that the store may take after the question is sent, `'1ms'` to `'1m'`. The time in which this process is busy does not count,
   * because it cannot read answers. @default '100ms'
   */
  timeout?: Duration;
  /**
   * The time that a question waits for a connection until the store has answered once, `'1ms'` to `'1m'`. After that, or if it is longer,
   * `timeout` applies. A refused connection fails at once. @default '2s'
   */
  connectTimeout?: Duration;
  /**
   * Called when the store, or one server of a cluster, goes down or comes back; and with `lastError` when the file of a SQLite store was
   * deleted, emptied or replaced. An error that it throws becomes a process warning.
   */
  onHealth?: (health: Health) => void;
}

/** The longest time that a decision may wait for a store, ms. */
const MAX_TIMEOUT_MS = 60_000;

/** The rows of `FailureOptions`. */
export const FAILURE_TABLE = {
  onStoreError: choice(['local', 'allow', 'deny', 'throw'], 'local'),
  localShare: number(0, 1, 1, true),
  timeout: duration('100ms', { most: MAX_TIMEOUT_MS }),
  connectTimeout: duration('2s', { most: MAX_TIMEOUT_MS }),
  onHealth: fn(),
} satisfies OptionTable<FailureOptions>;

/** Makes a store answer in time, whatever happens to it. An embedded store is returned unchanged, because it always answers. */
export function guarded(store: Store, options: OptionValues<typeof FAILURE_TABLE>, warn: Warn): Store {
  if (store.embedded) return store;
  const { onStoreError, localShare, timeout, connectTimeout, onHealth } = options;
  return new StoreGuard(
    store,
    onStoreError,
    new Local(store, localShare),
    timeout,
    connectTimeout,
    onHealth,
    warn,
  );
}
