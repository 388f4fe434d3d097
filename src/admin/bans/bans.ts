import { shortText, toMilliseconds, type Duration } from '../../common/duration.js';
import { HeadgateError } from '../../common/errors.js';
import { checkBoolean, checkShape } from '../../common/validate.js';
import type { ChangeNote } from '../../contract/change-note.js';
import type { JournalEntry } from '../../stores/journal.js';
import { BanFinder } from './ban-finder.js';
import { leftOf, type BannedKey } from './ban-finds.js';
import { banOrigins } from './ban-origins.js';
import { importFunctions, type ImportAdmin } from './import-bans.js';
import { cannotBan, checkBans } from './ban-scope.js';
import {
  checkChange,
  checkName,
  noteOf,
  SAME_END_MS,
  type Bound,
  type Context,
  type KeyChangeOptions,
  type NameFilter,
} from '../context.js';
import { LIMIT_FIELDS, type GivenLimits } from '../limits.js';
import { loggedOwner, ownersOf } from '../logged-keys.js';
import { dimensionsOfBans, type Published } from '../published.js';
import { prepareReset, type ResetResult } from '../resets.js';
import { doubtsOf, notNoted, subjectIn, warnings, type AdminWarning } from '../scope.js';
import { typedKey, wrongArgument, type Subject } from '../typed-keys.js';

/** Options of `ban`. */
export interface BanKeyOptions extends KeyChangeOptions {
  /** Whether to ban even if no limiter is known to check for the ban. @default false */
  force?: boolean | undefined;
}

/** Options of `unban`. */
export interface UnbanKeyOptions extends KeyChangeOptions, GivenLimits {
  /**
   * Whether to forget the key's charges, too, as `reset` does. Otherwise the charges stay, and a key that has spent its quota is denied
   * until the window ends. If the store does not know the limiter, pass the limiter's `policies`, too. @default false
   */
  fresh?: boolean | undefined;
}

/** The result of `ban`. */
export interface BanResult extends Subject, ChangeNote {
  /** The name of the limiter. */
  readonly name: string;
  /** The length of the ban, ms. */
  readonly bannedForMs: number;
  /** The end of the ban, by the clock of this process. */
  readonly until: Date;
  /** Doubts about the change, such as a key that cannot occur. */
  readonly warnings: readonly AdminWarning[];
}

/** The result of `unban`. For a network, `denials` and `lastBanMs` are absent. */
export interface UnbanResult extends Omit<ResetResult, 'policies' | 'charged'> {
  /** The number of keys that were banned. */
  readonly banned: number;
  /** The rest of the longest ban that was ended, ms, or 0. */
  readonly bannedForMs: number;
  /** The denials that counted towards the next ban, and are forgotten. */
  readonly denials?: number;
  /** The length of the last ban by denials, which is forgotten, ms. 0 if there was none. */
  readonly lastBanMs?: number;
  /** The names of the policies whose charges were forgotten. Absent without `fresh`. */
  readonly policies?: readonly string[];
}

/** Options of `bans`. */
export interface BansOptions extends NameFilter {
  /** `'never'`: on Redis, only the bans in the index, which may lack some. All other values search all keys. @default true */
  scan?: boolean | 'never' | undefined;
}

/** Limiters by name, or all published ones that ban by the dimension of a key. */
type Names = readonly string[] | 'all';

/** A change of the bans of a key. */
interface Banning<Options extends KeyChangeOptions> {
  readonly key: string;
  readonly note: ChangeNote;
  readonly options: Omit<Options, 'name'>;
}

async function ban(
  context: Context,
  key: string,
  duration: Duration,
  options: BanKeyOptions,
): Promise<BanResult> {
  const note = checkChange('ban', options, 'force');
  const [result] = await banAll(context, [options.name], { key, note, options }, duration);
  return result!;
}

async function banIn(
  context: Context,
  names: readonly string[] | 'all',
  ...[key, duration, options = {}]: [key: string, duration: Duration, options?: Omit<BanKeyOptions, 'name'>]
): Promise<BanResult[]> {
  checkShape('banIn', options, [...CHANGE_FIELDS, 'force']);
  return banAll(context, names, { key, note: noteOf('banIn', options), options }, duration);
}

