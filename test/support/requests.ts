import type { Key } from 'headgate';
import type { PolicySet } from '../../src/contract/store.js';
import { requestOf, type WaitRequest } from '../../src/limiter/request.js';

/** A request of cost 1 that waits without a time limit, unless `terms` differ. */
export function waitRequest(key: Key, set: PolicySet, terms: Partial<WaitRequest> = {}): WaitRequest {
  const waits = { timeout: Infinity, signal: undefined, priority: 0, isUnbounded: false, hopes: false };
  return { ...requestOf(key, 1, set), ...waits, ...terms };
}
