import type { LimiterDecision } from '../limiter/decision.js';
import { textsOf } from './header-texts.js';

/** The media type of problem details (RFC 9457). */
export const PROBLEM_TYPE = 'application/problem+json';

/** The status of a denial. `quota` is the user's `statusCode` for an exceeded quota. */
export function statusOf(decision: LimiterDecision, quota: number): number {
  if (decision.reason === 'deny-listed') return 403;
  return OURS.has(decision.reason) ? 503 : quota;
}

/** The reasons whose cause is the service, and not the client: the store is down or full, or too many requests wait. */
const OURS: ReadonlySet<LimiterDecision['reason']> = new Set([
  'store-error',
  'store-full',
  'process-late',
  'queue-full',
]);

const REGISTRY = 'https://iana.org/assignments/http-problem-types';

/**
 * The body of a denial: problem details (RFC 9457) with the types that the RateLimit draft registers.
 *
 * @param texts the names of the policies in the header fields of the same response
 */
export function problemOf(decision: LimiterDecision, status: number, texts = textsOf(decision.set)): string {
  if (decision.reason === 'deny-listed')
    return `{"type":"about:blank","title":"Forbidden","status":${status}}`;
  if (OURS.has(decision.reason))
    return head('temporary-reduced-capacity', 'Temporary Reduced Capacity', status) + '}';
  const start =
    decision.reason === 'banned'
      ? head('abnormal-usage-detected', 'Abnormal Usage Detected', status)
      : head('quota-exceeded', 'Quota Exceeded', status);
  const detail =
    decision.reason === 'cost-exceeds-capacity'
      ? ',"detail":"The request costs more than the policy ever admits at once."'
      : '';
  let violated = '';
  for (const i of texts.enforced)
    if (decision.policies[i]?.allowed === false) violated += (violated && ',') + texts.names[i]!;
  return `${start}${detail},"violated-policies":[${violated}]}`;
}

function head(type: string, title: string, status: number): string {
  return `{"type":"${REGISTRY}#${type}","title":"${title}","status":${status}`;
}
