// Wishes for overrides, and the limiters and policies that an override can change.
import type { OverrideFields } from './override-source.js';
import { HeadgateError } from '../../common/errors.js';
import { checkBoolean, checkShape } from '../../common/validate.js';
import { compilePolicies, POLICY_FIELDS } from '../../contract/compile-policies.js';
import { DEFAULT_DIMENSION, type Key } from '../../contract/key.js';
import type { Policy } from '../../contract/policy.js';
import type { Limiter } from '../../limiter/limiter.js';
import type { OverrideChange, OverrideNote } from '../../limiter/overrides/override.js';
import { warnOfSpans } from '../../limiter/overrides/override-writer.js';
import { limiterOn } from '../limiters.js';
import { policiesBy, policiesOf } from '../limits.js';
import type { Published } from '../published.js';
import { checkKeys, subjectIn, unknownScope, type AdminWarning } from '../scope.js';
import type { State } from '../state.js';
import { soleKey, typedKey, wrongArgument, type KeyOptions } from '../typed-keys.js';

/** One of several changes. */
export interface OverrideWish extends Pick<KeyOptions, 'dimension'>, OverrideNote {
  /** The key, or `undefined` for all keys of the limiter. */
  readonly key: string | undefined;
  /** The change, or `undefined` to remove the override. */
  readonly change: OverrideChange | undefined;
  /** With a removal: whether the bans by denials since the override began end, too. @default false */
  readonly unban?: boolean | undefined;
}

/** A change with the limiter's key for the typed key. */
export interface Found {
  readonly wish: OverrideWish;
  readonly key: string | undefined;
  readonly dimension: string;
  readonly doubt: AdminWarning | undefined;
}

/** @throws HeadgateError `HEADGATE_INVALID_ARGUMENT`, or `HEADGATE_INVALID_OPTION` if the limiter would refuse the change */
export function checkedWish(
  published: Published,
  limiter: Limiter,
  wish: OverrideWish,
  options: Omit<KeyOptions, 'dimension'>,
): Found {
  checkFields(wish);
  const found = inScope(published, limiter.name, wish, options);
  const { change } = wish;
  if (change === undefined) return found;
  // Of a limiter with unknown policies, each policy of the change is checked separately.
  if (!published.scopes.has(limiter.name)) checkTexts(change);
  const note = noteOfWish(wish);
  limiter.overrides.check(keyFor(found), change, note);
  warnOfSpans(change, note);
  return found;
}

const WISH_FIELDS = ['key', 'change', 'dimension', 'by', 'reason', 'for', 'until', 'unban'];

/** Refuses a missing key or change, because `undefined` stands for all keys and for a removal, and a key of several dimensions. */
function checkFields(wish: OverrideWish): void {
  checkShape('overrideMany', wish, WISH_FIELDS);
  checkBoolean('unban', wish.unban, false);
  for (const [field, meaning] of [
    ['key', 'change all keys'],
    ['change', 'remove the override'],
  ] as const)
    if (!(field in wish))
      throw wrongArgument(`${field}: missing. Pass it, or \`${field}: undefined\` to ${meaning}.`);
  if (wish.key === undefined || typeof wish.key === 'string') return;
  throw wrongArgument(
    'key: not a text. Pass the text, with `dimension` unless it is a key of the default dimension. Only the program can override a tenant ' +
      'of a shared limit: limiter.override({ provider, tenant }, { weight: 5 }).',
  );
}

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
  const policies = limits ? policiesOf(limits) : [];
  checkNoTenant(dimension, policies);
  checkNames(wish.change, dimension, policies);
  const own = policiesBy(dimension, policies);
  const [subject, doubt] = subjectIn(published, name, typedKey(wish.key, { ...options, dimension }));
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

/** The duration, the operator and the reason of a wish. */
export function noteOfWish(wish: OverrideWish): OverrideNote {
  const { change: _, dimension: __, key: ___, unban: ____, ...note } = wish;
  return note;
}

export function keyFor({ key, dimension }: Pick<Found, 'key' | 'dimension'>): Key | undefined {
  return key === undefined || dimension === DEFAULT_DIMENSION ? key : { [dimension]: key };
}

export const whoseFound = ({ key, dimension }: Found): Partial<Pick<Found, 'key' | 'dimension'>> =>
  key === undefined ? {} : { key, dimension };

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

/** @throws HeadgateError `HEADGATE_UNKNOWN_OPTION` for a change that names a policy of another dimension */
function checkNames(
  change: OverrideChange | undefined,
  dimension: string,
  policies: readonly Policy[],
): void {
  if (typeof change !== 'object' || change === null) return;
  const byOf = ({ by = DEFAULT_DIMENSION }: Policy): string => by;
  for (const field of Object.keys(change)) {
    if (field === 'tier' || POLICY_FIELDS.includes(field)) continue;
    const named = policies.filter(({ name }) => name === field);
    if (named.length === 0 || named.some((policy) => byOf(policy) === dimension)) continue;
    const by = byOf(named[0]!);
    const fix = by === DEFAULT_DIMENSION ? 'Omit `dimension`.' : `Set \`dimension: ${by}\`.`;
    throw new HeadgateError(
      'HEADGATE_UNKNOWN_OPTION',
      `override: the policy ${JSON.stringify(field)} counts by ${by}, and not by ${dimension}. ${fix}`,
    );
  }
}

function checkTexts(change: OverrideChange): void {
  const texts: unknown[] =
    typeof change === 'string' ? [change] : 'tier' in change ? [] : Object.values(change);
  for (const text of texts) if (typeof text === 'string') compilePolicies('override', [text]);
}

/** A limiter of the scope that supports overrides. @throws HeadgateError `HEADGATE_UNKNOWN_LIMITER`, `HEADGATE_OVERRIDES` */
export function limiterFor(
  state: State,
  published: Published,
  name: string,
  changes: OverrideFields,
): Limiter {
  const [configuration] = published.scopes.get(name) ?? [];
  if (!configuration) {
    // A file does not contain the limiter's policies. The limiter reports a change that does not fit them.
    if (!published.isComplete) return limiterOn(state, name, undefined, { changes });
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
  return limiterOn(state, name, limits, { changes });
}
