import { DEFAULT_DIMENSION } from '../contract/key.js';
import { DEFAULT_SUBNET } from '../http/client-key.js';
import type { Options } from './command.js';
import { CliError, usageError } from './errors.js';
import { isOfIpv6, subjectOf, type Subject, type TypedKey } from './keys.js';
import type { Published } from './redis/published.js';
import { warn, type Io, type Warning } from './io.js';

/** The reason why a change would have no effect. */
interface Doubt extends Warning {
  readonly code: 'UNKNOWN_SCOPE' | 'NO_BAN';
}

/** The maximum number of other scopes in a message. */
const MAX_NAMED = 10;

/** The problem of a scope by the limiters' publications, or `undefined` if there is no problem. */
export function unknownScope(
  { scopes, instances, problem }: Published,
  name: string | undefined,
): Doubt | undefined {
  if (name === undefined || scopes.has(name) || problem !== undefined) return undefined;
  const unknown = (message: string): Doubt => ({ code: 'UNKNOWN_SCOPE', message });
  const called = JSON.stringify(name);
  if (instances.length === 0) {
    return unknown(
      'no limiter is published on this server under this --prefix, so it is unknown whether there is one called ' +
        `${called}.`,
    );
  }
  const untold = instances.reduce((sum, instance) => sum + instance.more, 0);
  if (untold > 0) {
    return unknown(
      `no limiter called ${called} is published. But ${untold} others were too many to be published, and it may be ` +
        'one of them.',
    );
  }
  const all = [...scopes.keys()].map((each) => JSON.stringify(each));
  const more = all.length > MAX_NAMED ? `, and ${all.length - MAX_NAMED} more` : '';
  const known = `${all.slice(0, MAX_NAMED).join(', ')}${more}`;
  return unknown(`no limiter called ${called} is published. There are: ${known}.`);
}

/** A warning if the limiters of a name differ, because the command's output may not apply to all of them. */
export function differing({ scopes }: Published, name: string): Warning | undefined {
  const [first, second, ...others] = scopes.get(name) ?? [];
  if (!first || !second) return undefined;
  const isMost = first.instances.length > second.instances.length;
  const message =
    `the instances of ${JSON.stringify(name)} have ${others.length + 2} different configurations, of which ` +
    `${isMost ? 'the most common one' : 'the first one (others are as common)'} is taken: see \`headgate limits\`.`;
  return { code: 'DIFFERENT', message };
}

/**
 * Checks that the command and a limiter use the same form of keys.
 *
 * @throws CliError `USAGE`
 */
export function checkKeys(published: Published, name: string, dimension: string): void {
  checkHashing(published, name);
  const slotBy = published.scopes.get(name)?.find((each) => each.slotBy !== undefined)?.slotBy;
  if (slotBy === undefined || slotBy === dimension) return;
  throw usageError(
    `The limiter ${JSON.stringify(name)} has slotBy: '${slotBy}', so that a key of ${dimension} has state within each ${slotBy}. Use ` +
      `limiter.peek, reset, ban and unban with both keys; headgate list shows what there is.`,
  );
}

function checkHashing({ scopes, mark }: Published, name: string): void {
  const marks = (scopes.get(name) ?? []).flatMap(({ instances }) => instances.map(({ hashed }) => hashed));
  if (marks.length === 0 || marks.includes(mark)) return;
  const limiter = `The limiter ${JSON.stringify(name)}`;
  throw usageError(
    marks[0] === undefined
      ? `${limiter} does not hash its keys. Leave out --hash-keys-file, and unset HEADGATE_HASH_KEYS.`
      : mark === undefined
        ? `${limiter} hashes its keys. Put the secret of its store's option hashKeys into a file and write --hash-keys-file, or set ` +
          'HEADGATE_HASH_KEYS.'
        : `${limiter} hashes its keys with another secret than that of --hash-keys-file, or HEADGATE_HASH_KEYS.`,
  );
}

