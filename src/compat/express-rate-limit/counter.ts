import type { MaybePromise } from '../../contract/store.js';
import type { ClientRateLimitInfo } from './types.js';

/** How one request was counted. */
export interface Counted {
  /** Requests of this window, this one and denied ones included. */
  readonly used: number;
  readonly denied: boolean;
  readonly resetTime: Date | undefined;
  /** Gives the charge back if the request must not count. */
  undo(): MaybePromise<void>;
}

/** Counts requests. */
export interface Counter {
  count(key: string, limit: number): MaybePromise<Counted>;
  resetKey(key: string): MaybePromise<void>;
  /** Undefined if the store cannot tell. */
  readonly get: ((key: string) => MaybePromise<ClientRateLimitInfo | undefined>) | undefined;
}
