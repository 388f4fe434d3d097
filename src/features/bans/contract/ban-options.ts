import { checkDimension, DEFAULT_DIMENSION } from '../../../contract/key.js';
import { toText, type Duration } from '../../../common/duration.js';
import { invalidOption } from '../../../common/errors.js';
import {
  boolean,
  checkOptionsOf,
  duration,
  integer,
  number,
  optional,
  type OptionTable,
} from '../../../common/options.js';
import type { ChangeNote, ChangeNoteOptions } from '../../../contract/change-note.js';

/** Integers for both stores, in the order in which `ban.lua` reads them. */
export interface CompiledBan {
  /** Denials that start a ban. With 0, denials never do. */
  readonly after: number;
  /** The time span in which denials are counted, ms. */
  readonly within: number;
  /** The length of the first ban, ms. */
  readonly first: number;
  /** The growth of each further ban, in thousandths, so that both stores multiply integers. */
  readonly factor: number;
  /** The length of the longest ban, ms. */
  readonly max: number;
}

/** Bans a key after repeated denials, each time longer. `{}` only allows bans by hand (`limiter.ban`). */
export interface BanOptions {
  /**
   * Denials that ban a key, 1 to 1,000,000. Only denials by policies of the banned key's dimension count (see `by`), and neither shadows nor
   * a tenant's share. If absent, denials never ban.
   */
  after?: number | undefined;
  /** The time span of these denials. @default '10m' */
  within?: Duration | undefined;
  /** The length of the first ban. @default '1h' */
  for?: Duration | undefined;
  /** The growth of each further ban, 1 to 100, with up to three decimals. @default 2 */
  factor?: number | undefined;
  /** The longest ban. Earlier bans are forgotten after the same time without a ban. @default '24h', or `for` if longer */
  max?: Duration | undefined;
  /**
   * Whether a ban by denials also forgets the key's charges. The whole quota is then available when the ban ends.
   * Otherwise charges stay for their window, and a key may still be denied after a shorter ban. @default false
   */
  fresh?: boolean | undefined;
  /**
   * The dimension of the banned key. Only denials by policies with the same `by` count, so with `after` there must be such
   * a policy. A request without such a key is never banned. @default 'key', by denials of policies without `by`
   */
  by?: string | undefined;
}

/** The options of `unban`. */
export interface UnbanOptions extends ChangeNoteOptions {
  /**
   * Whether to forget the key's charges, too, as `reset` does. Otherwise the charges stay, and a key that has spent its quota is denied
   * until the window ends. @default false
   */
  fresh?: boolean | undefined;
}

export const BAN_TABLE = {
  after: integer(1, 1e6),
  within: duration('10m', { usual: 'long' }),
  for: duration('1h', { usual: 'long' }),
  factor: number(1, 100, 2),
  max: duration(undefined, { usual: 'long' }),
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

export function banText({ after, within, first, factor, max }: CompiledBan): string {
  const often = after === 0 ? 'by hand' : `after ${after} denials within ${toText(within)}`;
  return `ban ${often} for ${toText(first)}, factor ${factor / 1000}, max ${toText(max)}`;
}

export interface BanRules<Set> {
  /** The ban options, or undefined if the limiter never bans. */
  readonly ban?: CompiledBan | undefined;
  /** Set if a ban by denials forgets charges of the banned key, in the step that begins the ban: those in these policies, which may grow in number. */
  readonly freshBans?: { readonly charges: Set } | undefined;
}

export interface BanReply {
  /**
   * 0 if the key is not banned. Above 0: the ms that the key is still banned for; nothing was charged. Below 0: the denial started a
   * ban of as many ms.
   */
  readonly ban: number;
}

/** The bans of a limiter as a store may show them to operators. */
export interface BanAnnouncement {
  /** The ban options, or undefined if the limiter never bans. */
  readonly ban: CompiledBan | undefined;
  /** The dimension whose key is banned. */
  readonly banBy: string;
}

/** The bans of a limiter as published for operators. */
export interface PublishedBans {
  /** `null` if the limiter never checks for bans. */
  readonly ban: CompiledBan | null;
  /** The dimension of bans. Absent for the default one. */
  readonly banBy?: string;
}

export function publishedBans({ ban, banBy }: BanAnnouncement): PublishedBans {
  return { ban: ban ?? null, ...(ban && banBy !== DEFAULT_DIMENSION && { banBy }) };
}

export interface BanStore<Subject> {
  /**
   * Bans a key for `duration` ms. 0 ends the ban and forgets earlier ones. A store may keep the note for operators. The administration passes
   * a duration below 0 to end only the ban: denials, and the growth of bans, stay.
   *
   * @param isLogged as in `reset`
   */
  ban(subject: Subject, duration: number, note?: ChangeNote, isLogged?: boolean): void | Promise<void>;
}
