import type { MaybePromise } from '../../contract/store.js';
import type { ClientRateLimitInfo } from './types.js';

export interface Counted {
  /** Requests in the current window, including this request and denied requests. */
  readonly used: number;
  readonly denied: boolean;
  readonly resetTime: Date | undefined;
  /** Refunds the charge if the request must not count. */
  undo(): MaybePromise<void>;
}

export interface Counter {
  count(key: string, limit: number): MaybePromise<Counted>;
  resetKey(key: string): MaybePromise<void>;
  /** Reads a key's count. `undefined` if the store does not support reading. */
  readonly get: ((key: string) => MaybePromise<ClientRateLimitInfo | undefined>) | undefined;
}
