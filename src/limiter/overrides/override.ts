import { exactMilliseconds, type Duration } from '../../common/duration.js';
import { invalidOption } from '../../common/errors.js';
import type { ChangeNoteOptions } from '../../contract/change-note.js';
import type { PolicyChange } from '../../features/overrides/contract/change-policy.js';
import {
  parseEntryNote,
  UNENDED_RECORD_MS,
  type OverrideEntry,
} from '../../features/overrides/contract/records.js';

/**
 * The limits of an override: for a limiter with one policy, a policy as text (`'1000/1m'`) or some of its fields (`{ limit: 1000 }`); for
 * several policies, changes by name (`{ minute: '1000/1m', day: false }`, where `false` leaves a policy out); or another tier (`{ tier:
 * 'pro' }`).
 */
export type OverrideChange =
  | string
  | PolicyChange
  | {
      /** The name of one of the limiter's `tiers`. */
      readonly tier: string;
    }
  | { readonly [policy: string]: string | PolicyChange | false };

/** The duration of an override, the operator, and the reason. */
export interface OverrideNote extends ChangeNoteOptions {
  /** The duration: ms or `'1d'`, up to 366 days. By default the override lasts until it is removed. */
  for?: Duration | undefined;
  /**
   * The end, instead: a `Date`, ms since 1970, or an ISO 8601 text, within a hundred years. The store's
   * clock measures the time that is left, so the override may end some milliseconds later over a network.
   */
  until?: Date | number | string | undefined;
}

/** The current override of a key. */
export interface Override {
  /** The change as the operator passed it. */
  readonly change: OverrideChange;
  /** The start, by the store's clock. */
  readonly since: Date;
  /** The end, or `undefined` if the override lasts until it is removed. */
  readonly until: Date | undefined;
  /** The operator. */
  readonly by: string | undefined;
  /** The reason. */
  readonly reason: string | undefined;
}

/** The override of an entry. @returns undefined if a limiter did not write the entry */
export function overrideOf({ since, until, json }: OverrideEntry): Override | undefined {
  const note = parseEntryNote(json);
  if (!note) return undefined;
  const { change, by, reason } = note;
  const end = until === Infinity ? undefined : new Date(until);
  return { change: change as OverrideChange, since: new Date(since), until: end, by, reason };
}

/**
 * The duration of an override, ms, or 0 if the override lasts until removed.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`
 */
export function durationOf({ for: span, until }: OverrideNote): number {
  if (span !== undefined && until !== undefined)
    throw invalidOption('for, until', { for: span, until }, 'Pass one of them.');
  if (span !== undefined) return exactMilliseconds('for', span);
  if (until === undefined) return 0;
  const left = new Date(until).getTime() - Date.now();
  if (left >= 1 && left <= UNENDED_RECORD_MS && isOnCalendar(until)) return Math.ceil(left);
  throw invalidOption(
    'until',
    until,
    'Pass a time in the future, within a hundred years: a Date, ms since 1970, or an ISO 8601 text.',
  );
}

/** Whether the day in a text exists. `Date` interprets 30 February as 2 March. */
function isOnCalendar(until: Date | number | string): boolean {
  const [day] = (typeof until === 'string' && /^\d{4}-\d\d-\d\d/.exec(until)) || [];
  return day === undefined || new Date(`${day}T00:00:00Z`).toISOString().startsWith(day);
}