/** The reason why a ban in a scope would have no effect, or `undefined`. */
export function cannotBan(published: Published, name: string, dimension: string): Doubt | undefined {
  const configurations = published.scopes.get(name);
  if (!configurations) return unknownScope(published, name);
  const no = (why: string): Doubt => ({
    code: 'NO_BAN',
    message: `the limiter ${JSON.stringify(name)} ${why}`,
  });
  // An instance without the option, as during a deployment, is not evidence about the keys that other instances ban.
  const banning = configurations.filter(({ ban }) => ban !== null);
  const dimensions = banning.map(({ banBy = DEFAULT_DIMENSION }) => banBy);
  if (dimensions.includes(dimension)) return undefined;
  return banning.length === 0
    ? no('has no option `ban`, so it never checks for bans. Give it ban: {}.')
    : no(`bans by ${dimensions[0]}, and not by ${dimension}. Write --dimension ${dimensions[0]}.`);
}

/** Warns if a ban is only partly effective. */
function partlyCannotBan({ scopes }: Published, name: string): Warning | undefined {
  const configurations = scopes.get(name) ?? [];
  const without = configurations.filter(({ ban }) => ban === null).flatMap(({ instances }) => instances);
  if (without.length > 0) {
    const where = without
      .map(({ host, pid }) => `${host}:${pid}`)
      .slice(0, MAX_NAMED)
      .join(', ');
    const message = `${without.length} instances of ${JSON.stringify(name)} have no option \`ban\`, and do not check for bans: ${where}.`;
    return { code: 'NO_BAN', message };
  }
  if (configurations.length > 0 && configurations.every(({ shadow }) => shadow))
    return { code: 'SHADOW', message: `the limiter ${JSON.stringify(name)} is a shadow, and denies nobody.` };
  return undefined;
}

/**
 * Checks by the limiters' publications whether bans of a dimension's keys will be enforced in a scope.
 *
 * @throws CliError `UNKNOWN_SCOPE`, `NO_BAN`, unless the ban is forced, which only warns
 */
export function checkBans(
  published: Published,
  name: string,
  dimension: string,
  { force = false }: Pick<Options, 'force'>,
  io: Io,
): void {
  checkKeys(published, name, dimension);
  const doubt = cannotBan(published, name, dimension);
  if (doubt && !force) {
    throw new CliError(doubt.code, `${doubt.message} Nobody was banned: --force bans all the same.`);
  }
  warn(io, doubt ?? partlyCannotBan(published, name));
}

export function warnUnnoted(io: Io, why: string | undefined): void {
  if (why === undefined) return;
  warn(io, { code: 'NOT_NOTED', message: `it was done, but neither indexed nor logged: ${why}` });
}

/**
 * The subjects of typed keys, by the keys that the limiters of a scope use for addresses.
 *
 * @throws CliError `USAGE` if the limiters differ, or as `subjectOf`
 */
export function subjectsIn(
  { scopes }: Published,
  name: string,
  typed: readonly TypedKey[],
  io: Io,
): readonly Subject[] {
  if (!typed.some(isOfIpv6)) return typed.map((each) => subjectOf(each, DEFAULT_SUBNET));
  const configurations = scopes.get(name) ?? [];
  const subnets = [...new Set(configurations.flatMap(({ ipv6Subnets }) => ipv6Subnets))].sort(
    (a, b) => a - b,
  );
  if (subnets.length > 1) {
    throw usageError(
      `The limiters called ${JSON.stringify(name)} make keys of IPv6 addresses by different networks: /${subnets.join(', /')}. ` +
        'Write --ipv6-subnet with one of them.',
    );
  }
  const subjects = typed.map((each) => subjectOf(each, subnets[0] ?? DEFAULT_SUBNET));
  const isOwn = configurations.length > 0 && subnets.length === 0;
  if (isOwn && subjects.some(({ given, keys }) => keys[0] !== given)) {
    const message =
      `the program makes the keys of ${JSON.stringify(name)} itself, and networks of /${DEFAULT_SUBNET} were taken for IPv6: ` +
      '--ipv6-subnet takes others, --raw the key as it is.';
    warn(io, { code: 'OWN_KEYS', message });
  }
  return subjects;
}

export function subjectIn(published: Published, name: string, typed: TypedKey, io: Io): Subject {
  checkKeys(published, name, typed.dimension);
  return subjectsIn(published, name, [typed], io)[0]!;
}
