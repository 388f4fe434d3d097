import { isIP } from 'node:net';
import { createInterface } from 'node:readline/promises';
import { Readable } from 'node:stream';
import { MAX_DURATION_MS, toMilliseconds } from '../common/duration.js';
import { NOTE_LENGTHS } from '../contract/ban-options.js';
import { checkDimension } from '../contract/key.js';
import { DEFAULT_SUBNET } from '../http/client-key.js';
import { kindOfHash, type Hash } from '../stores/keys.js';
import { orUsage, usageError } from './errors.js';
import { isOfIpv6, subjectOf, typedKey, type KeyOptions, type TypedKey } from './keys.js';

/** A ban that a line requests. */
export interface WantedBan {
  readonly name: string | Hash;
  readonly key: string | Hash;
  readonly dimension?: string | undefined;
  /** The length of the ban, ms. */
  readonly duration: number;
  /** The ban's author, if the line names one. */
  readonly by?: string | undefined;
  readonly reason?: string | undefined;
}

/** The content of the lines. The limiters' keys for the addresses are not yet known. */
export interface BanLines {
  readonly bans: readonly WantedBan[];
  /** The lines that consist of a key only. */
  readonly typed: readonly TypedKey[];
  /** The number of bans that have ended since the lines were written. */
  readonly over: number;
  /** The number of other lines, which `list --json` also writes. */
  readonly others: number;
}

/** Defaults for missing fields of a line. */
export interface Defaults extends KeyOptions {
  readonly name?: string | undefined;
  /** The length of a ban, ms. */
  readonly duration: number | undefined;
}

type Json = Readonly<Record<string, unknown>>;

/**
 * Reads lines of `bans export`, lines of `list --json`, or one key per line.
 *
 * @throws CliError `USAGE` with the number of the wrong line
 */
export async function readBans(
  content: AsyncIterable<Buffer | string>,
  defaults: Defaults,
): Promise<BanLines> {
  const bans: WantedBan[] = [];
  const typed: TypedKey[] = [];
  let over = 0;
  let others = 0;
  let number = 0;
  for await (const line of createInterface({ input: Readable.from(content), crlfDelay: Infinity })) {
    number += 1;
    const found = orUsage(
      () => readLine(defaults.raw ? line.replace(/^\ufeff/, '') : line.trim(), defaults),
      (message) => `bans import, line ${number}: ${message}`,
    );
    if (found === undefined) others += 1;
    else if ('given' in found) typed.push(found);
    else if (found.duration === 0) over += 1;
    else bans.push(found);
  }
  return { bans, typed, over, others };
}

/** Keeps the longest ban of each key. */
export function longestOf(bans: Iterable<WantedBan>): WantedBan[] {
  const longest = new Map<string, WantedBan>();
  for (const ban of bans) {
    const id = JSON.stringify([ban.name, ban.key, ban.dimension]);
    if (ban.duration > (longest.get(id)?.duration ?? 0)) longest.set(id, ban);
  }
  return [...longest.values()];
}

function readLine(line: string, defaults: Defaults): WantedBan | TypedKey | undefined {
  if (line === '' || line.startsWith('#')) return undefined;
  if (line.startsWith('{')) return readJson(JSON.parse(line) as Json, defaults);
  if (!defaults.raw) refuseJunk(line);
  durationOf({}, defaults);
  nameOf({}, defaults);
  const typed = typedKey(line, defaults);
  // The keys of other addresses and texts can be checked now.
  if (!isOfIpv6(typed)) subjectOf(typed, DEFAULT_SUBNET);
  return typed;
}

/** Rejects texts that are unlikely to be keys. @throws CliError `USAGE` */
function refuseJunk(line: string): void {
  const words = line.split(/[\s,;|]+/);
  const what = /^-+$/.test(line)
    ? 'stands for a client that is missing'
    : /^["'[\]},<]/.test(line) || /^(null|true|false)$/.test(line)
      ? 'is no key, but a part of something else'
      : /[\p{Cc}\ufffd]/u.test(line)
        ? 'is no text'
        : words.length > 1 && words.some((word) => isIP(word) !== 0)
          ? 'has more than an address'
          : line.includes(',')
            ? 'is a row of a table: its keys must stand alone'
            : undefined;
  if (what === undefined) return;
  throw usageError(
    `${JSON.stringify(line.slice(0, 60))} ${what}. Leave it out, or write --raw if all lines are keys as they are.`,
  );
}

function readJson(ban: Json, defaults: Defaults): WantedBan | undefined {
  if (ban.kind !== undefined && ban.kind !== 'banned') return undefined;
  const key = textOrHash(ban, 'key');
  if (key === undefined) throw usageError('it has no "key". Write a line of `bans export`, or a key alone.');
  // Headgate's own lines contain keys that really exist.
  if (typeof key === 'string' && key.trim() === '' && ban.kind !== 'banned' && !defaults.raw)
    throw usageError('its "key" is empty. Leave it out, or write --raw if that is a key.');
  if (ban.within !== undefined)
    throw usageError('it is of a limiter with `slotBy`, whose bans are made by the program alone.');
  const dimension = ban.dimension === undefined ? undefined : checkDimension('dimension', ban.dimension);
  const told = { by: noteText(ban, 'by'), reason: noteText(ban, 'reason') };
  return { name: nameOf(ban, defaults), key, dimension, duration: durationOf(ban, defaults), ...told };
}

function noteText(ban: Json, field: keyof typeof NOTE_LENGTHS): string | undefined {
  return textIn(ban, field)?.slice(0, NOTE_LENGTHS[field]);
}

function nameOf(ban: Json, { name }: Defaults): string | Hash {
  const found = textOrHash(ban, 'name') ?? name;
  if (found === undefined) throw usageError('it names no scope. Write --name with that of such lines.');
  if (typeof found === 'string' && (found.length < 1 || found.length > 256))
    throw usageError('"name": write 1 to 256 characters.');
  return found;
}

/** The largest difference between servers' clocks that is tolerated, ms. */
const TOLERANCE = 24 * 60 * 60 * 1000;

/** The remaining time of a ban. */
function durationOf({ bannedUntil, bannedForMs }: Json, { duration }: Defaults): number {
  if (bannedUntil !== undefined && bannedUntil !== null) {
    const left = typeof bannedUntil === 'string' ? Date.parse(bannedUntil) - Date.now() : NaN;
    const said = `"bannedUntil": ${JSON.stringify(bannedUntil)}`;
    if (Number.isNaN(left)) throw usageError(`${said} is no time.`);
    if (left > MAX_DURATION_MS + TOLERANCE)
      throw usageError(`${said} is more than 366 days from now, and no ban lasts longer.`);
    return Math.max(0, Math.min(left, MAX_DURATION_MS));
  }
  if (bannedForMs !== undefined && bannedForMs !== null) return toMilliseconds('bannedForMs', bannedForMs);
  if (duration === undefined) throw usageError('it does not say for how long. Write --for with a duration.');
  return duration;
}

function textOrHash(ban: Json, field: string): string | Hash | undefined {
  const hash = ban[`${field}Hash`];
  const isHash = typeof hash === 'string' && kindOfHash(hash) !== undefined;
  return textIn(ban, field) ?? (isHash ? { hash } : undefined);
}

function textIn(ban: Json, field: string): string | undefined {
  const text = ban[field] ?? undefined;
  if (text === undefined || typeof text === 'string') return text;
  throw usageError(`"${field}": ${JSON.stringify(text)} is no text.`);
}
