import type { ChangeNote } from '../../contract/change-note.js';
import { NO_COSTS } from '../../contract/costs.js';
import type { DimensionSet } from '../../contract/dimension-sets.js';
import { subjectOf } from '../../contract/dimensions.js';
import { DEFAULT_DIMENSION, type Key } from '../../contract/key.js';
import type { Reply } from '../../contract/reply.js';
import { lookOf, type PolicySet, type Store, type Subject } from '../../contract/store.js';
import { variant } from '../../contract/variant.js';
import { admits, countOf, nextWait, remainingOf, waitOf } from '../../contract/verdicts.js';
import type { JournalEntry } from '../../stores/journal.js';
import type { Place } from '../feature.js';

/** The rest of the ban of a place, ms, or 0. */
export function refuse({ part, bans, row }: Place, now: number, writable: boolean): number {
  return part.set.ban ? bans.look(row, part.set.ban, now, writable) : 0;
}

/** Counts a denial. @returns below 0 if it starts a ban: see `Reply.ban` */
export function strike({ part, bans, row }: Place, now: number): number {
  const started = part.set.ban ? bans.strike(row, part.set.ban, now) : 0;
  return started === 0 ? 0 : -started;
}

/** The operation `ban` of a store. @returns the rest of the ban before, ms */
export function setBan(places: readonly Place[], duration: number, now: number): number {
  const place = places.find(({ part }) => hasBan(part))!;
  const left = refuse(place, now, false);
  if (place.row === 0 && duration > 0) place.create(now, true);
  if (place.row !== 0) place.bans.set(place.row, place.part.set.ban!, now, duration);
  return left;
}

/** Whether the ban of a set is part of the state of a part. */
export function hasBan({ set }: DimensionSet): boolean {
  return set.ban !== undefined;
}

/** The log entry of a ban. @param left the rest of the ban before, ms */
export function bannedChange(who: string, forMs: number, left: number, note: ChangeNote): JournalEntry {
  return {
    ...note,
    ...({ action: forMs > 0 ? 'ban' : 'unban', who, keys: 1, forMs, from: 'program' } as const),
    ...(left > 0 && { before: left }),
    ...(forMs > 0 && { after: forMs }),
  };
}

/** The log entry of a ban that a denial started. Its reason names the denying policies, because no operator gives one. */
export function struckChange(who: string, { policies, dimensions }: PolicySet, reply: Reply): JournalEntry {
  const banBy = dimensions?.banBy ?? DEFAULT_DIMENSION;
  const names = policies.flatMap(({ name, by, shadow, isHidden }, i) =>
    by === banBy && !shadow && !isHidden && !admits(waitOf(reply.verdicts, i)) ? [name] : [],
  );
  const reason = names.length > 0 ? `denied by policy ${names.join(', ')}` : null;
  const forMs = -reply.ban;
  return { action: 'ban', who, keys: 1, forMs, by: null, reason, from: 'denials', after: forMs };
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

/** Whether denials ban keys, so the store must see each of them. */
export function bansByDenials({ ban }: PolicySet): boolean {
  return ban !== undefined && ban.after > 0;
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

/** The charges that the ban of a subject's key forgets, if it forgets any. */
export function forgottenBy(subject: Subject): Subject | undefined {
  const { freshBans } = subject.set;
  return freshBans && chargesIn(freshBans.charges, subject);
}

/** The key of a subject in other policies, with the dimensions that these have. */
export function chargesIn(charges: PolicySet, { set, key }: Subject): Subject {
  const names = set.dimensions?.names ?? [DEFAULT_DIMENSION];
  const wanted = charges.dimensions?.names ?? [DEFAULT_DIMENSION];
  const keys = typeof key === 'string' ? [key] : key;
  const own = names.flatMap((name, i) => (wanted.includes(name) ? [[name, keys[i]]] : []));
  return subjectOf(charges, Object.fromEntries(own) as Key, []);
}

/** A look at the policies of a key, also of a banned one. */
export async function lookPastBan(store: Store, subject: Subject): Promise<Reply> {
  const query = lookOf(subject, NO_COSTS);
  const reply = await store.decide(query);
  if (reply.ban <= 0) return reply;
  const set = variant(subject.set, 'without ban', () => ({ ban: undefined }));
  return { ...(await store.decide({ ...query, set })), ban: reply.ban };
}
