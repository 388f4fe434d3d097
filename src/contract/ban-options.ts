import { checkDimension, DEFAULT_DIMENSION } from './key.js';
import { toMilliseconds, type Duration } from '../common/duration.js';
import { invalidOption } from '../common/errors.js';
import type { CompiledBan } from '../algorithms/ban.js';
import { checkBoolean, checkInteger, checkShape } from '../common/validate.js';

/** Bans a key after repeated denials, longer each time. `{}` only allows bans by hand (`limiter.ban`). */
export interface BanOptions {
  /** So many denials ... (1 to 1,000,000). Absent: denials don't ban. */
  after?: number;
  /** ... within this long (default `'10m'`) ... */
  within?: Duration;
  /** ... ban the key for this long the first time (default `'1h'`). */
  for?: Duration;
  /** Each further ban is so many times as long (1 to 100, three decimals; default 2) ... */
  factor?: number;
  /** ... but at most this long (default `'24h'`, or `for` if that is more). Earlier bans are forgotten as long after the last. */
  max?: Duration;
  /**
   * When denials begin a ban, what was charged to the key is forgotten, as by `reset`: the quota is whole when the ban ends. Default
   * `false`: what is charged stays for its window, and after a shorter ban the key may still be denied.
   */
  fresh?: boolean;
  /** The dimension whose key is banned, as `'account'`. A request without a key of it is never banned. Default `'key'`. */
  by?: string;
}

/** Who makes or ends a ban by hand, and why: a store on Redis keeps it for `headgate list` and `headgate bans log`. */
export interface BanNoteOptions {
  /** Who: 1 to 100 characters that are not all blank. */
  by?: string;
  /** Why: 1 to 500 characters that are not all blank. */
  reason?: string;
}

/** Who made or ended a ban, and why; `null`: it was not told. */
export interface BanNote {
  /** Who. */
  readonly by: string | null;
  /** Why. */
  readonly reason: string | null;
}

/** The dimension whose key is banned. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function banDimension(ban: BanOptions | undefined): string {
  return ban?.by === undefined ? DEFAULT_DIMENSION : checkDimension('ban.by', ban.by);
}

const DAY = 24 * 60 * 60 * 1000;

/** @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION` */
export function compileBan(ban: BanOptions | undefined): CompiledBan | undefined {
  if (ban === undefined) return undefined;
  checkShape('ban', ban, ['after', 'within', 'for', 'factor', 'max', 'fresh', 'by']);
  checkBoolean('ban.fresh', ban.fresh, false);
  const { within = '10m', for: span = '1h', factor = 2 } = ban;
  const after = ban.after === undefined ? 0 : checkInteger('ban.after', ban.after, 1, 1e6);
  const first = toMilliseconds('ban.for', span);
  const max = toMilliseconds('ban.max', ban.max === undefined ? Math.max(first, DAY) : ban.max);
  if (typeof factor !== 'number' || !(factor >= 1 && factor <= 100)) {
    throw invalidOption('ban.factor', factor, 'Write a number from 1 to 100.');
  }
  if (max < first) throw invalidOption('ban.max', ban.max, 'Write a duration of at least `for`.');
  return Object.freeze({
    after,
    within: toMilliseconds('ban.within', within),
    first,
    factor: Math.round(factor * 1000),
    max,
  });
}

/** How long the texts of a note may be, in characters. */
export const NOTE_LENGTHS = { by: 100, reason: 500 } as const;

/** @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION` */
export function checkNote(what: string, note: BanNoteOptions): BanNote {
  checkShape(what, note, ['by', 'reason']);
  const text = (field: keyof BanNoteOptions): string | null => {
    const value: unknown = note[field];
    if (value === undefined) return null;
    if (typeof value === 'string' && value.trim() !== '' && value.length <= NOTE_LENGTHS[field]) return value;
    throw invalidOption(field, value, `Write 1 to ${NOTE_LENGTHS[field]} characters that are not all blank.`);
  };
  return { by: text('by'), reason: text('reason') };
}
