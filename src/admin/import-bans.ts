import { MAX_DURATION_MS, toMilliseconds, type Duration } from '../common/duration.js';
import { checkShape } from '../common/validate.js';
import type { BanNote } from '../contract/ban-options.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { Hash } from '../stores/keys.js';
import { leftOf, ownersOf, SAME_END_MS } from './bans.js';
import { checkName, noteOf, warnings, type ChangeOptions, type Context } from './context.js';
import { checkBans, notNoted, subjectsIn, type AdminWarning } from './scope.js';
import type { BanChange, Owner } from './state.js';
import { checkList, inItem, typedKey, type KeyOptions } from './typed-keys.js';

/** The number of bans that are checked and created at a time. */
const BATCH_SIZE = 1000;

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

/** The function that imports bans. */
export function importFunctions({ state, origin }: Context) {
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
      unnoted = (await state.log.add(change)) ?? unnoted;
    }
    const count = [...banned.values()].reduce((sum, keys) => sum + keys, 0);
    return { banned: count, already: changes.length - count, warnings: warnings(notNoted(unnoted)) };
  }

  return { importBans };
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
