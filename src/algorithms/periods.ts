import { FIELD_TABLE, PERIODS } from './fields.js';
import { invalidOption } from '../common/errors.js';
import { checkChoice } from '../common/validate.js';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

export type Period = (typeof PERIODS)[number];

const WEEKDAYS = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'];

/**
 * The usual and the longest length of each period, ms. A change of a zone's offset makes a period longer; moving across the date line adds
 * a day.
 */
const LENGTHS: Readonly<Record<Period, { readonly usual: number; readonly most: number }>> = {
  hour: { usual: HOUR, most: 3 * HOUR },
  day: { usual: DAY, most: 2 * DAY + HOUR },
  week: { usual: 7 * DAY, most: 8 * DAY + HOUR },
  month: { usual: 31 * DAY, most: 32 * DAY + HOUR },
  year: { usual: 366 * DAY, most: 367 * DAY + HOUR },
};

/** The boundaries of a calendar's periods in a time zone, computed by Intl with the time zone data of this process. */
export class Calendar {
  /** Identifies the calendar: its period, zone and anchor. */
  readonly id: string;
  /** The length of a period, ms: usually, and at most. */
  readonly lengths: { readonly usual: number; readonly most: number };
  readonly #period: Period;
  readonly #anchor: string;
  readonly #format: Intl.DateTimeFormat;
  #periods: readonly number[] = [];

