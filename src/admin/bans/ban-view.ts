import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { BAN_TAG } from '../../stores/keys.js';
import { cannotBan } from './ban-scope.js';
import type { LoggedChange } from '../log.js';
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
  const [lefts, notes] = await Promise.all([bans.lefts(owners), bans.notesOf(owners)]);
  const doubts = owners.map(({ name, by }) => cannotBan(published, name as string, by));
  const at = owners.length > 1 && doubts[0]?.code === 'NO_BAN' ? 1 : 0;
  const [left = 0, note] = [lefts[at], notes[at]];
  if (left instanceof Error) throw left;
  const doubt = left > 0 && doubts[at]?.code === 'NO_BAN' ? doubts[at] : undefined;
  const bannedBy = (left > 0 && note?.by) || null;
  const banReason = (left > 0 && note?.reason) || null;
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

/**
 * The cause of a ban without an operator's note: `denied by policy` and their names, for a ban by denials that the log has.
 *
 * @param changes of the key, the newest first
 */
export function banCauseOf(
  view: KeyBan & Readonly<Record<'name' | 'key' | 'dimension', string>>,
  changes: Iterable<LoggedChange>,
): string | null {
  if (view.bannedForMs === 0 || view.bannedBy !== null || view.banReason !== null) return null;
  for (const { action, from, reason, undoneBy, name, key, dimension = DEFAULT_DIMENSION } of changes) {
    const isOfView = name === view.name && key === view.key && dimension === view.dimension;
    if (!isOfView || (action !== 'ban' && action !== 'unban') || undoneBy !== undefined) continue;
    return action === 'ban' && from === 'denials' ? reason : null;
  }
  return null;
}
