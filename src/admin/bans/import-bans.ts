import { exactMilliseconds, MAX_DURATION_MS, type Duration } from '../../common/duration.js';
import { checkShape } from '../../common/validate.js';
import { NO_NOTE, type ChangeNote } from '../../contract/change-note.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { withScope, type Hash } from '../../stores/keys.js';
import { batches } from '../batches.js';
import { leftOf } from './ban-finds.js';
import { checkBans } from './ban-scope.js';
import { entryAfter, type BanChange } from './ban-source.js';
import { checkName, noteOf, SAME_END_MS, type Bound, type ChangeOptions, type Context } from '../context.js';
import type { BannedByImport } from '../entry-keys.js';
import { ownersOf } from '../logged-keys.js';
import { dimensionsOfBans, type Published } from '../published.js';
import { keysIn, notNoted, warnings, type AdminWarning } from '../scope.js';
import type { Owner, State } from '../state.js';
import { checkList, inItem, refusalOf, typedKey, type KeyOptions, type Refused } from '../typed-keys.js';

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
  /** The operator of this ban. `null` without a reason for a ban by denials. @default the operator of the import */
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
  /** The number of keys with a new or longer ban. */
  readonly banned: number;
  /** The number of keys that were banned for as long already. */
  readonly already: number;
  /** Doubts about the changes. */
  readonly warnings: readonly AdminWarning[];
}

/** The effect of a ban of an import. The earlier ban of a key without one has 0 ms. */
export interface BanEffect {
  /** `same`: the ban in force is as long, so it stays. */
  readonly effect: 'new' | 'longer' | 'same';
  /** The number of keys: more than one for a network. */
  readonly keys: number;
  /** The rest of the longest ban in force, ms. */
  readonly before: number;
  /** The length of the longest ban afterwards, ms. */
  readonly after: number;
  /** Doubts about the key, as those of `ban`. */
  readonly warnings: readonly AdminWarning[];
}

/** Bans many keys, or with `dryRun` only counts them. */
async function importBans(
  context: Context,
  list: readonly ImportedBan[],
  options: ImportOptions = {},
): Promise<ImportResult> {
  checkShape('importBans', options, ['by', 'reason', 'dryRun', 'force']);
  const { dryRun = false, force = false } = options;
  const note = noteOf('importBans', options);
  checkList('importBans', list);
  const { state } = context;
  const published = await state.published();
  const doubts = new Map<string, AdminWarning | undefined>();
  /** By the text of the owner, the longest ban. */
  const wanted = new Map<string, WantedBan>();
  for (const [i, each] of list.entries()) {
    const duration = inItem(i, () => checkImported(each));
    const { name, dimension = DEFAULT_DIMENSION } = each;
    const scope = JSON.stringify([name, dimension]);
    if (typeof name === 'string' && !doubts.has(scope))
      doubts.set(scope, checkBans(published, name, dimension, force));
    // A ban by denials stays one. `null` is not the operator of the import.
    const isAutomatic = each.by === null && (each.reason ?? null) === null;
    const own = isAutomatic ? NO_NOTE : { by: each.by ?? note.by, reason: each.reason ?? note.reason };
    const [owners, doubt] = inItem(i, () => ownersFor(state, published, each));
    if (doubt) doubts.set(`keys of ${name as string}`, doubt);
    for (const owner of owners)
      if (duration > (wanted.get(owner.text)?.duration ?? 0))
        wanted.set(owner.text, { owner, duration, note: own });
  }
  const result = await apply(context, [...wanted.values()], note, dryRun);
  return { ...result, warnings: [...warnings(...doubts.values()), ...result.warnings] };
}

/** The effect of each ban of an import, or the reason why it is refused. Nothing is changed. */
async function previewBans(
  { state }: Context,
  list: readonly ImportedBan[],
  options: Pick<ImportOptions, 'force'> = {},
): Promise<(BanEffect | Refused)[]> {
  checkShape('previewBans', options, ['force']);
  const { force = false } = options;
  checkList('previewBans', list);
  const published = await state.published();
  const checked = list.map((each) =>
    refusalOf(() => {
      const duration = checkImported(each);
      const { name, dimension = DEFAULT_DIMENSION } = each;
      const doubt = typeof name === 'string' ? checkBans(published, name, dimension, force) : undefined;
      const [owners, doubtOfKey] = ownersFor(state, published, each);
      return { owners, duration, warnings: warnings(doubt, doubtOfKey) };
    }),
  );
  const lefts = new Map<string, number>();
  for (const some of batches(
    checked.flatMap((each) => ('error' in each ? [] : each.owners)),
    BATCH_SIZE,
  ))
    for (const [i, left] of (await leftOf(state, some)).entries()) lefts.set(some[i]!.text, left);
  return checked.map((each) => {
    if ('error' in each) return each;
    const before = each.owners.map(({ text }) => lefts.get(text)!);
    const isLonger = before.map((left) => left + SAME_END_MS < each.duration);
    // A later line of the same key is compared with this one.
    for (const [i, { text }] of each.owners.entries()) if (isLonger[i]) lefts.set(text, each.duration);
    const longest = Math.max(...before);
    const effect = !isLonger.includes(true) ? 'same' : longest > 0 ? 'longer' : 'new';
    const after = Math.max(longest, each.duration);
    return { effect, keys: before.length, before: longest, after, warnings: each.warnings };
  });
}

