import type { Verdict } from '../common/decision.js';
import type { LimiterDecision } from '../limiter/decision.js';
import type { Algorithm } from '../contract/policy.js';

/** A verdict with its policy's algorithm, for JSON. Absent values are null. */
export interface PolicyVerdict extends Omit<Verdict, 'retryAfterMs'> {
  readonly algorithm: Algorithm;
  readonly windowMs: number;
  readonly shadow: boolean;
  readonly retryAfterMs: number | null;
}

export function verdictsOf({ policies, set }: LimiterDecision): PolicyVerdict[] {
  return policies.map((verdict, i) => {
    const { algorithm, window, shadow } = set.policies[i]!;
    return {
      name: verdict.name,
      key: verdict.key,
      algorithm,
      limit: verdict.limit,
      windowMs: window,
      shadow,
      allowed: verdict.allowed,
      remaining: verdict.remaining,
      retryAfterMs: verdict.retryAfterMs ?? null,
      resetAfterMs: verdict.resetAfterMs,
    };
  });
}
