import { DEFAULT_DIMENSION } from '../../contract/key.js';
import type { Reply } from '../../contract/reply.js';
import type { PolicySet } from '../../contract/store.js';
import { countOf, nextWait, waitOf } from '../../contract/verdicts.js';

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

/** Whether denials ban keys, so the store must see each of them. */
export function bansByDenials({ ban }: PolicySet): boolean {
  return ban !== undefined && ban.after > 0;
}