/** The owners of the keys of a ban, and a doubt about them. */
function ownersFor(
  state: State,
  published: Published,
  ban: ImportedBan,
): readonly [Owner[], AdminWarning | undefined] {
  const { name, key, dimension } = ban;
  if (isHash(name) || isHash(key)) return [[state.ownerOf(name, key, dimension)], undefined];
  const [subject, doubt] = keysIn(published, name, typedKey(key, ban), dimensionsOfBans);
  return [ownersOf(state, name, subject), doubt];
}

/** Creates the bans that are longer than the bans in force. Each limiter gets one entry in the log. */
async function apply(
  { state, origin }: Context,
  changes: readonly WantedBan[],
  note: ChangeNote,
  dryRun: boolean,
): Promise<ImportResult> {
  let unnoted: string | undefined;
  const started = performance.now();
  /** The banned keys, by the limiter's name as written in keys. */
  const banned = new Map<string, BannedByImport[]>();
  for (const some of batches(changes, BATCH_SIZE)) {
    const lefts = await leftOf(
      state,
      some.map(({ owner }) => owner),
    );
    const longer = some.flatMap((each, i) =>
      lefts[i]! + SAME_END_MS < each.duration ? [{ ...each, before: Math.round(lefts[i]!) }] : [],
    );
    if (!dryRun) unnoted = (await state.bans.set(longer)) ?? unnoted;
    for (const { owner, duration, before, note: own } of longer) {
      const isOther = own.by !== note.by || own.reason !== note.reason;
      const ban = [withScope(owner.scope, owner.text), duration, before] as const;
      const all = banned.get(owner.scope) ?? [];
      all.push(isOther ? [...ban, own] : ban);
      banned.set(owner.scope, all);
    }
  }
  for (const [scope, keys] of dryRun ? [] : banned) {
    const who = keys.length === 1 ? keys[0]![0] : `${scope}:`;
    const forMs = keys.reduce((most, [, duration]) => Math.max(most, duration), 0);
    const change = { action: 'import', who, keys: keys.length, forMs, ...note, from: origin } as const;
    const after = isShort(keys) ? { after: keys } : {};
    unnoted = (await state.log.add(entryAfter({ ...change, ...after }, started))) ?? unnoted;
  }
  const count = [...banned.values()].reduce((sum, keys) => sum + keys.length, 0);
  return { banned: count, already: changes.length - count, warnings: warnings(notNoted(unnoted)) };
}

export const importFunctions = { importBans, previewBans };

export interface ImportAdmin {
  /** Bans many keys. All are checked before the first is banned. No ban becomes shorter. */
  importBans: Bound<typeof importBans>;
  /** The effect of each ban of an import, or the reason why it would be refused, without changing anything. */
  previewBans: Bound<typeof previewBans>;
}

/** The most keys, and the most characters of them, that the log keeps of an import for its undo. */
export const MAX_LOGGED_KEYS = 1000;
const MAX_LOGGED_TEXT = 100_000;

const isShort = (keys: readonly BannedByImport[]): boolean =>
  keys.length <= MAX_LOGGED_KEYS &&
  keys.reduce((sum, [who, , , note]) => sum + who.length + (note?.reason?.length ?? 0), 0) <= MAX_LOGGED_TEXT;

const IMPORT_FIELDS = ['name', 'key', 'for', 'by', 'reason', 'dimension', 'raw', 'ipv6Subnet'];

const isHash = (text: unknown): text is Hash => typeof (text as Hash | null | undefined)?.hash === 'string';

/** The length of an imported ban, ms. The rest of a ban has fractions. @throws HeadgateError if a field is missing or not valid */
function checkImported(ban: ImportedBan): number {
  checkShape('importBans', ban, IMPORT_FIELDS);
  if (!isHash(ban.name)) checkName(ban.name);
  const { for: given } = ban;
  return exactMilliseconds(
    'for',
    typeof given === 'number' ? Math.min(MAX_DURATION_MS, Math.ceil(given)) : given,
  );
}

interface WantedBan extends BanChange {
  readonly note: ChangeNote;
}
