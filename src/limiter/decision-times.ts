// The times in a decision: until the policies admit, until a held request has its turn.
import type { CompiledPolicy } from '../contract/policy.js';
import { countOf, NEVER, nextWait, waitOf, type Verdicts } from '../contract/verdicts.js';

/** The time until every policy, also after charging the attempt, admits the same cost. Undefined if never. */
export function retryAfterOf(policies: readonly CompiledPolicy[], verdicts: Verdicts): number | undefined {
  let longest = 0;
  for (let i = 0; i < countOf(verdicts); i++) {
    const { shadow, attempts } = policies[i]!;
    if (shadow) continue;
    const wait = nextWait(waitOf(verdicts, i), attempts);
    if (wait === NEVER) return undefined;
    longest = Math.max(longest, wait);
  }
  return longest;
}

/** The longest time for which a policy holds the request, ms. */
export function delayOf(policies: readonly CompiledPolicy[], verdicts: Verdicts): number {
  let delay = 0;
  for (let i = 0; i < countOf(verdicts); i++) {
    if (!policies[i]!.shadow) delay = Math.max(delay, NEVER - waitOf(verdicts, i));
  }
  return delay;
}
