import { DEFAULT_DIMENSION } from '../contract/key.js';
import { INLINE_FIELDS, LIMITER_OPTIONS, type LimiterOptions } from '../limiter/options.js';
import { compilePolicies } from '../contract/compile-policies.js';
import type { Policies, Policy } from '../contract/policy.js';
import type { TierOptions } from '../limiter/tiers.js';
import { checkShape } from '../common/validate.js';
import { nameOf, type Options } from './command.js';
import { orUsage, usageError } from './errors.js';
import { readText, type Io } from './io.js';
import { parsePolicies } from './policy-text.js';

/** A limiter's limits, as far as a command line can express them. */
export interface Limits {
  /** Empty if each request has a tier. */
  readonly policies: readonly Policy[];
  readonly tiers: ReadonlyMap<string, readonly Policy[]>;
  /** Whether the limiter is a shadow, which never denies. */
  readonly shadow: boolean;
  /** Whether the limiter supports overrides. */
  readonly overrides?: boolean;
}

interface LimitsOptions extends Pick<Options, 'name' | 'policy' | 'policies' | 'tier'> {
  /** The option with the file's name, for error messages. @default --policies */
  readonly option?: string;
}

/** The limits on the command line, by the limiter's name. @throws CliError `USAGE` */
export function readLimits(options: LimitsOptions, io: Io): ReadonlyMap<string, Limits> {
  const { policy, policies: file } = options;
  if (policy && file !== undefined) {
    throw usageError('--policy and --policies: write one of them.');
  }
  if (policy) {
    const limits = { policies: parsePolicies(policy), tiers: new Map(), shadow: false };
    return new Map([[nameOf(options), limits]]);
  }
  if (file === undefined) return new Map();
  const what = said(options);
  const limits = parseFile(what, readJson(what, file, io), options);
  if (options.name !== undefined && !limits.has(options.name)) {
    const known = [...limits.keys()].map((name) => JSON.stringify(name)).join(', ');
    throw usageError(`${what}: it has no ${JSON.stringify(options.name)}, but ${known}.`);
  }
  return limits;
}

/** The limits of one limiter. The name is optional if there is only one. @throws CliError `USAGE` */
export function readOneLimits(options: LimitsOptions, io: Io): Limits | undefined {
  const { name, policy, policies: file } = options;
  // Policies without a limiter around them apply to the limiter, whatever its name.
  const alone =
    policy !== undefined || (file !== undefined && Array.isArray(readJson(said(options), file, io)));
  const limits = readLimits(alone ? { ...options, name: 'default' } : options, io);
  if (alone || limits.size < 2) return [...limits.values()][0];
  if (name === undefined) {
    const known = [...limits.keys()].map((each) => JSON.stringify(each)).join(', ');
    throw usageError(`${said(options)}: of which limiter? Write --name with one of ${known}.`);
  }
  return limits.get(name);
}

/** The limits with a tier's policies, or without a tier, with the policies for requests without one. @throws CliError `USAGE` */
export function ofTier(limits: Limits, name: string, tier: string | undefined): Limits {
  const policies = tier === undefined ? limits.policies : limits.tiers.get(tier);
  if (policies && policies.length > 0) return { ...limits, policies };
  const known = [...limits.tiers.keys()].map((each) => JSON.stringify(each)).join(', ');
  const which = known === '' ? 'has no tiers' : `has the tiers ${known}`;
  const problem = tier === undefined ? 'which?' : `${JSON.stringify(tier)} is none.`;
  throw usageError(`--tier: ${problem} ${JSON.stringify(name)} ${which}.`);
}

/** The policies that count a key of this dimension. @throws CliError `USAGE` if there are none */
export function policiesBy(dimension: string, policies: readonly Policy[]): Policy[] {
  const some = policies.filter(({ by = DEFAULT_DIMENSION }) => by === dimension);
  if (some.length > 0 || policies.length === 0) return some;
  const known = [...new Set(policies.map(({ by = DEFAULT_DIMENSION }) => by))].join(', ');
  throw usageError(
    `No policy of this limiter is by '${dimension}'. Write --dimension with one of: ${known}.`,
  );
}

/** The limits of one dimension. @throws CliError `USAGE` if no policy counts this dimension */
export function ofDimension(limits: Limits, dimension: string): Limits {
  const tiers = [...limits.tiers].map(
    ([tier, all]) => [tier, all.filter(({ by = DEFAULT_DIMENSION }) => by === dimension)] as const,
  );
  return {
    ...limits,
    policies: policiesBy(dimension, limits.policies),
    tiers: new Map(tiers.filter(([, policies]) => policies.length > 0)),
  };
}

const said = ({ option = '--policies', policies = '' }: LimitsOptions): string => `${option} ${policies}`;

function readJson(what: string, file: string, io: Io): unknown {
  const text = readText(what, file, io);
  return orUsage(
    () => JSON.parse(text) as unknown,
    (message) => `${what}: it is not JSON: ${message}.`,
  );
}

const EXAMPLE = '["100/1m"], or { "api": [{ "limit": 100, "window": "1m" }] }';

function parseFile(what: string, value: unknown, options: LimitsOptions): Map<string, Limits> {
  if (Array.isArray(value)) return new Map([[nameOf(options), limitsOf(what, value)]]);
  if (typeof value !== 'object' || value === null) throw usageError(`${what}: write ${EXAMPLE}.`);
  if ('limit' in value || 'policies' in value) {
    throw usageError(
      `${what}: these are the options of one limiter, and it is not said which. Write ${EXAMPLE}.`,
    );
  }
  const entries = Object.entries(value);
  if (entries.length === 0) throw usageError(`${what}: it is empty. Write ${EXAMPLE}.`);
  return new Map(entries.map(([name, given]) => [name, limitsOf(`${what}: ${name}`, given)]));
}

/** Reads policies, or a limiter's options. Other options are ignored. */
function limitsOf(what: string, value: unknown): Limits {
  if (Array.isArray(value) || typeof value === 'string') return checked(what, value as Policies, false);
  orUsage(() => checkShape(what, value, [...LIMITER_OPTIONS, ...INLINE_FIELDS]));
  const { policies, tiers, shadow = false, ...rest } = value as LimiterOptions & { policies?: Policies };
  const inline = Object.entries(rest).filter(([field]) => INLINE_FIELDS.includes(field));
  const sole = inline.length > 0 || tiers === undefined ? [Object.fromEntries(inline) as never] : undefined;
  return checked(what, policies ?? sole, shadow, tiers);
}

function checked(
  what: string,
  policies: Policies | undefined,
  shadow: boolean,
  tiers: TierOptions = {},
): Limits {
  const read = (where: string, given: Policies): Policy[] =>
    orUsage(() => compilePolicies(where, given).map(({ source }) => source));
  const named = Object.entries(tiers).map(([tier, own]) => [tier, read(`${what}: ${tier}`, own)] as const);
  return { policies: policies === undefined ? [] : read(what, policies), tiers: new Map(named), shadow };
}
