import { Calendar, type Period } from './periods.js';
import type { AlgorithmDefinition, QuotaPolicy } from './algorithm.js';
import { oncePer } from '../common/lazy.js';
import { CounterColumn, counterTraits } from './counter.js';

/** At most `limit` units in each period of the calendar. Worst case in any time as long as a period: 2 x limit. */
export interface CalendarPolicy extends QuotaPolicy {
  /** Counts in periods of the calendar, for plans and budgets: the count begins anew at midnight, on Monday or on the first of the month. */
  algorithm: 'calendar';
  /** The calendar period. */
  period: Period;
  /** An IANA time zone, such as `'Europe/Berlin'`. @default 'UTC' */
  timeZone?: string | undefined;
  /**
   * The start of the period. Week: a weekday, default `'monday'`. Month: a day, 1 to 31, default 1. Year: month and day, default `'01-01'`.
   * Weeks, months and years also accept a date, such as the start of a subscription: `'2026-01-31'`. In a month without the day, the last
   * day is used. Hours and days have no anchor.
   */
  anchor?: number | string | undefined;
}

/** The limit; then the calendar's id, six bytes per integer, so that all processes read the same calendar. */
type CalendarParams = { readonly limit: number } & Readonly<Record<string, number>>;

const BYTES = 6;

function numbersOf(id: string): number[] {
  const bytes = Buffer.from(id);
  const numbers: number[] = [];
  for (let at = 0; at < bytes.length; at += BYTES)
    numbers.push(bytes.readUIntBE(at, Math.min(BYTES, bytes.length - at)));
  return numbers;
}

function idFrom(numbers: readonly number[]): string {
  const bytes = numbers.map((number) => {
    const six = Buffer.alloc(BYTES);
    six.writeUIntBE(number, 0, BYTES);
    return six.subarray(six.findIndex((byte) => byte !== 0));
  });
  return Buffer.concat(bytes).toString();
}

/** The calendars of this process. The combinations of period, anchor and time zone bound their number. */
const calendars = new Map<string, Calendar>();

function known(calendar: Calendar): Calendar {
  const other = calendars.get(calendar.id);
  if (!other) calendars.set(calendar.id, calendar);
  return other ?? calendar;
}

const calendarOf = oncePer((p: CalendarParams): Calendar => {
  const id = idFrom(Object.values(p).slice(1));
  return calendars.get(id) ?? known(Calendar.from(id));
});

class CalendarColumn extends CounterColumn<CalendarParams> {
  endAt(p: CalendarParams, now: number): number {
    return calendarOf(p).endAt(now);
  }

  sibling(rows: number): CalendarColumn {
    return new CalendarColumn(rows);
  }
}

export const calendar: AlgorithmDefinition<CalendarParams, CalendarPolicy> = {
  tag: 'd2',
  names: { calendar: ['period', 'timeZone', 'anchor'] },
  luaParams: { limit: 5, start: 6, stop: 6, next_stop: 6 },
  compile(what, given) {
    const calendar = known(new Calendar(what, given));
    const { id, lengths } = calendar;
    const { limit } = given;
    const letters = Object.fromEntries(numbersOf(id).map((number, i) => [`calendar${i}`, number]));
    return {
      params: { limit, ...letters },
      sent: (now) => [limit, ...calendar.periodsFrom(now)],
      window: lengths.usual,
      shape: id,
      life: lengths.most,
      traits: { ...counterTraits(limit), periodEnd: (now) => calendar.endAt(now) },
    };
  },
  createColumn: (rows) => new CalendarColumn(rows),
};
