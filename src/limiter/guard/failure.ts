import { toMilliseconds, type Duration } from '../../common/duration.js';
import { invalidOption } from '../../common/errors.js';
import type { Warn } from '../../common/warnings.js';
import { checkChoice, checkFunction } from '../../common/validate.js';
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

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function checkTimeout(option: 'timeout' | 'connectTimeout', given: unknown): number {
  const standard = option === 'timeout' ? '100ms' : '2s';
  const result = toMilliseconds(option, given === undefined ? standard : given);
  if (result > 60_000) throw invalidOption(option, given, "Pass '1ms' to '1m'.");
  return result;
}

/**
 * Makes a store answer in time, whatever happens to it. An embedded store is returned unchanged, because it always answers.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`
 */
export function guarded(store: Store, options: FailureOptions, timeout: number, warn: Warn): Store {
  const { onStoreError = 'local', localShare: share = 1 } = options;
  const mode = checkChoice('onStoreError', onStoreError, ['local', 'allow', 'deny', 'throw']);
  if (typeof share !== 'number' || !(share > 0 && share <= 1)) {
    throw invalidOption('localShare', share, 'Pass a number above 0, up to 1.');
  }
  const connectTimeout = checkTimeout('connectTimeout', options.connectTimeout);
  const onHealth = checkFunction('onHealth', options.onHealth);
  if (store.embedded) return store;
  return new StoreGuard(store, mode, new Local(store, share), timeout, connectTimeout, onHealth, warn);
}