/** Checks all bans before the first one. */
async function banAll(
  { state, origin }: Context,
  names: Names,
  { key, note, options }: Banning<BanKeyOptions>,
  duration: Duration,
): Promise<BanResult[]> {
  const forMs = toMilliseconds('duration', duration, { usual: 'long' });
  const published = await state.published();
  const typed = typedKey(key, options);
  const bans = namesOf(published, names, typed.dimension).map((name) => {
    const doubt = checkBans(published, name, typed.dimension, options.force ?? false);
    const [subject, doubtOfKey] = subjectIn(published, name, typed, dimensionsOfBans);
    return async (): Promise<BanResult> => {
      const owners = ownersOf(state, name, subject);
      const before = await leftOf(state, owners);
      const longest = Math.max(...before);
      const unnoted = await state.bans.set(
        owners.map((owner) => ({ owner, duration: forMs, note })),
        {
          ...{ action: 'ban', ...loggedOwner(state, name, subject), forMs, ...note, from: origin },
          ...(longest > 0 && { before: longest }),
          after: forMs,
        },
      );
      const doubts = [doubt, doubtOfKey, shortened(before, forMs, name), notNoted(unnoted)];
      return {
        ...{ name, ...subject, bannedForMs: forMs, until: new Date(Date.now() + forMs), ...note },
        warnings: warnings(...doubtsOf(published, undefined), ...doubts),
      };
    };
  });
  return inTurn(bans);
}

async function unban(context: Context, key: string, options: UnbanKeyOptions): Promise<UnbanResult> {
  const note = checkChange('unban', options, 'fresh', ...LIMIT_FIELDS);
  const [result] = await unbanAll(context, [options.name], { key, note, options });
  return result!;
}

async function unbanIn(
  context: Context,
  names: readonly string[] | 'all',
  key: string,
  options: Omit<UnbanKeyOptions, 'name'> = {},
): Promise<UnbanResult[]> {
  checkShape('unbanIn', options, [...CHANGE_FIELDS, 'fresh', ...LIMIT_FIELDS]);
  return unbanAll(context, names, { key, note: noteOf('unbanIn', options), options });
}

/** Checks the end of all bans before the first one ends. */
async function unbanAll(
  context: Context,
  names: Names,
  unbanning: Banning<UnbanKeyOptions>,
): Promise<UnbanResult[]> {
  const { key, options } = unbanning;
  const { fresh, ...others } = options;
  const isFresh = checkBoolean('fresh', fresh, false);
  const published = await context.state.published();
  const typed = typedKey(key, options);
  const unbans: (() => Promise<UnbanResult>)[] = [];
  const scopes = namesOf(published, names, typed.dimension);
  // If something else changes, a ban of another dimension is a warning.
  const isSole = scopes.length === 1 && !isFresh;
  for (const name of scopes) {
    const [subject, doubt] = subjectIn(published, name, typed, dimensionsOfBans);
    // Checked before the ban ends, so that a wrong argument changes nothing.
    const reset = isFresh ? await prepareReset(context, key, { ...others, name }) : undefined;
    unbans.push(async () => {
      const { useless, unnoted, ...ended } = await endBan(
        context,
        published,
        { name, subject, isSole },
        unbanning,
      );
      const doubts = warnings(...doubtsOf(published, name), doubt, useless, notNoted(unnoted));
      const result = { name, ...subject, ...ended, warnings: doubts };
      if (!reset) return result;
      const { policies, warnings: more } = await reset();
      const news = more.filter(({ message }) => doubts.every((each) => each.message !== message));
      return { ...result, policies, warnings: [...doubts, ...news] };
    });
  }
  return inTurn(unbans);
}

/** @throws HeadgateError `HEADGATE_NO_BANS` if there is no ban to end, and the limiter does not ban by the dimension */
async function endBan(
  { state, origin }: Context,
  published: Published,
  { name, subject, isSole }: { readonly name: string; readonly subject: Subject; readonly isSole: boolean },
  { note, options }: Banning<UnbanKeyOptions>,
) {
  const owners = ownersOf(state, name, subject);
  const before = owners.length === 1 ? await state.bans.stateOf(owners[0]!) : undefined;
  const lefts = before ? [before.bannedForMs] : await leftOf(state, owners);
  const banned = lefts.filter((ms) => ms > 0).length;
  const bannedForMs = Math.max(...lefts);
  // Nothing is logged if there was nothing to end.
  const isWorthIt = banned > 0 || (before && before.denials + before.lastBanMs > 0);
  // Of a dimension by which the limiter banned earlier, bans can still be ended.
  const useless = isWorthIt ? undefined : cannotBan(published, name, subject.dimension);
  const isNamed = options.dimension !== undefined;
  const isOther =
    useless?.code === 'NO_BAN' && (isNamed || dimensionsOfBans(published.scopes.get(name) ?? []).length > 0);
  if (isOther && (isNamed || isSole))
    throw new HeadgateError('HEADGATE_NO_BANS', `${useless.message} Nothing was changed.`);
  const logged: JournalEntry = {
    ...{ action: 'unban', ...loggedOwner(state, name, subject), forMs: 0, ...note, from: origin },
    ...(bannedForMs > 0 && { before: bannedForMs }),
  };
  const changes = owners.map((owner) => ({ owner, duration: 0, note }));
  const unnoted = await state.bans.set(changes, isWorthIt ? logged : undefined);
  const strikes = before && { denials: before.denials, lastBanMs: before.lastBanMs };
  return { banned, bannedForMs, ...strikes, useless: isOther ? useless : undefined, unnoted };
}

