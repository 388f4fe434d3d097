import type { ChangeNote } from '../../contract/change-note.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import type { Reply } from '../../contract/reply.js';
import type { PolicySet } from '../../contract/store.js';
import { admits, waitOf } from '../../contract/verdicts.js';
import type { JournalEntry } from '../../stores/journal.js';
import type { DimensionSet } from '../../contract/dimension-sets.js';
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
