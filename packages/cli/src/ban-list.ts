import { isIP } from 'node:net';
import { createInterface } from 'node:readline/promises';
import { Readable } from 'node:stream';
import {
  checkDimension,
  checkKey,
  kindOfHash,
  MAX_DURATION_MS,
  NOTE_LENGTHS,
  toMilliseconds,
  type Hash,
  type ImportedBan,
  type KeyOptions,
} from 'headgate/admin';
import { orUsage, usageError } from './errors.js';

/** A ban of a line. */
type ListedBan = ImportedBan & { readonly line: number };

/** A key of a line. */
interface ListedKey {
  readonly given: string;
  readonly line: number;
}

/** The content of the lines. */
export interface BanLines {
  readonly bans: readonly ListedBan[];
  /** The lines that consist of a key only. */
  readonly typed: readonly ListedKey[];
  /** The number of bans that have ended since the lines were written. */
  readonly over: number;
  /** The number of lines of `list --json` that are not about bans. */
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
  const bans: ListedBan[] = [];
  const typed: ListedKey[] = [];
  let over = 0;
  let others = 0;
  let number = 0;
  for await (const line of createInterface({ input: Readable.from(content), crlfDelay: Infinity })) {
    number += 1;
    const text = defaults.raw ? line.replace(/^\ufeff/, '') : line.trim();
    // Blank lines and comments.
    if (text === '' || text.startsWith('#')) continue;
    const found = orUsage(
      () => readLine(text, defaults),
      (message) => `bans import, line ${number}: ${message}`,
    );
    if (found === undefined) others += 1;
    else if (typeof found === 'string') typed.push({ given: found, line: number });
    else if (found.for === 0) over += 1;
    else bans.push({ ...found, line: number });
  }
  return { bans, typed, over, others };
}

function readLine(line: string, defaults: Defaults): ImportedBan | string | undefined {
  if (line.startsWith('{')) return readJson(JSON.parse(line) as Json, defaults);
  if (!defaults.raw) refuseJunk(line);
  durationOf({}, defaults);
  nameOf({}, defaults);
  checkKey(line, { raw: defaults.raw, dimension: defaults.dimension, ipv6Subnet: defaults.ipv6Subnet });
  return line;
}

/** Rejects texts that are unlikely to be keys. @throws CliError `USAGE` */
function refuseJunk(line: string): void {
  const words = line.split(/[\s,;|]+/);
  const fault = /^-+$/.test(line)
    ? 'is a missing client'
    : /^["'[\]},<]/.test(line) || /^(null|true|false)$/.test(line)
      ? 'is not a key, but a part of another format'
      : /[\p{Cc}\ufffd]/u.test(line)
        ? 'is not text'
        : words.length > 1 && words.some((word) => isIP(word) !== 0)
          ? 'has more than an address'
          : line.includes(',')
            ? 'is a row of a table. Pass a file with one key per line'
            : undefined;
  if (fault === undefined) return;
  throw usageError(
    `${JSON.stringify(line.slice(0, 60))} ${fault}. Remove the line, or pass --raw if all lines are literal keys.`,
  );
}

function readJson(ban: Json, defaults: Defaults): ImportedBan | undefined {
  if (ban.kind !== undefined && ban.kind !== 'banned') return undefined;
  const key = textOrHash(ban, 'key');
  if (key === undefined)
    throw usageError('the line has no "key". Use a line of `bans export`, or only a key.');
  // Headgate's own lines contain keys that really exist.
  if (typeof key === 'string' && key.trim() === '' && ban.kind !== 'banned' && !defaults.raw)
    throw usageError('"key" is empty. Remove the line, or pass --raw if the empty text is a key.');
  if (ban.within !== undefined)
    throw usageError('the ban is of a limiter with `slotBy`, and only its program can make such bans.');
  const dimension = ban.dimension === undefined ? undefined : checkDimension('dimension', ban.dimension);
  const note = { by: noteText(ban, 'by'), reason: noteText(ban, 'reason') };
  // The key of a line in JSON is literal.
  return { name: nameOf(ban, defaults), key, dimension, raw: true, for: durationOf(ban, defaults), ...note };
}

function noteText(ban: Json, field: keyof typeof NOTE_LENGTHS): string | undefined {
  return textIn(ban, field)?.slice(0, NOTE_LENGTHS[field]);
}

function nameOf(ban: Json, { name }: Defaults): string | Hash {
  const found = textOrHash(ban, 'name') ?? name;
  if (found === undefined) throw usageError('the line has no "name". Pass --name for such lines.');
  if (typeof found === 'string' && (found.length < 1 || found.length > 256))
    throw usageError('"name": use 1 to 256 characters.');
  return found;
}

/** The largest difference between servers' clocks that is tolerated, ms. */
const TOLERANCE = 24 * 60 * 60 * 1000;

/** The remaining time of a ban. */
function durationOf({ bannedUntil, bannedForMs }: Json, { duration }: Defaults): number {
  if (bannedUntil !== undefined && bannedUntil !== null) {
    const left = typeof bannedUntil === 'string' ? Date.parse(bannedUntil) - Date.now() : NaN;
    const field = `"bannedUntil": ${JSON.stringify(bannedUntil)}`;
    if (Number.isNaN(left)) throw usageError(`${field} is not a time.`);
    if (left > MAX_DURATION_MS + TOLERANCE)
      throw usageError(`${field} is more than 366 days from now, the longest time of a ban.`);
    return Math.max(0, Math.min(left, MAX_DURATION_MS));
  }
  if (bannedForMs !== undefined && bannedForMs !== null) return toMilliseconds('bannedForMs', bannedForMs);
  if (duration === undefined)
    throw usageError('the line has no duration. Pass --for with a duration: --for 2h.');
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
  throw usageError(`"${field}": ${JSON.stringify(text)} is not text.`);
}
