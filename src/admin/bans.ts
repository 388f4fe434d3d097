import { shortText, toMilliseconds, type Duration } from '../common/duration.js';
import { HeadgateError } from '../common/errors.js';
import { checkBoolean, checkShape } from '../common/validate.js';
import type { ChangeNote } from '../contract/change-note.js';
import { withScope } from '../stores/keys.js';
import type { BannedKey } from './ban-finds.js';
import { cannotBan, checkBans } from './ban-scope.js';
import {
  checkChange,
  checkName,
  noteOf,
  SAME_END_MS,
  warnings,
  type Context,
  type KeyChangeOptions,
} from './context.js';
import { KeyFinder } from './finder.js';
import { LIMIT_FIELDS, type GivenLimits } from './limits.js';
import { whoseOf } from './owners.js';
import { dimensionsOfBans, type Published } from './published.js';
import { doubtsOf, notNoted, subjectIn, type AdminWarning } from './scope.js';
import type { Owner, State } from './state.js';
import { typedKey, wrongArgument, type KeyOptions, type Subject } from './typed-keys.js';

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
export interface BanResult extends Subject {
  /** The name of the limiter. */
  readonly name: string;
  /** The length of the ban, ms. */
  readonly bannedForMs: number;
  /** The end of the ban, by the clock of this process. */
  readonly until: Date;
  /** The operator, or `null`. */
  readonly by: string | null;
  /** The reason, or `null`. */
  readonly reason: string | null;
  /** Doubts about the change, such as a key that cannot occur. */
  readonly warnings: readonly AdminWarning[];
}

/** The result of `unban`. For a network, `denials` and `lastBanMs` are absent. */
export interface UnbanResult extends Subject {
  /** The name of the limiter. */
  readonly name: string;
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
  /** Doubts about the change. */
  readonly warnings: readonly AdminWarning[];
}

/** Options of `bans`. */
export interface BansOptions {
  /** The limiter. @default all limiters */
  name?: string | undefined;
  /** `'never'`: on Redis, only the bans in the index, which may lack some. All other values search all keys. @default true */
  scan?: boolean | 'never' | undefined;
}

export const ownersOf = (state: State, name: string, { keys, dimension }: Subject): Owner[] =>
  keys.map((key) => state.ownerOf(name, key, dimension));

/** The owner of a logged key. Undefined if the log has only the hash of the key, and the store needs the key. */
export function ownerIn(state: State, who: string): Owner | undefined {
  const { name, key, dimension } = whoseOf(who, undefined)!;
  try {
    return state.ownerOf(name, key!, dimension);
  } catch {
    return undefined;
  }
}

/** The owner text of a change in the log. A whole network is one entry. */
export function loggedOwner(
  state: State,
  name: string,
  { given, keys, dimension }: Subject,
): { who: string; keys: number } {
  const key = keys.length === 1 ? keys[0]! : given;
  const { scope, text } = state.ownerOf(name, key, dimension);
  return { who: withScope(scope, text), keys: keys.length };
}

/** Checks the arguments of a reset. Resolves with a function that forgets the charges of the key. */
type PrepareReset = (
  key: string,
  options: KeyChangeOptions & GivenLimits,
) => Promise<() => Promise<Required<Pick<UnbanResult, 'policies' | 'warnings'>>>>;

