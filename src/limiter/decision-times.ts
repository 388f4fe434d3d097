// The times in a decision: until the policies admit, until a ban is over, until a held request has its turn.
import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { CompiledPolicy } from '../contract/policy.js';
import type { Reply } from '../contract/reply.js';
import type { PolicySet } from '../contract/store.js';
import { countOf, NEVER, nextWait, waitOf, type Verdicts } from '../contract/verdicts.js';

/** The time until the ban is over and the policies admit the same cost, if they ever do. A fresh ban forgets charges when it starts. */
export function banWait({ policies, dimensions, freshBans }: PolicySet, { ban, verdicts }: Reply): number {
  const forgotten = ban < 0 && freshBans ? (dimensions?.banBy ?? DEFAULT_DIMENSION) : undefined;
  let longest = Math.abs(ban);
  for (let i = 0; i < countOf(verdicts); i++) {
    const { shadow, attempts, by, isHidden, traits } = policies[i]!;
    // The hidden verdict on a tenant contains the waits of the other policies, too.
    const isForgotten = forgotten !== undefined && (isHidden || by === forgotten) && !traits.holdsSlots;
    if (!shadow && !isForgotten) longest = Math.max(longest, nextWait(waitOf(verdicts, i), attempts));
  }
  return longest;
}

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
