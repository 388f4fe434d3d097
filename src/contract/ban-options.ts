import { checkDimension, DEFAULT_DIMENSION } from './key.js';
import type { Duration } from '../common/duration.js';
import { invalidOption } from '../common/errors.js';
import {
  boolean,
  checkOptionsOf,
  duration,
  integer,
  number,
  optional,
  type OptionTable,
} from '../common/options.js';
import type { CompiledBan } from '../algorithms/ban.js';
import { checkShape } from '../common/validate.js';

/** Bans a key after repeated denials, each time longer. `{}` only allows bans by hand (`limiter.ban`). */
export interface BanOptions {
  /** Denials that ban a key, 1 to 1,000,000. If absent, denials never ban. */
  after?: number;
  /** The time span in which these denials must occur. @default '10m' */
  within?: Duration;
  /** The length of the first ban. @default '1h' */
  for?: Duration;
  /** The growth of each further ban, 1 to 100, with up to three decimals. @default 2 */
  factor?: number;
  /** The longest ban. Earlier bans are forgotten after the same time without a ban. @default '24h', or `for` if longer */
  max?: Duration;
  /**
   * Whether a ban by denials also forgets the key's charges, as `reset` does. The whole quota is then available when the ban ends.
   * Otherwise charges stay for their window, and a key may still be denied after a shorter ban. @default false
   */
  fresh?: boolean;
  /** The dimension of the banned key, such as `'account'`. A request without such a key is never banned. @default 'key' */
  by?: string;
}

/** The operator of a ban by hand, or of its end, and the reason. A store on Redis keeps both for `headgate list` and `headgate bans log`. */
export interface BanNoteOptions {
  /** The operator: 1 to 100 characters, not all blank. */
  by?: string;
  /** The reason: 1 to 500 characters, not all blank. */
  reason?: string;
}

/** The operator and the reason of a ban or of its end, each `null` if not given. */
export interface BanNote {
  /** The operator. */
  readonly by: string | null;
  /** The reason. */
  readonly reason: string | null;
}

/** The note of a change without an operator and a reason. */
export const NO_NOTE: BanNote = { by: null, reason: null };

/** The rows of `BanOptions`. */
export const BAN_TABLE = {
  after: integer(1, 1e6),
  within: duration('10m'),
  for: duration('1h'),
  factor: number(1, 100, 2),
  max: duration(),
  fresh: boolean(false),
  by: optional('the name of a dimension', checkDimension, DEFAULT_DIMENSION),
} satisfies OptionTable<BanOptions>;

/** The longest ban, ms, unless the first ban is longer. */
const DEFAULT_MAX_BAN_MS = 24 * 60 * 60 * 1000;

/** The dimension of the banned key. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function banDimension(ban: BanOptions | undefined): string {
  return BAN_TABLE.by.read('ban.by', ban?.by);
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION` */
export function compileBan(ban: BanOptions | undefined): CompiledBan | undefined {
  if (ban === undefined) return undefined;
  const { after = 0, within, for: first, factor, ...given } = checkOptionsOf('ban', BAN_TABLE, ban);
  const { max = Math.max(first, DEFAULT_MAX_BAN_MS) } = given;
  if (max < first) throw invalidOption('ban.max', ban.max, 'Pass a duration of at least `for`.');
  return Object.freeze({ after, within, first, factor: Math.round(factor * 1000), max });
}

/** The most characters of each text of a note. */
export const NOTE_LENGTHS = { by: 100, reason: 500 } as const;

/** Checks an operator and a reason. @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION` */
export function checkNote(what: string, note: BanNoteOptions): BanNote {
  checkShape(what, note, ['by', 'reason']);
  const text = (field: keyof BanNoteOptions): string | null => {
    const value: unknown = note[field];
    if (value === undefined) return null;
    if (typeof value === 'string' && value.trim() !== '' && value.length <= NOTE_LENGTHS[field]) return value;
    throw invalidOption(field, value, `Pass 1 to ${NOTE_LENGTHS[field]} characters that are not all blank.`);
  };
  return { by: text('by'), reason: text('reason') };
}
