import type { CompiledPolicy } from '../../contract/policy.js';
import type { Reply } from '../../contract/reply.js';
import type { PolicySet } from '../../contract/store.js';
import { addVerdict, NEVER, nextWait, remainingOf, resetOf, waitOf } from '../../contract/verdicts.js';

// A policy counts attempts if it charges requests that another policy denies. The charge is a step of the decision: see `charge` in
// stores/state/evaluate.ts and in stores/redis/lua/steps.lua. Here is everything that follows from it.

/** Whether one of the policies counts attempts. */
export function countsAttempts({ policies }: Pick<PolicySet, 'policies'>): boolean {
  return policies.some(({ attempts }) => attempts);
}

/** The reply to the next query of the same kind, after the charged attempts of this one. */
export function afterAttempts({ policies }: PolicySet, reply: Reply): Reply {
  if (reply.verdicts.length === 0) return reply;
  const verdicts: number[] = [];
  policies.forEach(({ attempts }, i) => {
    const wait = waitOf(reply.verdicts, i);
    const next = attempts ? nextWait(wait, attempts) : wait;
    addVerdict(verdicts, next, remainingOf(reply.verdicts, i), resetOf(reply.verdicts, i));
  });
  return { ...reply, verdicts };
}

/** The time until a policy would charge the next attempt, ms. `Infinity` if none ever does. */
export function nextAttempt({ policies, dimensions }: PolicySet, { verdicts }: Reply): number {
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
  const result = { ...policy, ...change, attempts: false };
  if (policy.attempts) keeping.add(result);
  return result;
}

/** Whether the charge of an admitted request stays after another limiter's denial, even if the request has waited. */
export const keepsAttempts = (policy: CompiledPolicy): boolean => policy.attempts || keeping.has(policy);
