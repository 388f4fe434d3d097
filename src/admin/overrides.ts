import { checkShape } from '../common/validate.js';
import { givenIn } from '../contract/change-note.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import { entryInForce } from '../contract/overrides.js';
import type { Limiter } from '../limiter/limiter.js';
import {
  overrideOf,
  type Override,
  type OverrideChange,
  type OverrideNote,
} from '../limiter/overrides/override.js';
import { bansIn, bansSince, endBans, type BannedSince } from './override-bans.js';
import {
  checkChange,
  checkName,
  noteOf,
  SAME_END_MS,
  warnings,
  type Context,
  type KeyChangeOptions,
  type NameFilter,
  type NameOption,
} from './context.js';
import { doubtsOfOthers, withOverriding } from './override-configurations.js';
import { doubtsOfChange } from './override-doubts.js';
import {
  check,
  checkWish,
  inScope,
  keyFor,
  whoseFound,
  type Found,
  type OverrideWish,
} from './override-scope.js';
import { whoseOf, type Whose } from './owners.js';
import type { Published } from './published.js';
import { notNoted, type AdminWarning } from './scope.js';
import { checkList, ItemError, inItem, refusalOf, type KeyOptions, type Refused } from './typed-keys.js';

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
  /** Doubts about the key, as those of `override`. */
  readonly warnings: readonly AdminWarning[];
}

/** An override in force. */
export type OverriddenKey = Whose & Override;

export function overrideFunctions(context: Context) {
  const { state } = context;

  async function override(
    key: string,
    change: OverrideChange,
    options: OverrideOptions,
  ): Promise<OverrideResult> {
    const note = checkChange('override', options, 'for', 'until');
    const { dimension } = options;
    return changeOverride({ key, change, dimension, ...givenIn(note), ...timed(options) }, options);
  }

  async function overrideAll(change: OverrideChange, options: OverrideAllOptions): Promise<OverrideResult> {
    const note = checkChange('overrideAll', options, 'for', 'until');
    return changeOverride({ key: undefined, change, ...givenIn(note), ...timed(options) }, options);
  }

  async function removeOverride(
    key: string | undefined,
    options: RemoveOverrideOptions,
  ): Promise<OverrideResult> {
    const note = checkChange('removeOverride', options, 'unban');
    const { dimension, unban } = options;
    return changeOverride({ key, change: undefined, dimension, unban, ...givenIn(note) }, options);
  }

  /** @param undoes the id of the logged change that this one undoes */
  async function changeOverride(
    wish: OverrideWish,
    options: NameOption & Omit<KeyOptions, 'dimension'>,
    undoes?: string,
  ): Promise<OverrideResult> {
    try {
      return (await changeAll([wish], options, undoes))[0]!;
    } catch (error) {
      throw error instanceof ItemError ? error.cause : error;
    }
  }

  async function overrideMany(
    wishes: readonly OverrideWish[],
    options: NameOption & Omit<KeyOptions, 'dimension'>,
  ): Promise<OverrideResult[]> {
    return changeAll(wishes, options);
  }

  async function changeAll(
    wishes: readonly OverrideWish[],
    { name, raw, ipv6Subnet }: NameOption & Omit<KeyOptions, 'dimension'>,
    undoes?: string,
  ): Promise<OverrideResult[]> {
    checkName(name);
    checkList('overrideMany', wishes);
    const published = await state.published();
    return withOverriding({ state, published, name, undoes }, async (overriding) => {
      const { limiter } = overriding;
      const changes = wishes.map((wish, i) =>
        inItem(i, () => {
          checkWish(wish);
          const found = inScope(published, name, wish, { raw, ipv6Subnet });
          check(limiter, found, published.scopes.has(name));
          return found;
        }),
      );
      const results: OverrideResult[] = [];
      for (const change of changes) {
        const doubts = warnings(
          change.doubt,
          ...doubtsOfOthers(overriding, change),
          ...consequences(published, name, change),
        );
        const made = change.wish.change === undefined ? end(limiter, name, change) : make(limiter, change);
        const { warnings: more, ...result } = await made;
        const unnoted = warnings(notNoted(overriding.takeUnnoted()));
        results.push({ name, ...result, warnings: [...doubts, ...unnoted, ...more] });
      }
      return results;
    });
  }

  /** Ends an override, and with `unban` the bans by denials since it began. */
  async function end(limiter: Limiter, name: string, found: Found): Promise<Omit<OverrideResult, 'name'>> {
    const { unban } = found.wish;
    const key = keyFor(found);
    const since = (await limiter.overrideOf(key))?.since;
    const note = noteOf('removeOverride', found.wish);
    const replaced = await limiter.removeOverride(key, givenIn(note));
    const bans = await bansSince(state, { name, ...found }, since, unban ? Infinity : undefined);
    if (unban) await endBans(context, bans.found, note);
    return { ...whoseFound(found), override: undefined, replaced, ...bansIn(bans, unban) };
  }

  async function previewOverrides(
    wishes: readonly OverrideWish[],
    { name, raw, ipv6Subnet }: NameOption & Omit<KeyOptions, 'dimension'>,
  ): Promise<(OverrideEffect | Refused)[]> {
    checkName(name);
    checkList('previewOverrides', wishes);
    const published = await state.published();
    const inForce = new Map<string, Override>();
    for await (const each of overrides({ name })) inForce.set(idOf(each), each);
    return withOverriding({ state, published, name }, (overriding) => {
      const effects = wishes.map((wish) =>
        refusalOf(() => {
          checkWish(wish);
          const found = inScope(published, name, wish, { raw, ipv6Subnet });
          check(overriding.limiter, found, published.scopes.has(name));
          const before = inForce.get(idOf(found));
          const effect = effectOf(wish, before);
          const doubts = warnings(found.doubt, ...doubtsOfOthers(overriding, found));
          return { effect, ...(before && { before }), warnings: doubts } as const;
        }),
      );
      return Promise.resolve(effects);
    });
  }

  async function* overrides(options: NameFilter = {}): AsyncGenerator<OverriddenKey> {
    checkShape('overrides', options, ['name']);
    const { name } = options;
    const now = await state.now();
    for await (const [owner, record] of state.overrides.records(
      (text) => whoseOf(text, name) !== undefined,
    )) {
      const entry = entryInForce(record, now);
      // Overrides in an unknown format have no effect, and are omitted.
      const found = entry && overrideOf(entry);
      if (found) yield { ...whoseOf(owner, name)!, ...found };
    }
  }

  return { override, overrideAll, removeOverride, overrideMany, previewOverrides, overrides, changeOverride };
}

