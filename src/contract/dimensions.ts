import type { CompiledBan } from '../features/bans/contract/ban-options.js';
import { HeadgateError, invalidOption, show } from '../common/errors.js';
import { checkDimension, DEFAULT_DIMENSION, type Key } from './key.js';
import type { CompiledPolicy } from './policy.js';
import { select } from './dimension-sets.js';
import {
  checkSharedSlots,
  hasDimension,
  limitDimension,
  plainDimensions,
  tenantKey,
} from '../features/shares/contract/shares.js';
import type { Dimensions, Keys, PolicySet, Subject } from './store.js';
import { refusal } from './together.js';
import { changedSet, nothingOf } from './variant.js';
import { boolean, optional, readOptions, type OptionTable } from '../common/options.js';

/** The most dimensions of a limiter, because each combination of dimensions needs a set of policies of its own. */
const MAX_DIMENSIONS = 8;

/** Options for the cluster slots of a decision's keys. */
export interface SlotOptions {
  /**
   * In a Redis Cluster, the dimension whose key determines the slot. Every
   * other key is then counted separately per key of the slot's dimension: an address has one quota per `org`. Requests without a key of the
   * slot's dimension share one slot. The option has the same meaning on every store.
   */
  slotBy?: string | undefined;
  /**
   * In a Redis Cluster, instead of `slotBy`: decides keys one after the other. If a key denies, the earlier charges are given back, and until then a simultaneous request may be denied. Stores other than a
   * cluster still decide in one step. See https://github.com/headgate/headgate/blob/main/docs/redis-cluster.md. @default false
   */
  acrossSlots?: boolean | undefined;
}

export const SLOT_TABLE = {
  slotBy: optional('the name of a dimension', checkDimension),
  acrossSlots: boolean(false),
} satisfies OptionTable<SlotOptions>;

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function checkSlots(options: SlotOptions): Pick<Dimensions, 'slotBy' | 'acrossSlots'> {
  const slots = readOptions(SLOT_TABLE, options);
  if (slots.acrossSlots && slots.slotBy !== undefined)
    throw refusal('twoSlots', 'slotBy, acrossSlots', slots.slotBy);
  return slots;
}

/**
 * The dimensions of policies and of a ban, or undefined if all count by the request's key.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION` if there are too many
 */
export function dimensionsOf(
  policies: readonly CompiledPolicy[],
  ban: CompiledBan | undefined,
  { banBy, slotBy, acrossSlots }: Omit<Dimensions, 'names'> = BY_KEY,
): Dimensions | undefined {
  checkSharedSlots(policies, { slotBy, acrossSlots });
  const used = new Set(policies.map(({ by }) => by));
  if (ban) used.add(banBy);
  if (slotBy !== undefined) used.add(slotBy);
  const hasDefault = used.delete(DEFAULT_DIMENSION);
  if (used.size === 0) return undefined;
  if (used.size >= MAX_DIMENSIONS) {
    throw invalidOption('by', [...used], `Use at most ${MAX_DIMENSIONS - 1} dimensions.`);
  }
  return { names: hasDefault ? [DEFAULT_DIMENSION, ...used] : [...used], banBy, slotBy, acrossSlots };
}

/** A set with other policies, and the ban and scope of `base`. @throws as `dimensionsOf` */
export function withPolicies(
  base: PolicySet,
  policies: readonly CompiledPolicy[],
  by: Omit<Dimensions, 'names'>,
  change?: Pick<PolicySet, 'tier'>,
): PolicySet {
  const dimensions = dimensionsOf(policies, base.ban, by);
  return Object.freeze(changedSet(base, { ...change, policies, dimensions }));
}

/** The policies of a limiter, each state only once. */
export function distinct(policies: readonly CompiledPolicy[]): CompiledPolicy[] {
  const known = new Map<string, CompiledPolicy>();
  for (const policy of policies) {
    const state = `${policy.by} ${policy.id}`;
    if (!known.has(state)) known.set(state, policy);
  }
  return [...known.values()];
}

