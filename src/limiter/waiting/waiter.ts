import type { Costs } from '../../contract/costs.js';
import type { PolicySet } from '../../contract/store.js';
import type { LimiterDecision } from '../decision.js';
import type { WaitRequest } from '../request.js';
import { forWaiting } from './waiting-set.js';

// The states of a waiter.
/** The waiter is in line, and no question to the store is about it. */
export const QUEUED = 'queued';
/** A question to the store is about the waiter, or the charge that the answer brought is being given back. */
export const ASKED = 'asked';
/** The store has admitted the waiter, which stays in line until its turn. */
export const HELD = 'held';
/** The waiter has left the line, with a decision or an error. */
export const DONE = 'done';

export interface Waiter {
  readonly request: WaitRequest;
  readonly costs: Costs;
  /** The time at which the waiter gives up, by the room's clock. */
  readonly deadline: number;
  readonly came: number;
  readonly resolve: (decision: LimiterDecision) => void;
  readonly reject: (error: unknown) => void;
  state: typeof QUEUED | typeof ASKED | typeof HELD | typeof DONE;
  /** The gate of the last question about the waiter. The answer to an earlier one, from where its line stood before, does not count. */
  asker: object | undefined;
  /** Stops the waiter's timer, and stops listening to its signal. */
  stop: () => void;
  /**
   * Whether the waiter has a place in line. The place of a bounded waiter counts for `maxWaiting`. A waiter gets a place as soon as the
   * wait is certain.
   */
  hasPlace: boolean;
  /** Gives up the turn of a held waiter. */
  turn: AbortController | undefined;
  /** The reason for giving up. The waiter's charge is given back before the wait ends with this error. */
  error: unknown;
}

export function setOf({ request, came, deadline }: Waiter, now: number): PolicySet {
  return forWaiting(request.set, deadline - now, now - came);
}
