import { Calendar, type Period } from '../calendar.js';
import {
  MOST_COUNTED,
  PairColumn,
  type AlgorithmDefinition,
  type QuotaPolicy,
  type Returned,
} from './algorithm.js';

/** At most `limit` units in each period of the calendar. Worst case in any time as long as a period: 2 x limit. */
export interface CalendarPolicy extends QuotaPolicy {
  algorithm: 'calendar';
  /** Hours, days, weeks, months or years, as the clocks and calendars of the time zone show them. */
  period: Period;
  /** An IANA time zone, such as `'Europe/Berlin'`. Default `'UTC'`. */
  timeZone?: string;
  /**
   * Where the period begins. A week: a weekday, default `'monday'`. A month: its day, 1 to 31, default 1. A year: a month and its day,
   * default `'01-01'`. Or a date of each, such as the start of a subscription: `'2026-01-31'`. A day that a month does not have is its
   * last one. Hours and days have none.
   */
  anchor?: number | string;
}

type CalendarParams = {
  readonly limit: number;
  /** The number of a calendar in this process. */
  readonly calendar: number;
};

/** The calendars of this process, by their numbers. There are no more than periods, anchors and time zones make together. */
const calendars: Calendar[] = [];
const numbers = new Map<string, number>();

function numberOf(calendar: Calendar): number {
  const known = numbers.get(calendar.id);
  if (known !== undefined) return known;
  numbers.set(calendar.id, calendars.length);
  return calendars.push(calendar) - 1;
}

function endAt(p: CalendarParams, now: number): number {
  return calendars[p.calendar]!.endAt(now);
}

/** A counter and the end of its period. A slot's pair: the end, and what is used. */
class CalendarColumn extends PairColumn<CalendarParams> {
  /** The end of the period that the state is of, 0 if it is over. */
  #read(slot: number, p: CalendarParams, now: number, writable: boolean): number {
    let stop = this.state[2 * slot]!;
    if (stop <= now) return 0;
    const end = endAt(p, now);
    if (stop > end) {
      stop = end;
      if (writable) this.state[2 * slot] = stop;
    }
    return stop;
  }

  look(slot: number, p: CalendarParams, cost: number, now: number, writable: boolean): void {
    const stop = this.#read(slot, p, now, writable);
    const used = stop === 0 ? 0 : this.state[2 * slot + 1]!;
    this.wait = cost === 0 || used + cost <= p.limit ? 0 : cost > p.limit ? -1 : stop - now;
    this.remaining = Math.max(0, p.limit - used);
    this.reset = stop === 0 ? 0 : stop - now;
  }

  commit(slot: number, p: CalendarParams, cost: number, now: number): void {
    if (this.reset === 0) {
      const stop = endAt(p, now);
      this.state[2 * slot + 1] = cost;
      this.state[2 * slot] = stop;
      this.reset = stop - now;
    } else {
      this.state[2 * slot + 1]! += cost;
    }
    this.remaining -= cost;
  }

  adjust(slot: number, p: CalendarParams, units: number, now: number, of: Returned | undefined): number {
    let stop = this.#read(slot, p, now, true);
    let used = stop === 0 ? 0 : this.state[2 * slot + 1]!;
    const charged = Math.max(0, Math.min(units, MOST_COUNTED - used));
    if (charged > 0) {
      if (stop === 0) stop = endAt(p, now);
      used += charged;
    } else if (stop !== 0 && (!of || of.mark === stop)) {
      used = Math.max(0, used + units);
    }
    if (stop !== 0) {
      if (used === 0) stop = 0;
      this.state[2 * slot + 1] = used;
      this.state[2 * slot] = stop;
    }
    this.wait = 0;
    this.remaining = Math.max(0, p.limit - used);
    this.reset = stop === 0 ? 0 : stop - now;
    return charged;
  }

  sibling(slots: number): CalendarColumn {
    return new CalendarColumn(slots);
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
      traits: {
        capacity: limit,
        drains: false,
        paceMs: undefined,
        slices: 'until-reset',
        unit: undefined,
        nextUnitMs: (_remaining, resetMs) => resetMs,
      },
    };
  },
  createColumn: (slots) => new CalendarColumn(slots),
};
