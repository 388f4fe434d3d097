import { createInterface } from 'node:readline/promises';
import { Readable } from 'node:stream';
import { toMilliseconds } from '../duration.js';
import { checkDimension } from '../dimensions.js';
import { HeadgateError } from '../errors.js';
import type { Hash } from '../stores/keys.js';
import { CliError, usageError } from './errors.js';
import { subjectOf, type KeyOptions } from './keys.js';

/** Who is to be banned. */
export interface WantedBan {
  readonly name: string | Hash;
  readonly key: string | Hash;
  readonly dimension?: string | undefined;
  /** ms */
  readonly duration: number;
  /** As the line says. */
  readonly by?: string | undefined;
  readonly reason?: string | undefined;
}

export interface BanList {
  /** One for each key: the longest. */
  readonly bans: readonly WantedBan[];
  /** How many bans have ended since they were written. */
  readonly over: number;
  /** Lines of something else, as `list --json` writes them too. */
  readonly others: number;
}

/** What lines do not say themselves. */
export interface Defaults extends KeyOptions {
  readonly name?: string | undefined;
  /** ms */
  readonly duration: number | undefined;
}

type Json = Readonly<Record<string, unknown>>;

/**
 * Reads lines of `bans export`, of `list --json`, or of a key each.
 *
 * @throws CliError `USAGE`: which line is wrong
 */
export async function readBans(
  content: AsyncIterable<Buffer | string>,
  defaults: Defaults,
): Promise<BanList> {
  const bans = new Map<string, WantedBan>();
  let over = 0;
  let others = 0;
  let number = 0;
  for await (const line of createInterface({ input: Readable.from(content), crlfDelay: Infinity })) {
    number += 1;
    const found = at(number, () => readLine(line.replace(/^\ufeff/, '').trim(), defaults));
    if (found.length === 0) others += 1;
    for (const ban of found) {
      const id = JSON.stringify([ban.name, ban.key, ban.dimension]);
      const known = bans.get(id)?.duration ?? 0;
      if (ban.duration === 0) over += 1;
      else if (ban.duration > known) bans.set(id, ban);
    }
  }
  return { bans: [...bans.values()], over, others };
}

/** Says of an error where it is. */
function at<T>(line: number, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof CliError || error instanceof HeadgateError || error instanceof SyntaxError) {
      throw usageError(`bans import, line ${line}: ${error.message}`);
    }
    throw error;
  }
}

function readLine(line: string, defaults: Defaults): WantedBan[] {
  if (line === '' || line.startsWith('#')) return [];
  if (line.startsWith('{')) return readJson(JSON.parse(line) as Json, defaults);
  const duration = durationOf({}, defaults);
  const name = nameOf({}, defaults);
  const { keys, dimension } = subjectOf(line, defaults);
  return keys.map((key) => ({ name, key, dimension, duration }));
}

function readJson(ban: Json, defaults: Defaults): WantedBan[] {
  if (ban.kind !== undefined && ban.kind !== 'banned') return [];
  const key = textOrHash(ban, 'key');
  if (key === undefined) throw usageError('it has no "key". Write a line of `bans export`, or a key alone.');
  const text = (value: unknown): string | undefined =>
    typeof value === 'string' ? value.slice(0, 500) : undefined;
  const told = { by: text(ban.by), reason: text(ban.reason) };
  if (ban.within !== undefined)
    throw usageError('it is of a limiter with `slotBy`, whose bans are made by the program alone.');
  const dimension = ban.dimension === undefined ? undefined : checkDimension('dimension', ban.dimension);
  return [{ name: nameOf(ban, defaults), key, dimension, duration: durationOf(ban, defaults), ...told }];
}

function nameOf(ban: Json, { name }: Defaults): string | Hash {
  const found = textOrHash(ban, 'name') ?? name;
  if (found === undefined) throw usageError('it names no scope. Write --name with that of such lines.');
  return found;
}

/** What is left of the ban. */
function durationOf({ bannedUntil, bannedForMs }: Json, { duration }: Defaults): number {
  if (typeof bannedUntil === 'string') {
    const left = Date.parse(bannedUntil) - Date.now();
    if (Number.isNaN(left)) throw usageError(`"bannedUntil": ${JSON.stringify(bannedUntil)} is no time.`);
    return left <= 0 ? 0 : toMilliseconds('bannedUntil', left);
  }
  if (bannedForMs !== undefined) return toMilliseconds('bannedForMs', bannedForMs);
  if (duration === undefined) throw usageError('it does not say for how long. Write --for with a duration.');
  return duration;
}

function textOrHash(ban: Json, field: string): string | Hash | undefined {
  const text = ban[field];
  if (typeof text === 'string') return text;
  const hash = ban[`${field}Hash`];
  return typeof hash === 'string' && /^[\w-]{43}$/.test(hash) ? { hash } : undefined;
}
