// Bans by denials under an override: the bans that the override may cause, and the bans since its start, which outlast the override.
import { toText } from '../common/duration.js';
import type { ChangeNote } from '../contract/change-note.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import { ownerIn } from './bans.js';
import type { Context } from './context.js';
import { whoseOf, type Whose } from './owners.js';
import type { Configuration, Published } from './published.js';
import type { AdminWarning } from './scope.js';
import type { Owner, State } from './state.js';

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

const MAX_KEYS = 1000;

/** The bans by denials in force since an override began. @param since the start, or by default that of the last override of the log */
export async function bansSince(
  state: State,
  overridden: Overridden,
  since: Date | undefined,
): Promise<Found[]> {
  const start = since?.getTime() ?? (await lastStart(state, overridden));
  if (start === undefined) return [];
  const seen = new Set<string>();
  const found: Omit<Found, 'banned'>[] = [];
  for await (const { who, action, from } of state.log.since(start)) {
    if ((action !== 'ban' && action !== 'unban') || seen.has(who)) continue;
    seen.add(who);
    // The newest change of a key decides whether denials banned it.
    if (from !== 'denials' || !isOf(who, overridden)) continue;
    const owner = ownerIn(state, who);
    if (owner) found.push({ who, owner });
    if (found.length === MAX_KEYS) break;
  }
  const lefts = await state.bans.lefts(found.map(({ owner }) => owner));
  return found.flatMap((each, i) => {
    const left = lefts[i];
    if (typeof left !== 'number' || left <= 0) return [];
    return [{ ...each, banned: { ...whoseOf(each.who, overridden.name)!, bannedForMs: left } }];
  });
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

/** Ends bans, each with its own entry of the log, so that each can be undone. */
export async function endBans(
  { state, origin }: Context,
  found: readonly Found[],
  note: ChangeNote,
): Promise<void> {
  for (const { who, owner, banned } of found)
    await state.bans.set([{ owner, duration: 0, note }], {
      ...{ action: 'unban', who, keys: 1, forMs: 0, ...note, from: origin, before: banned.bannedForMs },
    });
}

/** The bans since an override began, in the result of its removal. */
export function bansIn(found: readonly Found[], unban: boolean | undefined) {
  const bans = found.map(({ banned }) => banned);
  return unban ? { unbanned: bans, warnings: [] } : { stillBanned: bans, warnings: stillBanned(bans.length) };
}

function stillBanned(count: number): AdminWarning[] {
  if (count === 0) return [];
  const keys = count === 1 ? 'a key is' : `${count} keys are`;
  const message = `${keys} still banned by denials since the override began. Set \`unban: true\` to end these bans, too.`;
  return [{ code: 'STILL_BANNED', message }];
}

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
