import { HeadgateError } from '../common/errors.js';
import { checkShape } from '../common/validate.js';
import type { Policy } from '../contract/policy.js';
import type { BanNote } from '../contract/ban-options.js';
import { compilePolicies } from '../contract/compile-policies.js';
import { DEFAULT_DIMENSION, type Key } from '../contract/key.js';
import { entryInForce } from '../contract/overrides.js';
import type { Limiter } from '../limiter/limiter.js';
import {
  overrideOf,
  type Override,
  type OverrideChange,
  type OverrideNote,
} from '../limiter/overrides/override.js';
import { warnOfSpans } from '../limiter/overrides/override-writer.js';
import { SAME_END_MS } from './bans.js';
import {
  checkChange,
  checkName,
  warnings,
  type Context,
  type KeyChangeOptions,
  type NameFilter,
  type NameOption,
} from './context.js';
import { limiterOn, withLimiter } from './limiters.js';
import { policiesBy } from './limits.js';
import { whoseOf, type Whose } from './owners.js';
import type { Published } from './published.js';
import { checkKeys, subjectIn, unknownScope, type AdminWarning } from './scope.js';
import type { State } from './state.js';
import {
  checkList,
  ItemError,
  inItem,
  refusalOf,
  soleKey,
  typedKey,
  wrongArgument,
  type KeyOptions,
  type Refused,
} from './typed-keys.js';

/** Options of `override`. */
export interface OverrideOptions extends KeyChangeOptions, Pick<OverrideNote, 'for' | 'until'> {}

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
  /** Doubts about the change. */
  readonly warnings: readonly AdminWarning[];
}

