import type { Decision } from '../../common/decision.js';
import { HeadgateError, show } from '../../common/errors.js';
import type { Key } from '../../contract/key.js';

/** The error for a wait that ends, or certainly would end, without an admission. @param decision the denial, if present */
export function lateError(key: Key, decision: Decision | undefined): HeadgateError {
  const wait = decision?.retryAfterMs
    ? ` The earliest possible admission is in ${decision.retryAfterMs} ms.`
    : '';
  return new HeadgateError(
    'HEADGATE_WAIT_TIMEOUT',
    `${show(key)} was not admitted in time.${wait}`,
    decision && { decision },
  );
}

/** The error for a denied caller that gets no decision. */
export function deniedError(decision: Decision): HeadgateError {
  const { key, reason, retryAfterMs } = decision;
  const again = retryAfterMs === undefined ? '' : ` It may be admitted in ${retryAfterMs} ms.`;
  return new HeadgateError('HEADGATE_DENIED', `${show(key)} is denied: ${reason}.${again}`, { decision });
}

export function abortedError(signal: AbortSignal | undefined): HeadgateError {
  return new HeadgateError('HEADGATE_ABORTED', 'The wait was aborted.', { cause: signal?.reason });
}

/** The error for a caller without a place. */
export function fullError(key: Key): HeadgateError {
  return new HeadgateError(
    'HEADGATE_QUEUE_FULL',
    `${show(key)} cannot wait: too many requests are waiting already (maxWaiting, maxWaitingPerKey).`,
  );
}
