import type { Verdict } from '../common/decision.js';
import type { CompiledPolicy } from '../contract/policy.js';

/** The index of the deciding policy. Shadows decide only if every policy is a shadow, and then by fewer units left. */
export function deciderOf(policies: readonly CompiledPolicy[], list: readonly Verdict[]): number {
  let decider = 0;
  for (let i = 1; i < list.length; i++) {
    const { shadow } = policies[i]!;
    const isShadow = policies[decider]!.shadow;
    const isWeightier = shadow
      ? list[i]!.remaining < list[decider]!.remaining
      : outweighs(list[i]!, list[decider]!);
    if (isShadow === shadow ? isWeightier : isShadow) decider = i;
  }
  return decider;
}

/** Whether a verdict takes precedence: by a denial, or a longer denial; or if both admit, by fewer units left. */
export function outweighs(verdict: Verdict, other: Verdict): boolean {
  if (verdict.allowed !== other.allowed) return other.allowed;
  if (verdict.allowed) return verdict.remaining < other.remaining;
  return (verdict.retryAfterMs ?? Infinity) > (other.retryAfterMs ?? Infinity);
}
