import type { Command } from 'commander';
import { DEFAULT_DIMENSION } from '../dimensions.js';
import { printableJson, printableLines } from '../printable.js';
import { CliError, usageError } from './errors.js';
import type { Io } from './io.js';
import { Published } from './redis/published.js';
import type { Session } from './redis/session.js';

export interface ForceOption {
  readonly force?: boolean;
}

export function addForceOption(command: Command): Command {
  return command.option(
    '--force',
    'also in a scope of which no limiter tells, or whose limiter asks for no bans',
  );
}

interface Warning {
  readonly code: string;
  readonly message: string;
}

/** Why what was asked for would have no effect. */
interface Doubt extends Warning {
  readonly code: 'UNKNOWN_SCOPE' | 'NO_BAN';
}

export const INDEX_FULL: Warning = {
  code: 'INDEX_FULL',
  message: 'the index of bans is full, and there may be more bans: --scan looks at all keys.',
};

/** How many other scopes are named. */
const MOST_NAMED = 10;

/** What is wrong with a scope, as far as limiters tell; undefined: nothing. */
export function unknownScope({ scopes, instances }: Published, name: string): Doubt | undefined {
  if (scopes.has(name)) return undefined;
  const code = 'UNKNOWN_SCOPE';
  if (instances.length === 0) {
    const message =
      'no limiter has told this server of itself, under this --prefix: so it is not known whether there is one called ' +
      `${JSON.stringify(name)}.`;
    return { code, message };
  }
  const all = [...scopes.keys()].map((each) => JSON.stringify(each));
  const more = all.length > MOST_NAMED ? `, and ${all.length - MOST_NAMED} more` : '';
  const known = `${all.slice(0, MOST_NAMED).join(', ')}${more}`;
  return {
    code,
    message: `no limiter called ${JSON.stringify(name)} has told of itself. There are: ${known}.`,
  };
}

/** That limiters of one name are not alike: what is said of one may not hold for the others. */
export function differing({ scopes }: Published, name: string): Warning | undefined {
  const count = scopes.get(name)?.length ?? 0;
  if (count < 2) return undefined;
  const message =
    `the instances of ${JSON.stringify(name)} have ${count} different configurations, of which the most common one is taken: ` +
    'see `headgate limits`.';
  return { code: 'DIFFERENT', message };
}

/**
 * That the keys of a limiter are not those that a command makes.
 *
 * @throws CliError `USAGE`
 */
export function checkSlot({ scopes }: Published, name: string, dimension: string): void {
  const slotBy = scopes.get(name)?.find((each) => each.slotBy !== undefined)?.slotBy;
  if (slotBy === undefined || slotBy === dimension) return;
  throw usageError(
    `The limiter ${JSON.stringify(name)} has slotBy: '${slotBy}', so that a key of ${dimension} has state within each ${slotBy}. Use ` +
      `limiter.peek, reset, ban and unban with both keys; headgate list shows what there is.`,
  );
}

/** The same of a scope in which somebody is to be banned. */
function cannotBan(published: Published, name: string, dimension: string): Doubt | undefined {
  const configurations = published.scopes.get(name);
  if (!configurations) return unknownScope(published, name);
  const { banBy = DEFAULT_DIMENSION } = configurations[0]!;
  if (configurations[0]!.ban !== null && banBy !== dimension) {
    const message = `the limiter ${JSON.stringify(name)} bans by ${banBy}, and not by ${dimension}. Write --dimension ${banBy}.`;
    return { code: 'NO_BAN', message };
  }
  if (configurations.some(({ ban }) => ban !== null)) return undefined;
  const message = `the limiter ${JSON.stringify(name)} has no option \`ban\`, and so never asks for bans. Give it ban: {}.`;
  return { code: 'NO_BAN', message };
}

/** What keeps a ban from being what it says, though it is asked for. */
function partlyCannotBan({ scopes }: Published, name: string): Warning | undefined {
  const configurations = scopes.get(name) ?? [];
  const without = configurations.filter(({ ban }) => ban === null).flatMap(({ instances }) => instances);
  if (without.length > 0) {
    const where = without
      .map(({ host, pid }) => `${host}:${pid}`)
      .slice(0, MOST_NAMED)
      .join(', ');
    const message = `${without.length} instances of ${JSON.stringify(name)} have no option \`ban\`, and don't ask for bans: ${where}.`;
    return { code: 'NO_BAN', message };
  }
  if (configurations.length > 0 && configurations.every(({ shadow }) => shadow))
    return { code: 'SHADOW', message: `the limiter ${JSON.stringify(name)} is a shadow, and denies nobody.` };
  return undefined;
}

/**
 * Whether bans in these scopes will be asked for, as far as limiters tell.
 *
 * @throws CliError `UNKNOWN_SCOPE`, `NO_BAN`, unless it is forced: then it warns
 */
export async function checkBans(
  session: Session,
  names: readonly string[],
  { force = false }: ForceOption,
  io: Io,
  dimension?: string,
): Promise<void> {
  const published = await Published.read(session);
  for (const name of names) {
    // An import has a dimension for each ban.
    const its = dimension ?? published.scopes.get(name)?.[0]?.banBy ?? DEFAULT_DIMENSION;
    checkSlot(published, name, its);
    const doubt = cannotBan(published, name, its);
    if (doubt && !force) {
      throw new CliError(doubt.code, `${doubt.message} Nobody was banned: --force bans all the same.`);
    }
    warn(io, doubt ?? partlyCannotBan(published, name));
  }
}

export function warnUnnoted(io: Io, why: string | undefined): void {
  if (why === undefined) return;
  warn(io, { code: 'NOT_NOTED', message: `it was done, but neither indexed nor logged: ${why}` });
}

/** Writes a warning to standard error: a line for people, an object for programs. */
export function warn(io: Io, warning: Warning | undefined): void {
  if (!warning) return;
  const { code, message } = warning;
  const text = io.json
    ? printableJson(JSON.stringify({ warning: true, code, message }))
    : printableLines(`headgate: warning: ${message}`);
  io.stderr.write(`${text}\n`);
}
