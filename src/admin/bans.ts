import { MAX_DURATION_MS, toMilliseconds, type Duration } from '../common/duration.js';
import { HeadgateError } from '../common/errors.js';
import { checkShape } from '../common/validate.js';
import type { BanNote } from '../contract/ban-options.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import { withScope, type Hash } from '../stores/keys.js';
import {
  checkChange,
  checkName,
  noteOf,
  warnings,
  type ChangeOptions,
  type Context,
  type KeyChangeOptions,
} from './context.js';
import { Finder } from './finder.js';
import type { BannedKey } from './finds.js';
import {
  cannotBan,
  checkBans,
  doubtsOf,
  notNoted,
  subjectIn,
  subjectsIn,
  type AdminWarning,
} from './scope.js';
import type { BanChange, Owner, State } from './state.js';
import { checkList, inItem, typedKey, type KeyOptions, type Subject } from './typed-keys.js';

/** The largest difference between the ends of bans that count as the same, ms. */
const SAME_END_MS = 1000;

/** The number of bans that are checked and created at a time. */
const BATCH_SIZE = 1000;

/** Options of `ban`. */
export interface BanKeyOptions extends KeyChangeOptions {
  /** Whether to ban even if no limiter is known to check for the ban. @default false */
  force?: boolean | undefined;
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
  /** Doubts about the change. */
  readonly warnings: readonly AdminWarning[];
}

/** Options of `bans`. */
export interface BansOptions {
  /** The limiter. @default all limiters */
  name?: string | undefined;
  /**
   * Whether to search all keys, even if there is a complete index of bans. `'never'` reads the index, even if bans by versions without it may be
   * missing; SQLite and memory have no index. @default false
   */
  scan?: boolean | 'never' | undefined;
}

/** A ban of `importBans`: a key as in `ban`, or the name, the key and the dimension of a banned key that `bans` returned. */
export interface ImportedBan extends Partial<KeyOptions> {
  /** The name of the limiter. */
  readonly name: string | Hash;
  /** The key, an address or a network. */
  readonly key: string | Hash;
  /** The length of the ban. */
  readonly for: Duration;
  /** The operator of this ban. @default the operator of the import */
  readonly by?: string | null | undefined;
  /** The reason: 1 to 500 characters. */
  readonly reason?: string | null | undefined;
}

/** Options of `importBans`. */
export interface ImportOptions extends ChangeOptions {
  /** Whether only to check and count. @default false */
  dryRun?: boolean | undefined;
  /** As in `ban`. @default false */
  force?: boolean | undefined;
}

/** The result of `importBans`. */
export interface ImportResult {
  /** The number of keys whose ban is new or longer now. */
  readonly banned: number;
  /** The number of keys that were banned for as long already. */
  readonly already: number;
  /** Doubts about the changes. */
  readonly warnings: readonly AdminWarning[];
}

/** The owners of a subject's state. */
export const ownersOf = (state: State, name: string, { keys, dimension }: Subject): Owner[] =>
  keys.map((key) => state.ownerOf(name, key, dimension));

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

