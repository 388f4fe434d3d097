// Bans by denials under an override: the bans that the override may cause, and the bans since its start, which outlast the override.
import { toText } from '../../common/duration.js';
import type { ChangeNote } from '../../contract/change-note.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import type { Context } from '../context.js';
import { isAutomatic, MAX_CHANGES } from '../../stores/journal.js';
import { ownerIn } from '../logged-keys.js';
import { whoseOf, type Whose } from '../owners.js';
import type { Configuration, Published } from '../published.js';
import type { AdminWarning } from '../scope.js';
import type { Owner, State } from '../state.js';

/** A key that denials have banned since an override began. */
export interface BannedSince extends Whose {
  /** The rest of the ban, ms. */
  readonly bannedForMs: number;
}

/** The key of an override, or all keys. */
interface Overridden {
  readonly name: string;
  /** Absent for all keys. */
  readonly key?: string | undefined;
  readonly dimension: string;
}

/** A ban by denials, and its owner in the state. */
interface Found {
  readonly who: string;
  readonly owner: Owner;
  readonly banned: BannedSince;
}

/** The most listed keys, and the most ends of bans with separate log entries. */
const MAX_KEYS = 1000;

interface Bans {
  readonly found: readonly Found[];
  /** Whether there may be more, because only the first ones were searched for. */
  readonly isCut: boolean;
  /** Whether there may be earlier ones, which the log no longer has. */
  readonly isLogCut: boolean;
}

/**
 * The bans by denials in force since an override began.
 *
 * @param since the start, or by default that of the last override of the log
 * @param most the most bans to search for, the newest first
 */
export async function bansSince(
  state: State,
  overridden: Overridden,
  since: Date | undefined,
  most = MAX_KEYS,
): Promise<Bans> {
  const start = since?.getTime() ?? (await lastStart(state, overridden));
  if (start === undefined) return { found: [], isCut: false, isLogCut: false };
  let automatic = 0;
  const seen = new Set<string>();
  const found: Omit<Found, 'banned'>[] = [];
  for await (const change of state.log.since(start)) {
    const { who, action, from } = change;
    if (isAutomatic(change)) automatic++;
    if ((action !== 'ban' && action !== 'unban') || seen.has(who)) continue;
    seen.add(who);
    // The newest change of a key decides whether denials banned it.
    if (from !== 'denials' || !isOf(who, overridden)) continue;
    const owner = ownerIn(state, who);
    if (owner) found.push({ who, owner });
    if (found.length === most) break;
  }
  const lefts = await state.bans.lefts(found.map(({ owner }) => owner));
  const inForce = found.flatMap((each, i) => {
    const left = lefts[i];
    if (typeof left !== 'number' || left <= 0) return [];
    return [{ ...each, banned: { ...whoseOf(each.who, overridden.name)!, bannedForMs: left } }];
  });
  return { found: inForce, isCut: found.length === most, isLogCut: automatic >= MAX_CHANGES };
}

/** The start of the last override of the log, ms since 1970. */
async function lastStart(state: State, overridden: Overridden): Promise<number | undefined> {
  for await (const { who, action, at } of state.log.since(0)) {
    const whose = action === 'override' ? whoseOf(who, overridden.name) : undefined;
    if (whose && whose.key === overridden.key && isOfDimension(whose, overridden)) return at;
  }
  return undefined;
}

const isOfDimension = (whose: Whose, { key, dimension }: Overridden): boolean =>
  key === undefined || (whose.dimension ?? DEFAULT_DIMENSION) === dimension;

function isOf(who: string, overridden: Overridden): boolean {
  const whose = whoseOf(who, overridden.name);
  if (whose?.key === undefined || whose.within !== undefined) return false;
  return overridden.key === undefined || (whose.key === overridden.key && isOfDimension(whose, overridden));
}

/**
 * Ends bans, each with its own entry of the log, so that each can be undone. Further ones have an entry together: single entries would take
 * the places of earlier changes by operators.
 */
export async function endBans(
  { state, origin }: Context,
  found: readonly Found[],
  note: ChangeNote,
): Promise<void> {
  // A joint entry has two bans at least.
  const single = found.length === MAX_KEYS + 1 ? found : found.slice(0, MAX_KEYS);
  const groups = [...single.map((each) => [each]), found.slice(single.length)];
  for (const group of groups.filter(({ length }) => length > 0)) {
    const { who } = group[0]!;
    const changes = group.map(({ owner }) => ({ owner, duration: 0, note }));
    await state.bans.set(changes, {
      ...{ action: 'unban', forMs: 0, ...note, from: origin, keys: group.length },
      who: group.length === 1 ? who : who.slice(0, who.indexOf(':') + 1),
      before: Math.max(...group.map(({ banned }) => banned.bannedForMs)),
    });
  }
}

/** The bans since an override began, in the result of its removal. */
export function bansIn({ found, isCut, isLogCut }: Bans, unban: boolean | undefined) {
  const bans = found.map(({ banned }) => banned);
  const earlier = isLogCut ? [EARLIER] : [];
  if (unban) return { unbanned: bans, warnings: earlier };
  return { stillBanned: bans, warnings: [...stillBanned(bans.length, isCut), ...earlier] };
}

function stillBanned(count: number, isCut: boolean): AdminWarning[] {
  if (count === 0 && !isCut) return [];
  const more = count === 0 ? 'keys may be' : `${count} keys or more are`;
  const keys = isCut ? more : count === 1 ? 'a key is' : `${count} keys are`;
  const message = `${keys} still banned by denials since the override began. Set \`unban: true\` to end these bans, too.`;
  return [{ code: 'STILL_BANNED', message }];
}

const EARLIER: AdminWarning = {
  code: 'STILL_BANNED',
  message:
    `the log has only the last ${MAX_CHANGES} automatic changes, so keys that denials banned before those may still be banned. List the bans, ` +
    'and end those that should not stay.',
};

const banning = (configurations: readonly Configuration[]): Configuration | undefined =>
  configurations.find(({ ban, shadow }) => ban && ban.after > 0 && !shadow);

/**
 * The denials after which a limiter bans a key, and the length of the first ban: `'100 denials in 5m, for 10m'`. Undefined if denials never ban.
 *
 * @param configurations those of the limiter's processes
 */
export function banRuleOf(configurations: readonly Configuration[]): string | undefined {
  const ban = banning(configurations)?.ban;
  return ban ? `${ban.after} denials in ${toText(ban.within)}, for ${toText(ban.first)}` : undefined;
}

/** A warning about bans by denials that a lower limit may cause. @param isLower whether the limit of a dimension becomes lower */
export function mayBan(
  { scopes }: Published,
  name: string,
  isLower: (dimension: string) => boolean,
): AdminWarning[] {
  const configurations = scopes.get(name) ?? [];
  const rule = banRuleOf(configurations);
  if (rule === undefined || !isLower(banning(configurations)?.banBy ?? DEFAULT_DIMENSION)) return [];
  const message =
    `${JSON.stringify(name)} bans a key after ${rule}, so keys that ` +
    'do not slow down under the lower limit may be banned. These bans stay when the override ends.';
  return [{ code: 'MAY_BAN', message }];
}
