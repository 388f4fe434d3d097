import type { LimiterDecision } from '../limiter/decision.js';
import { textsOf, type HeaderTexts } from './header-texts.js';

/** The media type of problem details (RFC 9457). */
export const PROBLEM_TYPE = 'application/problem+json';

/** The status of a denial. `quota` is the user's `statusCode` for an exceeded quota. */
export function statusOf(decision: LimiterDecision, quota: number): number {
  if (decision.reason === 'deny-listed') return 403;
  return isOurs(decision) ? 503 : quota;
}

/** Whether the service is the cause, and not the client: the store is down or full, or too many requests wait. */
function isOurs({ reason }: LimiterDecision): boolean {
  return /^(store-error|store-full|process-late|queue-full)$/.test(reason ?? '');
}

const REGISTRY = 'https://iana.org/assignments/http-problem-types';

/**
 * The body of a denial: problem details (RFC 9457) with the types that the RateLimit draft registers.
 *
 * @param texts the names of the policies in the header fields of the same response
 */
export function problemOf(decision: LimiterDecision, status: number, texts = textsOf(decision.set)): string {
  if (decision.reason === 'deny-listed')
    return `{"type":"about:blank","title":"Forbidden","status":${status}}`;
  if (isOurs(decision)) return head('temporary-reduced-capacity', 'Temporary Reduced Capacity', status) + '}';
  const start =
    decision.reason === 'banned'
      ? head('abnormal-usage-detected', 'Abnormal Usage Detected', status)
      : head('quota-exceeded', 'Quota Exceeded', status);
  const detail =
    decision.reason === 'cost-exceeds-capacity'
      ? ',"detail":"The request costs more than the policy ever admits at once."'
      : '';
  return `${start}${detail},"violated-policies":[${violated(decision, texts)}]}`;
}

function head(type: string, title: string, status: number): string {
  return `{"type":"${REGISTRY}#${type}","title":"${title}","status":${status}`;
}

function violated(decision: LimiterDecision, { enforced, names }: HeaderTexts): string {
  let list = '';
  for (const i of enforced) {
    if (decision.policies[i]?.allowed === false) list += list === '' ? names[i]! : `,${names[i]}`;
  }
  return list;
}
