// Bans by denials since an override began, because they stay when the override ends.
import type { ChangeNote } from '../contract/change-note.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { Context } from './context.js';
import { whoseOf, type Whose } from './owners.js';
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

/** The owner of a logged key. Undefined if the log has only the hash of the key, and the store needs the key. */
export function ownerIn(state: State, who: string): Owner | undefined {
  const { name, key, dimension } = whoseOf(who, undefined)!;
  try {
    return state.ownerOf(name, key!, dimension);
  } catch {
    return undefined;
  }
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

export function stillBanned(found: readonly Found[]): AdminWarning | undefined {
  if (found.length === 0) return undefined;
  const keys = found.length === 1 ? 'a key is' : `${found.length} keys are`;
  const message = `${keys} still banned by denials since the override began. Set \`unban: true\` to end these bans, too.`;
  return { code: 'STILL_BANNED', message };
}
