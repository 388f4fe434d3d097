import { Calendar, type Period } from './periods.js';
import type { AlgorithmDefinition, QuotaPolicy } from './algorithm.js';
import { CounterColumn, counterTraits } from './counter.js';

/** At most `limit` units in each period of the calendar. Worst case in any time as long as a period: 2 x limit. */
export interface CalendarPolicy extends QuotaPolicy {
  /** How it counts. */
  algorithm: 'calendar';
  /** Hours, days, weeks, months or years on the calendar of the time zone. */
  period: Period;
  /** An IANA time zone, such as `'Europe/Berlin'`. Default `'UTC'`. */
  timeZone?: string;
  /**
   * Where the period begins. For a week: a weekday, default `'monday'`. For a month: its day, 1 to 31, default 1. For a year: month and
   * day, default `'01-01'`. All three also take a date, such as the start of a subscription: `'2026-01-31'`. If a month has no such day,
   * its last day is used. Hours and days have no anchor.
   */
  anchor?: number | string;
}

type CalendarParams = {
  readonly limit: number;
  /** The calendar's index in `calendars`. */
  readonly calendar: number;
};

/** All calendars that this process uses. Their number is bounded by the combinations of period, anchor and time zone. */
const calendars: Calendar[] = [];
const numbers = new Map<string, number>();

function numberOf(calendar: Calendar): number {
  const known = numbers.get(calendar.id);
  if (known !== undefined) return known;
  numbers.set(calendar.id, calendars.length);
  return calendars.push(calendar) - 1;
}

class CalendarColumn extends CounterColumn<CalendarParams> {
  endAt(p: CalendarParams, now: number): number {
    return calendars[p.calendar]!.endAt(now);
  }

  sibling(rows: number): CalendarColumn {
    return new CalendarColumn(rows);
  }
}

export const calendar: AlgorithmDefinition<CalendarParams, CalendarPolicy> = {
  tag: 'd1',
  names: { calendar: ['period', 'timeZone', 'anchor'] },
  holdsSlots: false,
  compile(what, given) {
    const number = numberOf(new Calendar(what, given));
    const { id, lengths } = calendars[number]!;
    const { limit } = given;
    return {
      params: { limit, calendar: number },
      sent: (now) => [limit, ...calendars[number]!.around(now)],
      window: lengths.usual,
      shape: id,
      life: lengths.most,
      traits: counterTraits(limit),
    };
  },
  createColumn: (rows) => new CalendarColumn(rows),
};
