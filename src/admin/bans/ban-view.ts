import { NO_NOTE } from '../../contract/change-note.js';
import { BAN_TAG } from '../../stores/keys.js';
import { notesOfBans } from './ban-finds.js';
import { cannotBan } from './ban-scope.js';
import type { Published } from '../published.js';
import type { AdminWarning } from '../scope.js';
import type { FoundKey, Owner, State } from '../state.js';

/** The ban of a key in a limiter. */
export interface KeyBan {
  /** The rest of the ban, ms, or 0. */
  readonly bannedForMs: number;
  /** The operator of a ban by hand, if there is a note. */
  readonly bannedBy: string | null;
  /** The reason of a ban by hand, or `null`. */
  readonly banReason: string | null;
}

export const NOT_BANNED: KeyBan = { bannedForMs: 0, bannedBy: null, banReason: null };

interface BanOfOwner {
  readonly ban: KeyBan;
  readonly state: FoundKey;
  readonly isInForce: boolean;
  /** A warning if the limiter does not check for the ban. */
  readonly doubt: AdminWarning | undefined;
}

/** The ban of the first owner, or of the second if the limiter does not ban by the dimension of the first: a tenant is also denied by a ban of its limit's key. */
export async function banOfOne(
  { bans }: State,
  published: Published,
  owners: readonly Owner[],
): Promise<BanOfOwner> {
  const lefts = await bans.lefts(owners);
  const notes = await notesOfBans(bans, owners, lefts);
  const doubts = owners.map(({ name, by }) => cannotBan(published, name as string, by));
  const at = owners.length > 1 && doubts[0]?.code === 'NO_BAN' ? 1 : 0;
  const left = lefts[at] ?? 0;
  if (left instanceof Error) throw left;
  const doubt = left > 0 && doubts[at]?.code === 'NO_BAN' ? doubts[at] : undefined;
  const { by: bannedBy, reason: banReason } = notes.get(owners[at]!) ?? NO_NOTE;
  const state = { owner: owners[at]!, id: BAN_TAG };
  return { ban: { bannedForMs: left, bannedBy, banReason }, state, isInForce: left > 0 && !doubt, doubt };
}

/** Absent values are null. */
interface Answer {
  readonly allowed: boolean | null;
  readonly reason: string | null;
  readonly retryAfterMs: number | null;
}

/** The answer to a banned key. A key without quota is still denied when the ban ends. */
export function ofBanned(
  { bannedForMs }: KeyBan,
  { allowed, retryAfterMs }: Answer,
  shadow: boolean,
): Answer {
  const comesBack = allowed !== false || retryAfterMs !== null;
  const wait = comesBack ? Math.max(bannedForMs, retryAfterMs ?? 0) : null;
  return { allowed: shadow, reason: 'banned', retryAfterMs: wait };
}
