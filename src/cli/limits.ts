import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { DEFAULT_DIMENSION } from '../dimensions.js';
import { HeadgateError } from '../errors.js';
import { INLINE_FIELDS, LIMITER_OPTIONS } from '../limiter.js';
import { compilePolicies, type Policy } from '../policy.js';
import { checkShape } from '../validate.js';
import { usageError } from './errors.js';
import type { Io } from './io.js';
import { parsePolicies, POLICY_GRAMMAR } from './policy-text.js';

/** What a limiter enforces, as far as it can be said on a command line. */
export interface Limits {
  readonly policies: readonly Policy[];
  /** The limiter denies nobody. */
  readonly shadow: boolean;
}

export interface LimitsOptions {
  readonly name?: string;
  readonly policy?: readonly string[];
  readonly policies?: string;
}

export function addNameOption(command: Command): Command {
  return command.option('--name <scope>', "the limiter's name: `headgate list` shows which there are");
}

export function addLimitsOptions(command: Command): Command {
  return command
    .option('--policy <text>', `a policy of the limiter, repeatable: ${POLICY_GRAMMAR}`, append)
    .option('--policies <file>', 'the policies as JSON: an array, or an object of limiters by name');
}

function append(text: string, earlier: readonly string[] | undefined): string[] {
  return [...(earlier ?? []), text];
}

/** @throws CliError `USAGE` without a name: acting on a guessed scope would be worse than asking */
export function nameOf({ name }: LimitsOptions): string {
  if (name === undefined) {
    throw usageError(
      "--name: whose state? Write the limiter's name: --name api. A limiter that was given none is called default; " +
        '`headgate list` shows which there are.',
    );
  }
  if (name.length < 1 || name.length > 256) throw usageError('--name: write 1 to 256 characters.');
  return name;
}

/** How much is told at most: --limit, 0 is all. @throws CliError `USAGE` */
export function limitOf(text: string | undefined, io: Io, enough: number): number {
  if (text === undefined) return io.json ? Infinity : enough;
  if (!/^\d{1,9}$/.test(text)) throw usageError('--limit: write a whole number; 0 lists all.');
  return Number(text) || Infinity;
}

/** The limits that are given, by the limiter's name. @throws CliError `USAGE` */
export function readLimits(options: LimitsOptions, io: Io): ReadonlyMap<string, Limits> {
  const { policy, policies: file } = options;
  if (policy && file !== undefined) {
    throw usageError('--policy and --policies: write one of them.');
  }
  if (policy) return new Map([[nameOf(options), { policies: parsePolicies(policy), shadow: false }]]);
  if (file === undefined) return new Map();
  const limits = parseFile(file, readJson(file, io), options);
  if (options.name !== undefined && !limits.has(options.name)) {
    const known = [...limits.keys()].map((name) => JSON.stringify(name)).join(', ');
    throw usageError(`--policies ${file}: it has no ${JSON.stringify(options.name)}, but ${known}.`);
  }
  return limits;
}

/** The limits of one limiter; it needs no name if there is one only. @throws CliError `USAGE` */
export function readOneLimits(options: LimitsOptions, io: Io): Limits | undefined {
  const { name, policy, policies: file } = options;
  // Policies by themselves are a limiter's, whatever it is called.
  const alone = policy !== undefined || (file !== undefined && Array.isArray(readJson(file, io)));
  const limits = readLimits(alone ? { ...options, name: 'default' } : options, io);
  if (alone || limits.size < 2) return [...limits.values()][0];
  if (name === undefined) {
    const known = [...limits.keys()].map((each) => JSON.stringify(each)).join(', ');
    throw usageError(`--policies ${file}: of which limiter? Write --name with one of ${known}.`);
  }
  return limits.get(name);
}

/** The policies that a key of this dimension counts for. @throws CliError `USAGE` if there are none */
export function policiesBy(dimension: string, policies: readonly Policy[]): Policy[] {
  const some = policies.filter(({ by = DEFAULT_DIMENSION }) => by === dimension);
  if (some.length > 0 || policies.length === 0) return some;
  const known = [...new Set(policies.map(({ by = DEFAULT_DIMENSION }) => by))].join(', ');
  throw usageError(
    `No policy of this limiter is by '${dimension}'. Write --dimension with one of: ${known}.`,
  );
}

function readJson(file: string, { cwd }: Io): unknown {
  let text: string;
  try {
    text = readFileSync(resolve(cwd, file), 'utf8');
  } catch (error) {
    throw usageError(`--policies ${file}: it cannot be read: ${(error as Error).message}.`);
  }
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw usageError(`--policies ${file}: it is not JSON: ${(error as Error).message}.`);
  }
}

const EXAMPLE = '[{ "limit": 100, "window": "1m" }], or { "api": [{ "limit": 100, "window": "1m" }] }';

function parseFile(file: string, value: unknown, options: LimitsOptions): Map<string, Limits> {
  const what = `--policies ${file}`;
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

/** Of an array of policies, or of a limiter's options, with all that may stand among them. */
function limitsOf(what: string, value: unknown): Limits {
  try {
    if (Array.isArray(value)) return checked(what, value as Policy[], false);
    checkShape(what, value, [...LIMITER_OPTIONS, ...INLINE_FIELDS]);
    const { policies, shadow = false, ...inline } = value as { policies?: Policy[]; shadow?: boolean };
    const fields = Object.entries(inline).filter(([field]) => INLINE_FIELDS.includes(field));
    return checked(what, policies ?? [Object.fromEntries(fields) as unknown as Policy], shadow);
  } catch (error) {
    throw error instanceof HeadgateError ? usageError(error.message) : error;
  }
}

function checked(what: string, policies: readonly Policy[], shadow: boolean): Limits {
  compilePolicies(what, policies);
  return { policies, shadow };
}
