import { checkShape } from '../../common/validate.js';
import { givenIn } from '../../contract/change-note.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { entryInForce } from '../../features/overrides/contract/records.js';
import type { Limiter } from '../../limiter/limiter.js';
import {
  overrideOf,
  type Override,
  type OverrideChange,
  type OverrideNote,
} from '../../limiter/overrides/override.js';
import { bansIn, bansSince, endBans, type BannedSince } from './override-bans.js';
import {
  checkChange,
  checkName,
  noteOf,
  SAME_END_MS,
  type Bound,
  type Context,
  type KeyChangeOptions,
  type NameFilter,
  type NameOption,
} from '../context.js';
import { doubtsOfOthers, withOverriding } from './override-configurations.js';
import { doubtsOfChange } from './override-doubts.js';
import {
  checkedWish,
  keyFor,
  noteOfWish,
  whoseFound,
  type Found,
  type OverrideWish,
} from './override-scope.js';
import { whoseOf, type Whose } from '../owners.js';
import type { Published } from '../published.js';
import { notNoted, warnings, type AdminWarning } from '../scope.js';
import { checkList, ItemError, inItem, refusalOf, type KeyOptions, type Refused } from '../typed-keys.js';

/** Options of `override`. */
export interface OverrideOptions extends KeyChangeOptions, Pick<OverrideNote, 'for' | 'until'> {}

/** Options of `removeOverride`. */
export interface RemoveOverrideOptions extends KeyChangeOptions, Pick<OverrideWish, 'unban'> {}

/** Options of `overrideAll`. */
export interface OverrideAllOptions extends NameOption, OverrideNote {}

/** The result of a change of an override. */
export interface OverrideResult {
  /** The name of the limiter. */
  readonly name: string;
  /** The limiter's key. Absent for all keys. */
  readonly key?: string | undefined;
  /** The dimension of the key. Absent for all keys. */
  readonly dimension?: string | undefined;
  /** The override in force. Absent after its removal. */
  readonly override: Override | undefined;
  /** Whether there was an override before. */
  readonly replaced: boolean;
  /** After a removal: the keys that denials have banned since the override began, and that are still banned. */
  readonly stillBanned?: readonly BannedSince[];
  /** After a removal with `unban`: the keys whose bans have ended. */
  readonly unbanned?: readonly BannedSince[];
  /** Doubts about the change. */
  readonly warnings: readonly AdminWarning[];
}

/** The effect of one of several changes. */
export interface OverrideEffect {
  /** Whether the key has no override now, another one, or this one. */
  readonly effect: 'new' | 'changed' | 'same';
  /** The override in force. Absent without one. */
  readonly before?: Override;
  /** Doubts about the key and the change, as those of `override`. */
  readonly warnings: readonly AdminWarning[];
}

/** An override in force. */
export type OverriddenKey = Whose & Override;

/** The limiter of several changes, and the interpretation of their keys. */
type WishOptions = NameOption & Omit<KeyOptions, 'dimension'>;

async function override(context: Context, key: string, change: OverrideChange, options: OverrideOptions) {
  const note = checkChange('override', options, 'for', 'until');
  const { dimension } = options;
  return changeOverride(context, { key, change, dimension, ...givenIn(note), ...timed(options) }, options);
}

async function overrideAll(context: Context, change: OverrideChange, options: OverrideAllOptions) {
  const note = checkChange('overrideAll', options, 'for', 'until');
  return changeOverride(context, { key: undefined, change, ...givenIn(note), ...timed(options) }, options);
}

async function removeOverride(context: Context, key: string | undefined, options: RemoveOverrideOptions) {
  const note = checkChange('removeOverride', options, 'unban');
  const { dimension, unban } = options;
  return changeOverride(context, { key, change: undefined, dimension, unban, ...givenIn(note) }, options);
}

/** @param undoes the id of the logged change that this one undoes */
export async function changeOverride(
  context: Context,
  wish: OverrideWish,
  options: WishOptions,
  undoes?: string,
): Promise<OverrideResult> {
  try {
    return (await changeAll(context, [wish], options, undoes))[0]!;
  } catch (error) {
    throw error instanceof ItemError ? error.cause : error;
  }
}

const overrideMany = (
  context: Context,
  wishes: readonly OverrideWish[],
  options: NameOption & Omit<KeyOptions, 'dimension'>,
) => changeAll(context, wishes, options);

async function changeAll(
  context: Context,
  wishes: readonly OverrideWish[],
  { name, ...options }: WishOptions,
  undoes?: string,
): Promise<OverrideResult[]> {
  checkName(name);
  checkList('overrideMany', wishes);
  const { state } = context;
  const published = await state.published();
  return withOverriding({ state, published, name, undoes }, async (overriding) => {
    const { limiter } = overriding;
    const changes = wishes.map((wish, i) => inItem(i, () => checkedWish(published, limiter, wish, options)));
    const results: OverrideResult[] = [];
    for (const found of changes) {
      const { wish, doubt } = found;
      const { change } = wish;
      const others = doubtsIn(published, name, found);
      const doubts = warnings(doubt, ...doubtsOfOthers(overriding, found), ...others);
      const made = change === undefined ? end(context, limiter, found) : make(limiter, found, change);
      const { warnings: more = [], ...result } = await made;
      const unnoted = warnings(notNoted(overriding.takeUnnoted()));
      results.push({ name, ...whoseFound(found), ...result, warnings: [...doubts, ...unnoted, ...more] });
    }
    return results;
  });
}