  /**
   * @param what the policy's place in the options, for messages
   * @throws HeadgateError `HEADGATE_INVALID_OPTION`
   */
  constructor(what: string, given: Readonly<Record<string, unknown>>) {
    const { period, timeZone = FIELD_TABLE.timeZone.default, anchor } = given;
    this.#period = checkChoice(`${what}.period`, period as Period, PERIODS);
    this.#anchor = readAnchor(`${what}.anchor`, this.#period, anchor);
    this.#format = formatOf(`${what}.timeZone`, timeZone);
    this.lengths = LENGTHS[this.#period];
    const zone = String(timeZone).toLowerCase().replaceAll(':', '.');
    this.id = `${this.#period}/${this.#anchor}/${zone}`;
  }

  static from(id: string): Calendar {
    const [period, anchor, ...zone] = id.split('/');
    const timeZone = zone.join('/').replaceAll('.', ':');
    return new Calendar('policy', { period, timeZone, ...(anchor !== '0' && { anchor }) });
  }

  /** The end of the period that contains a moment, ms since the epoch. */
  endAt(now: number): number {
    return this.periodsFrom(now)[1]!;
  }

  /** The start and the end of the current period at a moment, and the end of the next period. */
  periodsFrom(now: number): readonly number[] {
    const known = this.#periods;
    if (now >= known[0]! && now < known[1]!) return known;
    let start = this.#next(now - 2 * this.lengths.most);
    let end = this.#next(start);
    while (end <= now) [start, end] = [end, this.#next(end)];
    return (this.#periods = [start, end, this.#next(end)]);
  }

  /** The first period boundary after a moment. */
  #next(after: number): number {
    if (this.#period === 'hour') return this.#nextHour(after);
    for (let index = this.#indexOf(after + this.#offset(after)) - 1; ; index++) {
      const start = this.#firstAt(this.#startOf(index));
      if (start > after) return start;
    }
  }

  /** The next full hour on the clock. If the offset changes by half an hour, that hour has 90 minutes. */
  #nextHour(after: number): number {
    const before = this.#offset(after);
    const usual = nextMultiple(after + before + 1) - before;
    const change = this.#changeWithin(after, usual);
    if (change === undefined) return usual;
    const offset = this.#offset(change);
    return (offset - before) % HOUR === 0 ? usual : nextMultiple(change + offset) - offset;
  }

  /** The number of the current or next period at a local time. */
  #indexOf(local: number): number {
    const date = new Date(local);
    if (this.#period === 'year') return date.getUTCFullYear();
    if (this.#period === 'month') return 12 * date.getUTCFullYear() + date.getUTCMonth();
    const day = Math.floor(local / DAY);
    return this.#period === 'day' ? day : Math.floor((day - this.#phase) / 7);
  }

  /** The local time at which a period begins. */
  #startOf(index: number): number {
    if (this.#period === 'day') return index * DAY;
    if (this.#period === 'week') return (7 * index + this.#phase) * DAY;
    if (this.#period === 'month') return dateOf(Math.floor(index / 12), index % 12, Number(this.#anchor));
    const [month, day] = this.#anchor.split('-').map(Number) as [number, number];
    return dateOf(index, month - 1, day);
  }

  /** The day of 1970 on which the first week begins. The first of January was a Thursday. */
  get #phase(): number {
    return (WEEKDAYS.indexOf(this.#anchor) - 4 + 7) % 7;
  }

  /** The first moment with this local time, or the moment of the skip if the clock skips the time. */
  #firstAt(local: number): number {
    const [from, to] = [local - 15 * HOUR, local + 13 * HOUR];
    const usual = local - this.#offset(from);
    const change = this.#changeWithin(from, to);
    if (change === undefined || usual < change) return usual;
    return Math.max(change, local - this.#offset(to));
  }

  /** The moment between two moments at which the zone's offset changes. So short a time has one change at most. */
  #changeWithin(from: number, to: number): number | undefined {
    const before = this.#offset(from);
    if (this.#offset(to) === before) return undefined;
    let [early, late] = [from, to];
    while (late - early > 1) {
      const middle = Math.floor((early + late) / 2);
      if (this.#offset(middle) === before) early = middle;
      else late = middle;
    }
    return late;
  }

  /** The zone's offset from UTC at a moment, ms. */
  #offset(at: number): number {
    const shown: Record<string, number> = {};
    for (const { type, value } of this.#format.formatToParts(at)) shown[type] = Number(value);
    const { year, month, day, hour, minute, second } = shown;
    return Date.UTC(year!, month! - 1, day, hour, minute, second) - Math.floor(at / 1000) * 1000;
  }
}

/** The local time at which a date begins. A day beyond the month's end becomes the last day. */
function dateOf(year: number, month: number, day: number): number {
  const last = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return Date.UTC(year, month, Math.min(day, last));
}

function nextMultiple(time: number): number {
  return Math.ceil(time / HOUR) * HOUR;
}

/** Formatters by time zone, because creating a formatter is slow. The number of zones is the bound. */
const formats = new Map<string, Intl.DateTimeFormat>();

const FIELDS = {
  year: 'numeric',
  month: 'numeric',
  day: 'numeric',
  hour: 'numeric',
  minute: 'numeric',
  second: 'numeric',
} as const;

function formatOf(option: string, timeZone: unknown): Intl.DateTimeFormat {
  try {
    if (typeof timeZone !== 'string') throw new RangeError();
    const known = formats.get(timeZone.toLowerCase());
    if (known) return known;
    const made = new Intl.DateTimeFormat('en-US', {
      ...FIELDS,
      calendar: 'gregory',
      hourCycle: 'h23',
      timeZone,
    });
    formats.set(timeZone.toLowerCase(), made);
    return made;
  } catch {
    throw invalidOption(option, timeZone, "Use an IANA time zone: 'UTC', 'Europe/Berlin', 'Asia/Kathmandu'.");
  }
}

/** The canonical text of an anchor: a weekday, a day of the month, or a month and its day. */
function readAnchor(option: string, period: Period, anchor: unknown): string {
  const date = isoDate(anchor);
  if (period === 'week') {
    const weekday = date ? WEEKDAYS[date.getUTCDay()] : (anchor ?? 'monday');
    return checkChoice(
      option,
      typeof weekday === 'string' ? weekday.toLowerCase() : weekday,
      WEEKDAYS as never[],
    );
  }
  if (period === 'month') {
    const day = date ? date.getUTCDate() : Number(anchor ?? 1);
    if (Number.isInteger(day) && day >= 1 && day <= 31) return String(day);
    throw invalidOption(option, anchor, "Pass a day of the month, 1 to 31, or a date: '2026-01-31'.");
  }
  if (period === 'year') {
    const text = date ? (anchor as string).slice(5) : (anchor ?? '01-01');
    // A leap year has every date.
    if (typeof text === 'string' && isoDate(`2000-${text}`)) return text;
    throw invalidOption(option, anchor, "Pass a month and its day, '07-01', or a date: '2026-07-01'.");
  }
  if (anchor === undefined) return '0';
  throw invalidOption(option, anchor, `Omit it: a period of a ${period} has no anchor.`);
}

function isoDate(text: unknown): Date | undefined {
  if (typeof text !== 'string' || !/^\d{4}-\d\d-\d\d$/.test(text)) return undefined;
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text) ? date : undefined;
}

/** The canonical text of a valid policy's anchor. */
export function anchorText(period: Period, anchor: unknown): string {
  return readAnchor('anchor', period, anchor);
}