/** The functions that show and change bans. @param prepareReset for `unban` with `fresh` */
export function banFunctions({ state, origin }: Context, prepareReset: PrepareReset) {
  async function ban(key: string, duration: Duration, options: BanKeyOptions): Promise<BanResult> {
    const note = checkChange('ban', options, 'force');
    const [result] = await banAll([options.name], { key, duration, note, options });
    return result!;
  }

  async function banIn(
    names: readonly string[] | 'all',
    key: string,
    duration: Duration,
    options: Omit<BanKeyOptions, 'name'> = {},
  ): Promise<BanResult[]> {
    checkShape('banIn', options, [...KEY_FIELDS, 'by', 'reason', 'force']);
    return banAll(names, { key, duration, note: noteOf('banIn', options), options });
  }

  /** Checks all bans before the first one. */
  async function banAll(
    names: readonly string[] | 'all',
    { key, duration, note, options }: Banning,
  ): Promise<BanResult[]> {
    const forMs = toMilliseconds('duration', duration, { usual: 'long' });
    const published = await state.published();
    const typed = typedKey(key, options);
    const bans = namesOf(published, names, typed.dimension).map((name) => {
      const doubt = checkBans(published, name, typed.dimension, options.force ?? false);
      const [subject, doubtOfKey] = subjectIn(published, name, typed);
      return async (): Promise<BanResult> => {
        const owners = ownersOf(state, name, subject);
        const before = await leftOf(state, owners);
        const changes = owners.map((owner) => ({ owner, duration: forMs, note }));
        const longest = Math.max(...before);
        const unnoted = await state.bans.set(changes, {
          ...{ action: 'ban', ...loggedOwner(state, name, subject), forMs, ...note, from: origin },
          ...(longest > 0 && { before: longest }),
          after: forMs,
        });
        return {
          ...{ name, ...subject, bannedForMs: forMs, until: new Date(Date.now() + forMs), ...note },
          warnings: warnings(
            ...doubtsOf(published, undefined),
            doubt,
            doubtOfKey,
            shortened(before, forMs, name),
            notNoted(unnoted),
          ),
        };
      };
    });
    return inTurn(bans);
  }

  async function unban(key: string, options: UnbanKeyOptions): Promise<UnbanResult> {
    const note = checkChange('unban', options, 'fresh', ...LIMIT_FIELDS);
    const [result] = await unbanAll([options.name], key, note, options);
    return result!;
  }

  async function unbanIn(
    names: readonly string[] | 'all',
    key: string,
    options: Omit<UnbanKeyOptions, 'name'> = {},
  ): Promise<UnbanResult[]> {
    checkShape('unbanIn', options, [...KEY_FIELDS, 'by', 'reason', 'fresh', ...LIMIT_FIELDS]);
    return unbanAll(names, key, noteOf('unbanIn', options), options);
  }

  /** Checks the end of all bans before the first one ends. */
  async function unbanAll(
    names: readonly string[] | 'all',
    key: string,
    note: ChangeNote,
    options: Omit<UnbanKeyOptions, 'name'>,
  ): Promise<UnbanResult[]> {
    const { fresh, ...others } = options;
    const isFresh = checkBoolean('fresh', fresh, false);
    const published = await state.published();
    const typed = typedKey(key, options);
    const unbans: (() => Promise<UnbanResult>)[] = [];
    const scopes = namesOf(published, names, typed.dimension);
    // If something else changes, a ban of another dimension is a warning.
    const isSole = scopes.length === 1 && !isFresh;
    for (const name of scopes) {
      const found = subjectIn(published, name, typed);
      // Checked before the ban ends, so that a wrong argument changes nothing.
      const reset = isFresh ? await prepareReset(key, { ...others, name }) : undefined;
      unbans.push(async () => {
        const result = await endBan(published, name, found, { note, options, isSole });
        if (!reset) return result;
        const { policies, warnings: more } = await reset();
        const news = more.filter(({ message }) => result.warnings.every((each) => each.message !== message));
        return { ...result, policies, warnings: [...result.warnings, ...news] };
      });
    }
    return inTurn(unbans);
  }

  async function endBan(
    published: Published,
    name: string,
    [subject, doubt]: ReturnType<typeof subjectIn>,
    { note, options, isSole }: Pick<Banning, 'note' | 'options'> & { readonly isSole: boolean },
  ): Promise<UnbanResult> {
    const owners = ownersOf(state, name, subject);
    const before = owners.length === 1 ? await state.bans.stateOf(owners[0]!) : undefined;
    const lefts = before ? [before.bannedForMs] : await leftOf(state, owners);
    const banned = lefts.filter((ms) => ms > 0).length;
    const bannedForMs = Math.max(...lefts);
    // Nothing is logged if there was nothing to end.
    const isWorthIt = banned > 0 || (before && before.denials + before.lastBanMs > 0);
    // Of a dimension by which the limiter banned earlier, bans can still be ended.
    const useless = isWorthIt ? undefined : cannotBan(published, name, subject.dimension);
    const isOther =
      useless?.code === 'NO_BAN' &&
      (options.dimension !== undefined || dimensionsOfBans(published.scopes.get(name) ?? []).length > 0);
    if (isOther && (options.dimension !== undefined || isSole))
      throw new HeadgateError('HEADGATE_NO_BANS', `${useless.message} Nothing was changed.`);
    const changes = owners.map((owner) => ({ owner, duration: 0, note }));
    const unnoted = await state.bans.set(
      changes,
      isWorthIt
        ? {
            ...{ action: 'unban', ...loggedOwner(state, name, subject), forMs: 0, ...note, from: origin },
            ...(bannedForMs > 0 && { before: bannedForMs }),
          }
        : undefined,
    );
    return {
      ...{ name, ...subject, banned, bannedForMs },
      ...(before && { denials: before.denials, lastBanMs: before.lastBanMs }),
      warnings: warnings(
        ...doubtsOf(published, name),
        doubt,
        isOther ? useless : undefined,
        notNoted(unnoted),
      ),
    };
  }

  async function* bans(options: BansOptions = {}): AsyncGenerator<BannedKey> {
    checkShape('bans', options, ['name', 'scan']);
    const { name, scan } = options;
    if (name !== undefined) checkName(name);
    const nothingElse = { limited: false, admitted: false, states: false } as const;
    const finder = new KeyFinder(state, {
      name,
      limits: new Map(),
      banned: true,
      ...nothingElse,
      scan: scan !== 'never',
    });
    for await (const find of finder.finds()) if (find.kind === 'banned') yield find;
  }

  return { ban, banIn, unban, unbanIn, bans };
}

