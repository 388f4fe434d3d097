import { checkDimension, DEFAULT_DIMENSION } from './key.js';
import { toMilliseconds, type Duration } from '../common/duration.js';
import { invalidOption } from '../common/errors.js';
import type { CompiledBan } from '../algorithms/ban.js';
import { checkBoolean, checkInteger, checkShape } from '../common/validate.js';

/** Bans a key after repeated denials; each further ban is longer. `{}` only permits bans by hand (`limiter.ban`). */
export interface BanOptions {
  /** How many denials ban a key: 1 to 1,000,000. Absent: denials never ban. */
  after?: number;
  /** The time span in which these denials must happen. Default `'10m'`. */
  within?: Duration;
  /** How long the first ban lasts. Default `'1h'`. */
  for?: Duration;
  /** How many times as long each further ban is: 1 to 100, three decimals. Default 2. */
  factor?: number;
  /**
   * The longest that a ban gets. Default `'24h'`, or `for` if that is longer. Earlier bans are forgotten after the same time without one.
   */
  max?: Duration;
  /**
   * Whether a ban by denials also forgets what was charged to the key, as `reset` does. The quota is then whole when the ban ends. Default
   * `false`: charges stay for their window, so a key may still be denied after a shorter ban.
   */
  fresh?: boolean;
  /** The dimension whose key is banned, such as `'account'`. A request without a key of this dimension is never banned. Default `'key'`. */
  by?: string;
}

/** Who makes or ends a ban by hand, and why. A store on Redis keeps this for `headgate list` and `headgate bans log`. */
export interface BanNoteOptions {
  /** Who: 1 to 100 characters, not all blank. */
  by?: string;
  /** Why: 1 to 500 characters, not all blank. */
  reason?: string;
}

/** Who made or ended a ban, and why. `null`: not given. */
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

/** The longest texts of a note, in characters. */
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
