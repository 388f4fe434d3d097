import { parseLimits, type GivenLimits, type Limits } from 'headgate/admin';
import { nameOf } from './command.js';
import { orUsage, usageError } from './errors.js';
import { readText, type Io } from './io.js';
import { parsePolicies } from './policy-text.js';

export { ofTier, type Limits } from 'headgate/admin';

interface LimitsOptions {
  readonly name?: string | undefined;
  readonly policy?: readonly string[] | undefined;
  readonly policies?: string | undefined;
  /** The option with the file's name, for error messages. @default --policies */
  readonly option?: string;
}

/** The limits on the command line, by the limiter's name. @throws CliError `USAGE` */
export function readLimits(options: LimitsOptions, io: Io): ReadonlyMap<string, Limits> {
  const { policy, policies: file } = options;
  if (policy && file !== undefined) {
    throw usageError('--policy and --policies: pass one of them.');
  }
  if (policy) {
    const limits = { policies: parsePolicies(policy), tiers: new Map(), shadow: false };
    return new Map([[nameOf(options), limits]]);
  }
  if (file === undefined) return new Map();
  const what = placeOf(options);
  const limits = parseFile(what, readJson(what, file, io), options);
  if (options.name !== undefined && !limits.has(options.name)) {
    const known = [...limits.keys()].map((name) => JSON.stringify(name)).join(', ');
    throw usageError(`${what}: the file has no limiter ${JSON.stringify(options.name)}. It has ${known}.`);
  }
  return limits;
}

/** The limits of one limiter. The name is optional if there is only one. @throws CliError `USAGE` */
export function readOneLimits(options: LimitsOptions, io: Io): Limits | undefined {
  const { name, policy, policies: file } = options;
  // Policies without a limiter around them apply to the limiter, whatever its name.
  const alone =
    policy !== undefined || (file !== undefined && Array.isArray(readJson(placeOf(options), file, io)));
  const limits = readLimits(alone ? { ...options, name: 'default' } : options, io);
  if (alone || limits.size < 2) return [...limits.values()][0];
  if (name === undefined) {
    const known = [...limits.keys()].map((each) => JSON.stringify(each)).join(', ');
    throw usageError(`${placeOf(options)}: the file has several limiters. Pass --name with one of ${known}.`);
  }
  return limits.get(name);
}

const placeOf = ({ option = '--policies', policies = '' }: LimitsOptions): string => `${option} ${policies}`;

function readJson(what: string, file: string, io: Io): unknown {
  const text = readText(what, file, io);
  return orUsage(
    () => JSON.parse(text) as unknown,
    (message) => `${what}: the file is not JSON: ${message}.`,
  );
}

const limitsFrom = (what: string, value: unknown): Limits => orUsage(() => parseLimits(what, value));

const EXAMPLE = '["100/1m"], or { "api": [{ "limit": 100, "window": "1m" }] }';

function parseFile(what: string, value: unknown, options: LimitsOptions): Map<string, Limits> {
  if (Array.isArray(value)) return new Map([[nameOf(options), limitsFrom(what, value)]]);
  if (typeof value !== 'object' || value === null)
    throw usageError(`${what}: the file must contain ${EXAMPLE}.`);
  if ('limit' in value || 'policies' in value) {
    throw usageError(
      `${what}: the file has the options of one limiter without its name. It must contain ${EXAMPLE}.`,
    );
  }
  const entries = Object.entries(value);
  if (entries.length === 0)
    throw usageError(`${what}: the file has no limiters. It must contain ${EXAMPLE}.`);
  return new Map(entries.map(([name, given]) => [name, limitsFrom(`${what}: ${name}`, given)]));
}

export function givenLimits(limits: Limits | undefined): GivenLimits {
  if (!limits) return {};
  const { policies, tiers, shadow } = limits;
  return {
    ...(policies.length > 0 && { policies: [...policies] }),
    ...(tiers.size > 0 && { tiers: Object.fromEntries([...tiers].map(([tier, own]) => [tier, [...own]])) }),
    shadow,
  };
}
