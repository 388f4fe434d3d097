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
   * What to do when the store fails or is late. `'local'` (default): decide in an embedded memory store. `'allow'`: admit. `'deny'`: deny
   * (503). `'throw'`: throw the store's error.
   */
  onStoreError?: 'local' | 'allow' | 'deny' | 'throw';
  /**
   * For `'local'`: the share of each limit that this process may admit meanwhile, above 0 and up to 1 (default). It is rounded down, but at
   * least 1: a share of 0.1 of a limit of 5 is 1.
   */
  localShare?: number;
  /**
   * How long the store may take, counted from when the question is written: `'1ms'` to `'1m'`, default `'100ms'`. While this process itself
   * is busy it cannot read answers. That time does not count.
   */
  timeout?: Duration;
  /**
   * How long a question waits for a connection until the store has answered once: `'1ms'` to `'1m'`, default `'2s'`. After that `timeout`
   * applies, and also if it is longer. A refused connection is not waited for.
   */
  connectTimeout?: Duration;
  /**
   * Called when the store, or one server of a cluster, is found down or up again; and with `lastError` when the file of a SQLite store was
   * deleted, emptied or replaced. An error that it throws becomes a process warning.
   */
  onHealth?: (health: Health) => void;
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function checkTimeout(option: 'timeout' | 'connectTimeout', given: unknown): number {
  const standard = option === 'timeout' ? '100ms' : '2s';
  const result = toMilliseconds(option, given === undefined ? standard : given);
  if (result > 60_000) throw invalidOption(option, given, "Write '1ms' to '1m'.");
  return result;
}

/**
 * Makes a store answer in time, whatever it does. An embedded store is returned as it is, because it always answers.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`
 */
export function guarded(store: Store, options: FailureOptions, timeout: number, warn: Warn): Store {
  const { onStoreError = 'local', localShare: share = 1 } = options;
  const mode = checkChoice('onStoreError', onStoreError, ['local', 'allow', 'deny', 'throw']);
  if (typeof share !== 'number' || !(share > 0 && share <= 1)) {
    throw invalidOption('localShare', share, 'Write a number above 0, up to 1.');
  }
  const connectTimeout = checkTimeout('connectTimeout', options.connectTimeout);
  const onHealth = checkFunction('onHealth', options.onHealth);
  if (store.embedded) return store;
  return new StoreGuard(store, mode, new Local(store, share), timeout, connectTimeout, onHealth, warn);
}