type Functions = ReturnType<typeof overrideFunctions>;

export interface OverrideAdmin {
  /**
   * Gives a key other limits. The limiter must have the option `overrides`, and be known on Redis.
   *
   * @throws HeadgateError `HEADGATE_UNKNOWN_LIMITER`, `HEADGATE_OVERRIDES`, and as `limiter.override`
   */
  override: Functions['override'];
  /** Gives all keys of a limiter other limits. */
  overrideAll: Functions['overrideAll'];
  /** Ends the override of a key, or with `undefined` that of all keys. */
  removeOverride: Functions['removeOverride'];
  /** Changes several overrides of a limiter. All are checked before the first is stored. An error has the `index` of its change. */
  overrideMany: Functions['overrideMany'];
  /** The effect of each change of `overrideMany`, or the reason why it would be refused, without changing anything. */
  previewOverrides: Functions['previewOverrides'];
  /** The overrides in force. */
  overrides: Functions['overrides'];
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

/** The consequences of a change for other tiers, and its bans. */
function consequences(published: Published, name: string, { wish, key, dimension }: Found): AdminWarning[] {
  const { change } = wish;
  if (change === undefined) return [];
  return doubtsOfChange(published, { name, change, dimension: key === undefined ? undefined : dimension });
}

async function make(limiter: Limiter, found: Found): Promise<Omit<OverrideResult, 'name'>> {
  const { change, dimension: _, key: __, unban: ___, ...note } = found.wish;
  const key = keyFor(found);
  const replaced = (await limiter.overrideOf(key)) !== undefined;
  await (key === undefined ? limiter.overrideAll(change!, note) : limiter.override(key, change!, note));
  return { ...whoseFound(found), override: await limiter.overrideOf(key), replaced, warnings: [] };
}
