import type { HeadgateError } from '../common/errors.js';
import type { Cost } from '../contract/costs.js';
import type { RequestFields } from '../contract/features.js';
import type { Key } from '../contract/key.js';
import type { PolicySet } from '../contract/store.js';
import type { Unreported } from './observe.js';
import type { Again } from './overrides/later.js';

/**
 * A request on its way to a decision, created where it enters: by `consume` or `peek`, an adapter, or a line. Each one has all fields, in this
 * order, so that V8 keeps one hidden class.
 */
export interface Request {
  /** The client to limit, as the caller named it. */
  readonly key: Key;
  readonly cost: Cost;
  readonly set: PolicySet;
  /** Whether the decision is only looked up, without a charge. */
  readonly peek: boolean;
  /** The decisions that the caller reports. Every other decision is reported with the answer. */
  readonly unreported: Unreported;
  /** The options of features, if the request has any. */
  readonly fields: RequestFields | undefined;
  /** Repeats the question if an override changes the policies. Undefined for the first question. */
  readonly again: Again | undefined;
  /** The error of a read that had to come first. `onStoreError` then decides at once, because the request has already waited once. */
  readonly failure?: HeadgateError;
}

export function requestOf(key: Key, cost: Cost, set: PolicySet): Request {
  const again = undefined;
  return { key, cost, set, peek: false, unreported: 'none', fields: undefined, again };
}

export interface WaitRequest extends Request {
  /** The longest wait: milliseconds, or Infinity. */
  readonly timeout: number;
  readonly signal: AbortSignal | undefined;
  /** The higher priority is served first. */
  readonly priority: number;
  /** Whether the request has a place however many wait. */
  readonly isUnbounded: boolean;
  /**
   * Whether the request waits until its timeout for units that others may give back. Otherwise the wait ends as soon as the quota comes too
   * late by itself.
   */
  readonly hopes: boolean;
  /** The time of the turn that the request has lost, by `performance.now()`: see `HoldPlace`. */
  readonly lostAt?: number | undefined;
}