const BY_KEY = { banBy: DEFAULT_DIMENSION, slotBy: undefined, acrossSlots: false };

/**
 * The part of a set that applies to a request, with the request's keys.
 *
 * @param known dimensions that the request may have in addition to the set's dimensions
 * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_DIMENSION`
 */
export function subjectOf(set: PolicySet, key: Key, known: readonly string[]): Subject {
  const names = set.dimensions ? set.dimensions.names : ONLY_DEFAULT;
  const given = typeof key === 'string' ? { key } : checkKeys(key, names, known);
  const keys: string[] = [];
  let bits = 0;
  for (let i = 0; i < names.length; i++) {
    const name = names[i]!;
    const value = keyOfDimension(given, name);
    if (value === undefined) continue;
    keys.push(value);
    bits |= 1 << i;
  }
  // A set without dimensions needs the default key. Without that key, its policies do not apply.
  const selected = set.dimensions ? select(set, bits) : keys.length > 0 ? set : nothingOf(set);
  return { set: selected, key: keysOf(selected, keys) };
}

function keyOfDimension(
  given: Readonly<Record<string, string | undefined>>,
  name: string,
): string | undefined {
  const of = limitDimension(name);
  if (of === undefined) return Object.hasOwn(given, name) ? given[name] : undefined;
  const tenant = name.slice(of.length + 1);
  const hasLimit = Object.hasOwn(given, of) && given[of] !== undefined;
  return hasLimit ? tenantKey(Object.hasOwn(given, tenant) ? given[tenant] : undefined) : undefined;
}

const ONLY_DEFAULT: readonly string[] = [DEFAULT_DIMENSION];

/** Passes a single key as a string, unless it lies in the slot of another key. */
function keysOf({ dimensions }: PolicySet, keys: readonly string[]): Keys {
  const slotBy = dimensions?.slotBy;
  const isSole = keys.length < 2 && (slotBy === undefined || dimensions?.names[0] === slotBy);
  return isSole ? (keys[0] ?? '') : keys;
}

/** @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_DIMENSION` */
function checkKeys(
  key: unknown,
  names: readonly string[],
  known: readonly string[],
): Readonly<Record<string, string | undefined>> {
  if (typeof key !== 'object' || key === null || Array.isArray(key)) {
    throw invalidKey('key', key, 'is neither a string nor an object with a key for each dimension');
  }
  const given = key as Readonly<Record<string, string | undefined>>;
  const own = Object.keys(given);
  if (own.length === 0) throw invalidKey('key', key, `is empty. Known dimensions: ${list(names, known)}`);
  for (const name of own) {
    if (name !== DEFAULT_DIMENSION && !hasDimension(names, name) && !hasDimension(known, name))
      throw unknownDimension(`key.${name}`, name, names, known);
    const value: unknown = given[name];
    if (typeof value !== 'string' && value !== undefined)
      throw invalidKey(`key.${name}`, value, 'is not a string');
  }
  return given;
}

function invalidKey(what: string, given: unknown, problem: string): HeadgateError {
  return new HeadgateError(
    'HEADGATE_INVALID_KEY',
    `${what}: ${show(given)} ${problem}. Pass the client to limit, as a string, or as an object: { key: ip, account: 'ada' }.`,
  );
}

/** The error for a dimension that no policy counts by. */
export function unknownDimension(
  what: string,
  name: string,
  names: Iterable<string>,
  known: Iterable<string> = [],
): HeadgateError {
  return new HeadgateError(
    'HEADGATE_UNKNOWN_DIMENSION',
    `${what}: no policy counts by ${show(name)}. Known dimensions: ${list(names, known)}. Use one of them, or add a policy with ` +
      `by: ${show(name)}.`,
  );
}

function list(names: Iterable<string>, known: Iterable<string>): string {
  return plainDimensions([DEFAULT_DIMENSION, ...names, ...known])
    .map((name) => `'${name}'`)
    .join(', ');
}
