import { toMilliseconds, type Duration } from '../../common/duration.js';
import { invalidOption } from '../../common/errors.js';
import type { Warn } from '../../common/warnings.js';
import { checkChoice, checkFunction } from '../../common/validate.js';
import type { Health } from '../../contract/health.js';
import { FailurePolicy } from './failure-policy.js';
import { Local } from './local.js';
import type { Store } from '../../contract/store.js';

/** What decides while the store does not. */
export interface FailureOptions {
  /**
   * What to do when the store fails or is late: `'local'` (default) decides in an embedded memory store, `'allow'` admits,
   * `'deny'` denies (503), `'throw'` throws the store's error.
   */
  onStoreError?: 'local' | 'allow' | 'deny' | 'throw';
  /**
   * For `'local'`: the share of each limit that this process may admit meanwhile: above 0, up to 1 (default). Rounded down, but never
   * below 1: of a limit of 5, a share of 0.1 is 1.
   */
  localShare?: number;
  /**
   * How long the store may take, from when the question is written: from `'1ms'` to `'1m'`, default `'100ms'`. For as long as this
   * process itself is busy nothing can be read, and nobody is turned away for it.
   */
  timeout?: Duration;
  /**
   * How long a question waits for a connection until the store has answered once: from `'1ms'` to `'1m'`, default `'2s'`. Afterwards,
   * and if it is shorter, `timeout` holds. A connection that is refused is not waited for.
   */
  connectTimeout?: Duration;
  /** Called when the store, or one server of a cluster, is found down, and when it is up again. What it throws is a process warning. */
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
 * Answers in time whatever the store does. An embedded store needs none of it and is returned as it is.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`
 */
export function withFailurePolicy(store: Store, options: FailureOptions, timeout: number, warn: Warn): Store {
  const { onStoreError = 'local', localShare: share = 1 } = options;
  const mode = checkChoice('onStoreError', onStoreError, ['local', 'allow', 'deny', 'throw']);
  if (typeof share !== 'number' || !(share > 0 && share <= 1)) {
    throw invalidOption('localShare', share, 'Write a number above 0, up to 1.');
  }
  const connectTimeout = checkTimeout('connectTimeout', options.connectTimeout);
  const onHealth = checkFunction('onHealth', options.onHealth);
  if (store.embedded) return store;
  return new FailurePolicy(store, mode, new Local(store, share), timeout, connectTimeout, onHealth, warn);
}