/** One of several changes. */
export interface OverrideWish extends Pick<KeyOptions, 'dimension'>, OverrideNote {
  /** The key, or `undefined` for all keys of the limiter. */
  readonly key: string | undefined;
  /** The change, or `undefined` to remove the override. */
  readonly change: OverrideChange | undefined;
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

/** The functions that show and change overrides. */
export function overrideFunctions({ state }: Context) {
  async function override(
    key: string,
    change: OverrideChange,
    options: OverrideOptions,
  ): Promise<OverrideResult> {
    const note = checkChange('override', options, 'for', 'until');
    const { dimension } = options;
    return changeOverride({ key, change, dimension, ...given(note), ...timed(options) }, options);
  }

  async function overrideAll(change: OverrideChange, options: OverrideAllOptions): Promise<OverrideResult> {
    const note = checkChange('overrideAll', options, 'for', 'until');
    return changeOverride({ key: undefined, change, ...given(note), ...timed(options) }, options);
  }

  async function removeOverride(key: string | undefined, options: KeyChangeOptions): Promise<OverrideResult> {
    const note = checkChange('removeOverride', options);
    const { dimension } = options;
    return changeOverride({ key, change: undefined, dimension, ...given(note) }, options);
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

  /** Changes several overrides of a limiter. Nothing is stored unless all changes are valid. */
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
    return withLimiter(limiterFor(state, published, name, undoes), async (limiter) => {
      const changes = wishes.map((wish, i) =>
        inItem(i, () => {
          checkWish(wish);
          const found = inScope(published, name, wish, { raw, ipv6Subnet });
          check(limiter, found, published.scopes.has(name));
          return found;
        }),
      );
      const results: OverrideResult[] = [];
      for (const change of changes) results.push({ name, ...(await make(limiter, change)) });
      return results;
    });
  }

  /** The effect of each of several changes, or the reason why it is refused. Nothing is changed. */
  async function previewOverrides(
    wishes: readonly OverrideWish[],
    { name, raw, ipv6Subnet }: NameOption & Omit<KeyOptions, 'dimension'>,
  ): Promise<(OverrideEffect | Refused)[]> {
    checkName(name);
    checkList('previewOverrides', wishes);
    const published = await state.published();
    const inForce = new Map<string, Override>();
    for await (const each of overrides({ name })) inForce.set(idOf(each), each);
    return withLimiter(limiterFor(state, published, name, undefined), (limiter) => {
      const effects = wishes.map((wish) =>
        refusalOf(() => {
          checkWish(wish);
          const found = inScope(published, name, wish, { raw, ipv6Subnet });
          check(limiter, found, published.scopes.has(name));
          const before = inForce.get(idOf(found));
          const effect = effectOf(wish, before);
          return { effect, ...(before && { before }), warnings: warnings(found.doubt) } as const;
        }),
      );
      return Promise.resolve(effects);
    });
  }

  async function* overrides(options: NameFilter = {}): AsyncGenerator<OverriddenKey> {
    checkShape('overrides', options, ['name']);
    const { name } = options;
    const now = await state.now();
    for await (const [owner, record] of state.overrideRecords((text) => whoseOf(text, name) !== undefined)) {
      const entry = entryInForce(record, now);
      // Overrides in an unknown format have no effect, and are omitted.
      const found = entry && overrideOf(entry);
      if (found) yield { ...whoseOf(owner, name)!, ...found };
    }
  }

  return { override, overrideAll, removeOverride, overrideMany, previewOverrides, overrides, changeOverride };
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

/** An end as ms since 1970, or undefined without an end. */
const timeOf = (end: OverrideWish['until']): number | undefined =>
  end === undefined ? undefined : new Date(end).getTime();

const WISH_FIELDS = ['key', 'change', 'dimension', 'by', 'reason', 'for', 'until'];

/** Refuses a missing key or change, because `undefined` stands for all keys and for a removal. */
function checkWish(wish: OverrideWish): void {
  checkShape('overrideMany', wish, WISH_FIELDS);
  for (const [field, meaning] of [
    ['key', 'change all keys'],
    ['change', 'remove the override'],
  ] as const)
    if (!(field in wish))
      throw wrongArgument(`${field}: missing. Pass it, or \`${field}: undefined\` to ${meaning}.`);
}

/** A note as limiters take it. */
export const given = ({ by, reason }: BanNote): OverrideNote => ({
  ...(by !== null && { by }),
  ...(reason !== null && { reason }),
});

const timed = ({ for: span, until }: Pick<OverrideNote, 'for' | 'until'>): OverrideNote => ({
  ...(span !== undefined && { for: span }),
  ...(until !== undefined && { until }),
});

/** A change with the limiter's key for the typed key. */
interface Found {
  readonly wish: OverrideWish;
  readonly key: string | undefined;
  readonly dimension: string;
  readonly doubt: AdminWarning | undefined;
}

/** @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` for a dimension that only shares limits */
function checkNoTenant(dimension: string, policies: readonly Policy[]): void {
  if (policies.some(({ by = DEFAULT_DIMENSION }) => by === dimension)) return;
  const shared = policies.find((policy) => 'share' in policy && policy.share === dimension);
  if (!shared) return;
  const { by = DEFAULT_DIMENSION } = shared;
  throw wrongArgument(
    `dimension: keys of '${dimension}' share the limit of a key of '${by}', and have no limit of their own. Their weights come from their ` +
      `requests, their overrides or the policy, and only the program can override one: limiter.override({ ${by}, ${dimension} }, { weight: 5 }). To ` +
      `change the whole limit, pass a key of '${by}'.`,
  );
}

/** @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` */
function inScope(
  published: Published,
  name: string,
  wish: OverrideWish,
  options: Omit<KeyOptions, 'dimension'>,
): Found {
  const { dimension = DEFAULT_DIMENSION } = wish;
  checkKeys(published, name, dimension);
  if (wish.key === undefined) return { wish, key: undefined, dimension, doubt: undefined };
  const limits = published.limitsOf(name);
  const policies = limits ? [...limits.policies, ...[...limits.tiers.values()].flat()] : [];
  checkNoTenant(dimension, policies);
  const own = policiesBy(dimension, policies);
  const typed = typedKey(wish.key, { ...options, dimension });
  const [subject, doubt] = subjectIn(published, name, typed);
  // An override that no request meets would look like one in force.
  if (
    doubt?.code === 'UNLIKELY_KEY' &&
    wish.dimension === undefined &&
    !options.raw &&
    policies.length > own.length
  )
    throw wrongArgument(
      `key: ${doubt.message} Nothing was changed. Set \`raw: true\` to change it nevertheless.`,
    );
  return { wish, key: soleKey(subject), dimension, doubt };
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` if the limiter would refuse the change */
function check(limiter: Limiter, { wish, ...whose }: Found, isKnown: boolean): void {
  const { change, dimension: _, key: __, ...note } = wish;
  if (change === undefined) return;
  if (!isKnown) checkTexts(change);
  limiter.internals.overrides.check(keyFor(whose), change, note);
  warnOfSpans(change, note);
}

/** Checks each policy separately, if the limiter's policies are unknown. */
function checkTexts(change: OverrideChange): void {
  const texts: unknown[] =
    typeof change === 'string' ? [change] : 'tier' in change ? [] : Object.values(change);
  for (const text of texts) if (typeof text === 'string') compilePolicies('override', [text]);
}

/** A limiter of the scope that supports overrides. @throws HeadgateError `HEADGATE_UNKNOWN_LIMITER`, `HEADGATE_OVERRIDES` */
function limiterFor(state: State, published: Published, name: string, undoes: string | undefined): Limiter {
  const [configuration] = published.scopes.get(name) ?? [];
  if (!configuration) {
    // A file does not contain the limiter's policies. The limiter reports a change that does not fit them.
    if (!published.isShared) return limiterOn(state, name, undefined, { undoes });
    const doubt = unknownScope(published, name)?.message ?? 'the limiters are unknown.';
    throw new HeadgateError(
      'HEADGATE_UNKNOWN_LIMITER',
      `${doubt} An override depends on the policies of the limiter, so nothing was changed.`,
    );
  }
  if (!published.scopes.get(name)!.some(({ overrides }) => overrides)) {
    throw new HeadgateError(
      'HEADGATE_OVERRIDES',
      `the limiter ${JSON.stringify(name)} does not have the option \`overrides\`, so it reads no overrides. Create it with overrides: true.`,
    );
  }
  const limits = published.limitsOf(name);
  if (!limits && !configuration.dynamic)
    throw new HeadgateError(
      'HEADGATE_UNKNOWN_LIMITER',
      `the policies of ${JSON.stringify(name)} cannot be read, because a newer version published them.`,
    );
  return limiterOn(state, name, limits, { undoes });
}

function keyFor({ key, dimension }: Pick<Found, 'key' | 'dimension'>): Key | undefined {
  return key === undefined || dimension === DEFAULT_DIMENSION ? key : { [dimension]: key };
}

async function make(limiter: Limiter, found: Found): Promise<Omit<OverrideResult, 'name'>> {
  const { change, dimension: _, key: __, ...note } = found.wish;
  const key = keyFor(found);
  const whose = found.key === undefined ? {} : { key: found.key, dimension: found.dimension };
  if (change === undefined) {
    const { for: _for, until: _until, ...operator } = note;
    const replaced = await limiter.removeOverride(key, operator);
    return { ...whose, override: undefined, replaced, warnings: warnings(found.doubt) };
  }
  const replaced = (await limiter.overrideOf(key)) !== undefined;
  await (key === undefined ? limiter.overrideAll(change, note) : limiter.override(key, change, note));
  return { ...whose, override: await limiter.overrideOf(key), replaced, warnings: warnings(found.doubt) };
}
