import { isIP } from 'node:net';
import { exactMilliseconds, MAX_DURATION_MS } from '../../common/duration.js';
import { NOTE_LENGTHS } from '../../contract/change-note.js';
import { checkDimension } from '../../contract/key.js';
import type { BannedKey } from './ban-finds.js';
import type { ImportedBan } from './import-bans.js';
import type { BanOrigin } from './ban-origin-search.js';
import { factJson, textIn, textOrHashIn, type Json } from '../lines.js';
import type { Hash } from '../owners.js';
import { typedKey, wrongArgument, type KeyOptions } from '../typed-keys.js';

/** Defaults for missing fields of a line. */
export interface BanLineDefaults extends KeyOptions {
  /** The limiter of a line that names none. */
  readonly name?: string | undefined;
  /** The length of a ban, ms. */
  readonly duration?: number | undefined;
}

/** A ban as a line of a file. @param origin of a ban without an operator: `from`, and for a ban by denials their `cause` */
export function banJson(ban: BannedKey, origin?: Pick<BanOrigin, 'from' | 'reason'> | null): object {
  const { from, reason = null } = origin ?? {};
  return {
    ...factJson(ban),
    ...(from !== undefined && from !== 'unknown' && { from }),
    ...(from === 'denials' && reason !== null && { cause: reason }),
  };
}

/**
 * Reads a line of a file of bans: JSON as `bans export` and `list --json` write it, or a key only, for which the defaults are needed. The
 * length of a ban that has ended is 0.
 *
 * @param line the content of the line
 * @returns undefined for a line about something other than a ban
 * @throws HeadgateError or SyntaxError with the fault
 */
export function readBanLine(line: string, defaults: BanLineDefaults): ImportedBan | undefined {
  if (line.startsWith('{')) return readJson(JSON.parse(line) as Json, defaults);
  const { raw, dimension, ipv6Subnet } = defaults;
  if (!raw) refuseJunk(line);
  // The key is checked first: a missing duration is not the fault of a mistyped address.
  typedKey(line, { raw, dimension, ipv6Subnet });
  // A name cannot be chosen later, as a duration can.
  const name = nameOf({}, defaults);
  return { name, key: line, for: durationOf({}, defaults), raw, dimension, ipv6Subnet };
}

/** Rejects texts that are unlikely to be keys. @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` */
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
  throw wrongArgument(
    `${JSON.stringify(line.slice(0, 60))} ${fault}. Remove the line, or set \`raw: true\` if all lines are literal keys.`,
  );
}

function readJson(ban: Json, defaults: BanLineDefaults): ImportedBan | undefined {
  if (ban['kind'] !== undefined && ban['kind'] !== 'banned') return undefined;
  const key = textOrHashIn(ban, 'key');
  if (key === undefined)
    throw wrongArgument('the line has no "key". Use a line of `bans export`, or only a key.');
  // Headgate's own lines contain keys that really exist.
  if (typeof key === 'string' && key.trim() === '' && ban['kind'] !== 'banned' && !defaults.raw)
    throw wrongArgument('"key" is empty. Remove the line, or set `raw: true` if the empty text is a key.');
  if (ban['within'] !== undefined)
    throw wrongArgument('the ban is of a limiter with `slotBy`, and only its program can make such bans.');
  const dimension =
    ban['dimension'] === undefined ? undefined : checkDimension('dimension', ban['dimension']);
  // Headgate's own line of a ban by denials has `by: null`, and `from: 'denials'` if the log has the ban.
  const by = ban['by'] === null || ban['from'] === 'denials' ? null : noteText(ban, 'by');
  const note = { by, reason: noteText(ban, 'reason') };
  // The key of a line in JSON is literal.
  return { name: nameOf(ban, defaults), key, dimension, raw: true, for: durationOf(ban, defaults), ...note };
}

function noteText(ban: Json, field: keyof typeof NOTE_LENGTHS): string | undefined {
  return textIn(ban, field)?.slice(0, NOTE_LENGTHS[field]);
}

function nameOf(ban: Json, { name }: BanLineDefaults): string | Hash {
  const found = textOrHashIn(ban, 'name') ?? name;
  if (found === undefined) throw wrongArgument('the line has no "name". Set `name` for such lines.');
  if (typeof found === 'string' && (found.length < 1 || found.length > 256))
    throw wrongArgument('"name": use 1 to 256 characters.');
  return found;
}

/** The largest difference between servers' clocks that is tolerated, ms. */
const TOLERANCE_MS = 24 * 60 * 60 * 1000;

function durationOf(ban: Json, { duration }: BanLineDefaults): number {
  const until = ban['bannedUntil'] ?? undefined;
  if (until !== undefined) {
    const left = typeof until === 'string' ? Date.parse(until) - Date.now() : NaN;
    const field = `"bannedUntil": ${JSON.stringify(until)}`;
    if (Number.isNaN(left)) throw wrongArgument(`${field} is not a time.`);
    if (left > MAX_DURATION_MS + TOLERANCE_MS)
      throw wrongArgument(`${field} is more than 366 days from now, the longest time of a ban.`);
    return Math.max(0, Math.min(left, MAX_DURATION_MS));
  }
  const length = ban['bannedForMs'] ?? undefined;
  if (length !== undefined) return exactMilliseconds('bannedForMs', length);
  if (duration === undefined)
    throw wrongArgument("the line has no duration. Set `for` to a duration, such as '2h'.");
  return duration;
}
