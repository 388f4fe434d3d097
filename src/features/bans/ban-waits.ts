import { NO_COSTS } from '../../contract/costs.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import type { Reply } from '../../contract/reply.js';
import { lookOf, type PolicySet, type Store, type Subject } from '../../contract/store.js';
import { variant } from '../../contract/variant.js';
import { countOf, nextWait, remainingOf, waitOf } from '../../contract/verdicts.js';

/** Whether denials ban keys, so the store must see each denial. */
export function bansByDenials({ ban }: PolicySet): boolean {
  return ban !== undefined && ban.after > 0;
}

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

/**
 * Whether a ban denies another cost in the same way: if all policies would admit both costs after the ban. Otherwise only the store knows how
 * long the policies would deny the other cost.
 */
export function isBannedAlike(
  { ban, verdicts }: Reply,
  asked: number | string,
  cost: number | string,
): boolean {
  if (ban === 0 || typeof asked === 'string' || typeof cost === 'string') return false;
  for (let i = 0; i < countOf(verdicts); i++)
    if (waitOf(verdicts, i) !== 0 || cost > Math.max(asked, remainingOf(verdicts, i))) return false;
  return true;
}

/** A look at the policies of a key, also of a banned one. */
export async function lookPastBan(store: Store, subject: Subject): Promise<Reply> {
  const query = lookOf(subject, NO_COSTS);
  const reply = await store.decide(query);
  if (reply.ban <= 0) return reply;
  const set = variant(subject.set, 'without ban', () => ({ ban: undefined }));
  return { ...(await store.decide({ ...query, set })), ban: reply.ban };
}