/** The functions that show and change bans. */
export function banFunctions({ state, origin }: Context) {
  async function ban(key: string, duration: Duration, options: BanKeyOptions): Promise<BanResult> {
    const note = checkChange('ban', options, 'force');
    const forMs = toMilliseconds('duration', duration);
    const { name, force = false } = options;
    const typed = typedKey(key, options);
    const published = await state.published();
    const doubt = checkBans(published, name, typed.dimension, force);
    const [subject, doubtOfKey] = subjectIn(published, name, typed);
    const owners = ownersOf(state, name, subject);
    const before = await leftOf(state, owners);
    const changes = owners.map((owner) => ({ owner, duration: forMs, note }));
    const longest = Math.max(...before);
    const unnoted = await state.setBans(changes, {
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
  }

  async function unban(key: string, options: KeyChangeOptions): Promise<UnbanResult> {
    const note = checkChange('unban', options);
    const { name } = options;
    const typed = typedKey(key, options);
    const published = await state.published();
    const [subject, doubt] = subjectIn(published, name, typed);
    const owners = ownersOf(state, name, subject);
    const before = owners.length === 1 ? await state.banState(owners[0]!) : undefined;
    const lefts = before ? [before.bannedForMs] : await leftOf(state, owners);
    const banned = lefts.filter((ms) => ms > 0).length;
    const bannedForMs = Math.max(...lefts);
    // Nothing is logged if there was nothing to end.
    const isWorthIt = banned > 0 || (before && before.denials + before.lastBanMs > 0);
    // Of a dimension by which the limiter banned earlier, bans can still be ended.
    const useless = options.dimension === undefined ? undefined : cannotBan(published, name, typed.dimension);
    if (!isWorthIt && useless?.code === 'NO_BAN')
      throw new HeadgateError('HEADGATE_NO_BANS', `${useless.message} Nothing was changed.`);
    const changes = owners.map((owner) => ({ owner, duration: 0, note }));
    const unnoted = await state.setBans(
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
      warnings: warnings(...doubtsOf(published, name), doubt, notNoted(unnoted)),
    };
  }

  async function* bans(options: BansOptions = {}): AsyncGenerator<BannedKey> {
    checkShape('bans', options, ['name', 'scan']);
    const { name, scan = false } = options;
    if (name !== undefined) checkName(name);
    const nothingElse = { limited: false, admitted: false, states: false } as const;
    const finder = new Finder(state, { name, limits: new Map(), banned: true, ...nothingElse, scan });
    for await (const find of finder.finds()) if (find.kind === 'banned') yield find;
  }

  async function importBans(
    list: readonly ImportedBan[],
    options: ImportOptions = {},
  ): Promise<ImportResult> {
    checkShape('importBans', options, ['by', 'reason', 'dryRun', 'force']);
    const { dryRun = false, force = false } = options;
    const note = noteOf('importBans', options);
    checkList('importBans', list);
    const published = await state.published();
    const doubts = new Map<string, AdminWarning | undefined>();
    const wanted: WantedBan[] = [];
    const ownersFor = (each: ImportedBan): Owner[] => {
      const { name, key, dimension } = each;
      if (isHash(name) || isHash(key)) return [state.ownerOf(name, key, dimension)];
      const { subjects, warning } = subjectsIn(published, name, [typedKey(key, each)]);
      if (warning) doubts.set(`keys of ${name}`, warning);
      return ownersOf(state, name, subjects[0]!);
    };
    for (const [i, each] of list.entries()) {
      const duration = inItem(i, () => checkImported(each));
      const { name, dimension = DEFAULT_DIMENSION } = each;
      const scope = JSON.stringify([name, dimension]);
      if (typeof name === 'string' && !doubts.has(scope))
        doubts.set(scope, checkBans(published, name, dimension, force));
      const own = { by: each.by ?? note.by, reason: each.reason ?? note.reason };
      const owners = inItem(i, () => ownersFor(each));
      wanted.push(...owners.map((owner) => ({ owner, duration, note: own })));
    }
    const changes = longestOf(wanted);
    const result = await apply(changes, note, dryRun);
    return { ...result, warnings: [...warnings(...doubts.values()), ...result.warnings] };
  }

  /** Creates the bans that are longer than the bans in force. Each limiter gets one entry in the log. */
  async function apply(changes: readonly WantedBan[], note: BanNote, dryRun: boolean): Promise<ImportResult> {
    let unnoted: string | undefined;
    /** The number of banned keys, by the limiter's name as written in keys. */
    const banned = new Map<string, number>();
    for (let at = 0; at < changes.length; at += BATCH_SIZE) {
      const some = changes.slice(at, at + BATCH_SIZE);
      const lefts = await leftOf(
        state,
        some.map(({ owner }) => owner),
      );
      const longer = some.filter(({ duration }, i) => lefts[i]! + SAME_END_MS < duration);
      if (!dryRun) unnoted = (await state.setBans(longer)) ?? unnoted;
      for (const { owner } of longer) banned.set(owner.scope, (banned.get(owner.scope) ?? 0) + 1);
    }
    for (const [scope, keys] of dryRun ? [] : banned) {
      const change = { action: 'import', who: `${scope}:`, keys, forMs: 0, ...note, from: origin } as const;
      unnoted = (await state.log(change)) ?? unnoted;
    }
    const count = [...banned.values()].reduce((sum, keys) => sum + keys, 0);
    return { banned: count, already: changes.length - count, warnings: warnings(notNoted(unnoted)) };
  }

  return { ban, unban, bans, importBans };
}

const IMPORT_FIELDS = ['name', 'key', 'for', 'by', 'reason', 'dimension', 'raw', 'ipv6Subnet'];

const isHash = (text: unknown): text is Hash => typeof (text as Hash | null | undefined)?.hash === 'string';

/** @returns the length of an imported ban, ms @throws HeadgateError if a field is missing or not valid */
function checkImported(ban: ImportedBan): number {
  checkShape('importBans', ban, IMPORT_FIELDS);
  if (!isHash(ban.name)) checkName(ban.name);
  return banLength(ban.for);
}

interface WantedBan extends BanChange {
  readonly note: BanNote;
}

/** The rest of each ban, ms. @throws the error of state that cannot be read */
async function leftOf(state: State, owners: readonly Owner[]): Promise<number[]> {
  const lefts = await state.bans(owners);
  return lefts.map((left) => {
    if (left instanceof Error) throw left;
    return left;
  });
}

/** The longest ban of each key. */
function longestOf(bans: readonly WantedBan[]): WantedBan[] {
  const longest = new Map<string, WantedBan>();
  for (const ban of bans)
    if (ban.duration > (longest.get(ban.owner.text)?.duration ?? 0)) longest.set(ban.owner.text, ban);
  return [...longest.values()];
}

/** The length of an imported ban, ms. The rest of a ban has fractions. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
function banLength(given: Duration): number {
  return typeof given === 'number'
    ? toMilliseconds('for', Math.min(MAX_DURATION_MS, Math.ceil(given)))
    : toMilliseconds('for', given);
}

/** A warning if a ban is shorter than the rest of an earlier ban, which the operator may not know about. */
function shortened(before: readonly number[], duration: number, name: string): AdminWarning | undefined {
  const longer = before.filter((left) => left > duration + SAME_END_MS);
  if (longer.length === 0) return undefined;
  const keys = before.length === 1 ? 'the key was' : `${longer.length} of the keys were`;
  const message = `${keys} already banned in ${JSON.stringify(name)}, for up to ${Math.max(...longer)} ms more. That ban is now shorter.`;
  return { code: 'SHORTENED', message };
}