function doubtsIn(published: Published, name: string, { wish, key, dimension }: Found): AdminWarning[] {
  const { change } = wish;
  if (change === undefined) return [];
  return doubtsOfChange(published, { name, change, dimension: key === undefined ? undefined : dimension });
}

type Made = Omit<OverrideResult, 'name' | 'key' | 'dimension' | 'warnings'> & Partial<OverrideResult>;

async function make(limiter: Limiter, found: Found, change: OverrideChange): Promise<Made> {
  const key = keyFor(found);
  const note = noteOfWish(found.wish);
  const replaced = (await limiter.overrideOf(key)) !== undefined;
  await (key === undefined ? limiter.overrideAll(change, note) : limiter.override(key, change, note));
  return { override: await limiter.overrideOf(key), replaced };
}

/** Ends an override, and with `unban` the bans by denials since it began. */
async function end(context: Context, limiter: Limiter, found: Found): Promise<Made> {
  const { unban } = found.wish;
  const key = keyFor(found);
  const since = (await limiter.overrideOf(key))?.since;
  const note = noteOf('removeOverride', found.wish);
  const replaced = await limiter.removeOverride(key, givenIn(note));
  const { name } = limiter;
  const bans = await bansSince(context.state, { name, ...found }, since, unban ? Infinity : undefined);
  if (unban) await endBans(context, bans.found, note);
  return { override: undefined, replaced, ...bansIn(bans, unban) };
}

async function previewOverrides(
  { state }: Context,
  wishes: readonly OverrideWish[],
  { name, ...options }: NameOption & Omit<KeyOptions, 'dimension'>,
): Promise<(OverrideEffect | Refused)[]> {
  checkName(name);
  checkList('previewOverrides', wishes);
  const published = await state.published();
  const inForce = new Map<string, Override>();
  for await (const each of overrides({ state }, { name })) inForce.set(idOf(each), each);
  return withOverriding({ state, published, name }, (overriding) => {
    const effects = wishes.map((wish) =>
      refusalOf(() => {
        const found = checkedWish(published, overriding.limiter, wish, options);
        const before = inForce.get(idOf(found));
        const { doubt } = found;
        const doubts = warnings(
          doubt,
          ...doubtsOfOthers(overriding, found),
          ...doubtsIn(published, name, found),
        );
        return { effect: effectOf(wish, before), ...(before && { before }), warnings: doubts };
      }),
    );
    return Promise.resolve(effects);
  });
}

export async function* overrides(
  { state }: Pick<Context, 'state'>,
  options: NameFilter = {},
): AsyncGenerator<OverriddenKey> {
  checkShape('overrides', options, ['name']);
  const { name } = options;
  const now = await state.now();
  const isWanted = (text: string): boolean => whoseOf(text, name) !== undefined;
  for await (const [owner, record] of state.overrides.records(isWanted)) {
    const entry = entryInForce(record, now);
    // Overrides in an unknown format have no effect, and are omitted.
    const found = entry && overrideOf(entry);
    if (found) yield { ...whoseOf(owner, name)!, ...found };
  }
}

export const overrideFunctions = {
  ...{ overrides, override, overrideAll, removeOverride },
  ...{ overrideMany, previewOverrides },
};

export interface OverrideAdmin {
  /**
   * Gives a key other limits. The limiter must have the option `overrides`, and be known on Redis.
   *
   * @throws HeadgateError `HEADGATE_UNKNOWN_LIMITER`, `HEADGATE_OVERRIDES`, and as `limiter.override`
   */
  override: Bound<typeof override>;
  /** Gives all keys of a limiter other limits. */
  overrideAll: Bound<typeof overrideAll>;
  /** Ends the override of a key, or with `undefined` that of all keys. */
  removeOverride: Bound<typeof removeOverride>;
  /** Changes several overrides of a limiter. All are checked before the first is stored. An error has the `index` of its change. */
  overrideMany: Bound<typeof overrideMany>;
  /** The effect of each change of `overrideMany`, or the reason why it would be refused, without changing anything. */
  previewOverrides: Bound<typeof previewOverrides>;
  /** The overrides in force. */
  overrides: Bound<typeof overrides>;
}

const idOf = ({
  key,
  dimension = DEFAULT_DIMENSION,
}: {
  key?: Whose['key'] | undefined;
  dimension?: string;
}): string => JSON.stringify(key === undefined ? [] : [key, dimension]);

/** Compares a change with the override in force. */
function effectOf(
  { change, for: span, until }: OverrideWish,
  before: Override | undefined,
): OverrideEffect['effect'] {
  if (!before) return change === undefined ? 'same' : 'new';
  const [end = 0, old = 0] = [timeOf(until), timeOf(before.until)];
  const isSameEnd = span === undefined && Math.abs(end - old) <= SAME_END_MS;
  return isSameEnd && JSON.stringify(change) === JSON.stringify(before.change) ? 'same' : 'changed';
}

const timeOf = (end: OverrideWish['until']): number | undefined =>
  end === undefined ? undefined : new Date(end).getTime();

const timed = ({ for: span, until }: Pick<OverrideNote, 'for' | 'until'>): OverrideNote => ({
  ...(span !== undefined && { for: span }),
  ...(until !== undefined && { until }),
});