type Functions = ReturnType<typeof banFunctions>;

export interface BanAdmin {
  /** The bans in force, found by a search of all keys. */
  bans: Functions['bans'];
  /**
   * Bans a key, an address or a network of one limiter, which must have the option `ban`. Replaces an earlier ban.
   *
   * @throws HeadgateError `HEADGATE_UNKNOWN_LIMITER` and `HEADGATE_NO_BANS`, unless `force` is set
   */
  ban: Functions['ban'];
  /** Bans a key in several limiters, or with `'all'` in all published limiters that ban by its dimension. All are checked before the first ban. */
  banIn: Functions['banIn'];
  /** Ends a ban, and forgets the denials and bans before it. Charges stay, unless `fresh` is set: a key without quota is still denied. */
  unban: Functions['unban'];
  /** Ends the bans of a key in several limiters, or with `'all'` as `banIn`. */
  unbanIn: Functions['unbanIn'];
}

interface Banning {
  readonly key: string;
  readonly duration: Duration;
  readonly note: ChangeNote;
  readonly options: KeyOptions & { readonly force?: boolean | undefined };
}

const KEY_FIELDS = ['dimension', 'raw', 'ipv6Subnet'];

/** The names of limiters, or of all that ban by a dimension. @throws HeadgateError `HEADGATE_INVALID_ARGUMENT`, `HEADGATE_NO_BANS` */
function namesOf(published: Published, names: readonly string[] | 'all', dimension: string): string[] {
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

/** The rest of each ban, ms. @throws the error of state that cannot be read */
export async function leftOf(state: State, owners: readonly Owner[]): Promise<number[]> {
  const lefts = await state.bans.lefts(owners);
  return lefts.map((left) => {
    if (left instanceof Error) throw left;
    return left;
  });
}

/** A warning if a ban is shorter than the rest of an earlier ban, which the operator may not know about. */
function shortened(before: readonly number[], duration: number, name: string): AdminWarning | undefined {
  const longer = before.filter((left) => left > duration + SAME_END_MS);
  if (longer.length === 0) return undefined;
  const keys = before.length === 1 ? 'the key was' : `${longer.length} of the keys were`;
  const message = `${keys} already banned in ${JSON.stringify(name)}, for up to ${shortText(Math.max(...longer))} more. That ban is now shorter.`;
  return { code: 'SHORTENED', message };
}
