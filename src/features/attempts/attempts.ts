import { policyWith } from '../../contract/compile-policies.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { Reply } from '../../contract/reply.js';
import type { PolicySet } from '../../contract/store.js';
import {
  addVerdict,
  attemptWait,
  NEVER,
  nextWait,
  remainingOf,
  resetOf,
  waitOf,
} from '../../contract/verdicts.js';
import type { Feature } from '../feature.js';

/** Charges a policy that counts attempts for the requests that another policy denies. */
export const attempts: Feature = {
  name: 'attempts',
  appliesTo: countsAttempts,
  // Only another policy makes a request an attempt.
  isInSingle: () => true,
  isPlain: true,
  chargesDenied: (policy) => policy.attempts,
  chargedDenied({ columns, policies, row }, i, cost, now) {
    const column = columns[i]!;
    // A second look includes the attempt in `retryAfter`.
    column.look(row, policies[i]!.params, cost, now);
    column.wait = attemptWait(column.wait);
  },
  remembered: (set, reply, isRefused) => (isRefused ? Infinity : nextAttempt(set, reply)),
};

export function countsAttempts({ policies }: Pick<PolicySet, 'policies'>): boolean {
  return policies.some((policy) => policy.attempts);
}

/** The reply to the next query of the same kind, after the charged attempts of this one. */
export function afterAttempts({ policies }: PolicySet, reply: Reply): Reply {
  if (reply.verdicts.length === 0) return reply;
  const verdicts: number[] = [];
  policies.forEach((policy, i) => {
    const wait = waitOf(reply.verdicts, i);
    const next = policy.attempts ? nextWait(wait, true) : wait;
    addVerdict(verdicts, next, remainingOf(reply.verdicts, i), resetOf(reply.verdicts, i));
  });
  return { ...reply, verdicts };
}

/** The time until a policy would charge the next attempt, ms. `Infinity` if none ever does. */
function nextAttempt({ policies, dimensions }: PolicySet, { verdicts }: Reply): number {
  let next = Infinity;
  for (let i = 0; i < policies.length; i++) {
    if (!policies[i]!.attempts) continue;
    // When units of the policy's key return, the policy charges attempts again. A denial remembered under another key would not notice.
    if (dimensions) return 0;
    const wait = waitOf(verdicts, i);
    if (wait !== NEVER) next = Math.min(next, wait);
  }
  return next;
}

/** The policies of {@link withoutAttempts} that count attempts otherwise. */
const keeping = new WeakSet<CompiledPolicy>();

/** A policy with a change for waiting requests, whose denials are not attempts. */
export function withoutAttempts(policy: CompiledPolicy, change: Partial<CompiledPolicy>): CompiledPolicy {
  const result = policyWith(policy, { ...change, attempts: false });
  if (policy.attempts) keeping.add(result);
  return result;
}

/** Whether the charge of an admitted request stays after another limiter's denial, even if the request has waited. */
export const keepsAttempts = (policy: CompiledPolicy): boolean => policy.attempts || keeping.has(policy);