async function* bans({ state }: Context, options: BansOptions = {}): AsyncGenerator<BannedKey> {
  checkShape('bans', options, ['name', 'scan']);
  const { name, scan } = options;
  if (name !== undefined) checkName(name);
  const finder = new BanFinder(state);
  for await (const { keys } of finder.pages({ name }, scan !== 'never')) {
    // A hashed name is known if it was asked for.
    const named = keys.map(({ owner, id }) => ({ owner: { ...owner, name: name ?? owner.name }, id }));
    for (const find of (await finder.of(named)).finds) if (find.kind === 'banned') yield find;
  }
}

export const banFunctions = { bans, banOrigins, ban, banIn, unban, unbanIn, ...importFunctions };

export interface BanAdmin extends ImportAdmin {
  /** The bans in force, found by a search of all keys. */
  bans: Bound<typeof bans>;
  /** The change in the log that made each ban, for bans without an operator or a reason. Null if the log has none. */
  banOrigins: Bound<typeof banOrigins>;
  /**
   * Bans a key, an address or a network of one limiter, which must have the option `ban`. Replaces an earlier ban.
   *
   * @throws HeadgateError `HEADGATE_UNKNOWN_LIMITER` and `HEADGATE_NO_BANS`, unless `force` is set
   */
  ban: Bound<typeof ban>;
  /** Bans a key in several limiters, or with `'all'` in all published limiters that ban by its dimension. All are checked before the first ban. */
  banIn: Bound<typeof banIn>;
  /** Ends a ban, and forgets the denials and bans before it. Charges stay, unless `fresh` is set: a key without quota is still denied. */
  unban: Bound<typeof unban>;
  /** Ends the bans of a key in several limiters, or with `'all'` as `banIn`. */
  unbanIn: Bound<typeof unbanIn>;
}

const CHANGE_FIELDS = ['dimension', 'raw', 'ipv6Subnet', 'by', 'reason'];

/** The names of limiters, or of all that ban by a dimension. @throws HeadgateError `HEADGATE_INVALID_ARGUMENT`, `HEADGATE_NO_BANS` */
function namesOf(published: Published, names: Names, dimension: string): string[] {
  if (names !== 'all') {
    if (!Array.isArray(names) || names.length === 0)
      throw wrongArgument("names: pass an array of names, such as ['api', 'login'], or 'all'.");
    return [...new Set((names as readonly string[]).map((name) => checkName(name)))];
  }
  const all = [...published.scopes.keys()].filter((name) => !cannotBan(published, name, dimension));
  if (all.length > 0) return all;
  throw new HeadgateError(
    'HEADGATE_NO_BANS',
    `No published limiter bans by ${dimension}, so nothing was changed. Create limiters with the option ban: {}.`,
  );
}

async function inTurn<T>(changes: readonly (() => Promise<T>)[]): Promise<T[]> {
  const results: T[] = [];
  for (const change of changes) results.push(await change());
  return results;
}

/** A warning if a ban is shorter than the rest of an earlier ban, which the operator may not know about. */
function shortened(before: readonly number[], duration: number, name: string): AdminWarning | undefined {
  const longer = before.filter((left) => left > duration + SAME_END_MS);
  if (longer.length === 0) return undefined;
  const keys = before.length === 1 ? 'the key was' : `${longer.length} of the keys were`;
  const message = `${keys} already banned in ${JSON.stringify(name)}, for up to ${shortText(Math.max(...longer))} more. That ban is now shorter.`;
  return { code: 'SHORTENED', message };
}
