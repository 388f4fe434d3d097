import { NO_NOTE, type ChangeNote } from '../../contract/change-note.js';
import type { BanSource } from './ban-source.js';
import { whoseState, type FoundKey, type Owner, type WhoseKey } from '../owners.js';

/** A ban that is in force. */
export interface BannedKey extends WhoseKey {
  /** `banned`. */
  readonly kind: 'banned';
  /** The rest of the ban, ms. */
  readonly bannedForMs: number;
  /** The end of the ban by the clock of this process: ISO 8601. */
  readonly bannedUntil: string;
  /** The operator of a ban by hand, if there is a note. In SQLite and memory, only bans of single keys have notes. */
  readonly by: string | null;
  /** The reason of a ban by hand, or `null`. */
  readonly reason: string | null;
}

/** The bans of keys that a change of other state leaves in force. */
export interface BansOfKeys {
  /** The number of keys that are still banned. A reset does not end bans. */
  readonly banned: number;
  /** The rest of the longest of these bans, ms, or 0. */
  readonly bannedForMs: number;
}

export async function bansAmong(bans: BanSource, owners: readonly Owner[]): Promise<BansOfKeys> {
  const lefts = (await bans.lefts(owners)).map((left) => (left instanceof Error ? 0 : left));
  return { banned: lefts.filter((ms) => ms > 0).length, bannedForMs: Math.max(...lefts) };
}

/** For each state of a ban: the ban in force; or undefined if there are only denials that count; or the error if it cannot be read. */
export async function bansOf(
  bans: BanSource,
  found: readonly FoundKey[],
): Promise<(BannedKey | Error | undefined)[]> {
  const owners = found.map(({ owner }) => owner);
  const lefts = await bans.lefts(owners);
  const notes = await notesOfBans(bans, owners, lefts);
  return owners.map((owner, i): BannedKey | Error | undefined => {
    const bannedForMs = lefts[i]!;
    if (typeof bannedForMs !== 'number') return bannedForMs;
    if (bannedForMs === 0) return undefined;
    const bannedUntil = new Date(Date.now() + bannedForMs).toISOString();
    return { kind: 'banned', ...whoseState(owner), bannedForMs, bannedUntil, ...notes.get(owner)! };
  });
}

/** The notes of the bans in force. Without one, no log is searched for any. */
export async function notesOfBans(
  bans: BanSource,
  owners: readonly Owner[],
  lefts: readonly (number | Error)[],
): Promise<ReadonlyMap<Owner, ChangeNote>> {
  const banned = owners.filter((_, i) => typeof lefts[i] === 'number' && lefts[i] > 0);
  const notes = banned.length === 0 ? [] : await bans.notesOf(banned);
  return new Map(banned.map((owner, i) => [owner, notes[i] ?? NO_NOTE]));
}

/** The rest of each ban, ms. @throws the error of state that cannot be read */
export async function leftOf(
  { bans }: { readonly bans: BanSource },
  owners: readonly Owner[],
): Promise<number[]> {
  const lefts = await bans.lefts(owners);
  return lefts.map((left) => {
    if (left instanceof Error) throw left;
    return left;
  });
}
