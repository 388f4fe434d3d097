// Moments that people read and type: in UTC, or with --local in the time zone of this machine.
import { usageError } from './errors.js';
import { duration } from './format.js';
import type { Io } from './io.js';

type Zone = Pick<Io, 'isLocal'>;

const DAY_MS = 86_400_000;

const two = (n: number): string => String(Math.abs(n)).padStart(2, '0');

/** The offset of this machine's time zone at a moment, such as `+01:00`. */
function offsetAt(moment: Date): string {
  const minutes = -moment.getTimezoneOffset();
  return `${minutes < 0 ? '-' : '+'}${two(Math.trunc(minutes / 60))}:${two(minutes % 60)}`;
}

/** A moment to the second without its zone, which the heading or the sentence contains. */
export function clock({ isLocal }: Zone, moment: Date | number | string): string {
  const time = new Date(moment);
  const shown = isLocal ? new Date(time.getTime() - time.getTimezoneOffset() * 60_000) : time;
  return shown.toISOString().slice(0, 19).replace('T', ' ');
}

/** The zone of a moment: `UTC`, or the offset such as `+01:00`. */
export const zoneOf = ({ isLocal }: Zone, moment: Date | number | string): string =>
  isLocal ? offsetAt(new Date(moment)) : 'UTC';

/** A moment with its zone: `2026-12-01 18:00:00 UTC`, or `2026-12-01 19:00:00 +01:00`. */
export const instant = (zone: Zone, moment: Date | number | string): string =>
  `${clock(zone, moment)} ${zoneOf(zone, moment)}`;

/** The time until a moment. */
export const left = (moment: Date): string => duration(Math.max(0, moment.getTime() - Date.now()));

/** The age of a moment. The clock of the store may be ahead. */
export const age = (moment: Date): string => duration(Math.max(0, Date.now() - moment.getTime()));

/** The title of a column of moments, with their zone. */
export const titled = ({ isLocal }: Zone, title: string): string =>
  `${title} (${isLocal ? Intl.DateTimeFormat().resolvedOptions().timeZone : 'UTC'})`;

/** A typed moment: a day, a time of day, or both; and the zone, if there is one. */
const TYPED =
  /^(?:(\d{4})-(\d\d)-(\d\d))?[T ]?(?:([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.\d+)?)?)?(z|[+-]\d\d:?\d\d)?$/i;

/** The hours and the minutes of a zone that is an offset. */
const OFFSET = /^[+-](\d\d):?(\d\d)$/;

interface Typed {
  readonly text: string;
  /** The day, or `undefined` for a time of day alone. */
  readonly day: readonly [year: number, month: number, day: number] | undefined;
  readonly time: readonly [hour: number, minute: number, second: number];
  readonly zone: string | undefined;
}

/** Parses a moment. @returns undefined if the text is not a moment */
export function typedMoment(text: string): Typed | undefined {
  const found = TYPED.exec(text.trim());
  if (!found || (found[1] === undefined && found[4] === undefined)) return undefined;
  const [year, month, day, hour = 0, minute = 0, second = 0] = found
    .slice(1, 7)
    .map((part) => (part === undefined ? undefined : Number(part)));
  const date = year === undefined ? undefined : ([year, month!, day!] as const);
  return { text, day: date, time: [hour, minute, second], zone: found[7]?.toUpperCase() };
}

/** The moments of a day and a time in the zone of this machine: none or two if the clocks change then. */
function localMoments(day: NonNullable<Typed['day']>, time: Typed['time']): Date[] {
  const [year, month, date] = day;
  const [hour, minute, second] = time;
  const guess = new Date(year, month - 1, date, hour, minute, second).getTime();
  const near = [-3_600_000, -1_800_000, 0, 1_800_000, 3_600_000].map((ms) => new Date(guess + ms));
  return near.filter(
    (each) => each.getDate() === date && each.getHours() === hour && each.getMinutes() === minute,
  );
}

/** The moment of a day and a time in a zone. @param zone undefined for this machine's @throws CliError `USAGE` if there is none, or two */
function momentOf(flag: string, { text, time }: Typed, day: NonNullable<Typed['day']>, zone?: string): Date {
  const [hour, minute, second] = time;
  const [year, month, date] = day;
  const utc = Date.UTC(year, month - 1, date, hour, minute, second);
  if (!isDay(day)) throw usageError(`${flag}: ${JSON.stringify(text)} is not a day of the calendar.`);
  if (zone !== undefined) return new Date(utc - offsetOf(zone));
  const [moment, other] = localMoments(day, time);
  const offsets = [moment, other].map((each) => each && `${text}${offsetAt(each)}`);
  if (!moment)
    throw usageError(`${flag}: the clocks of this zone skip ${text}. Add the zone, such as ${text}Z.`);
  if (other)
    throw usageError(
      `${flag}: the clocks of this zone show ${text} twice. Pass ${offsets[0]} or ${offsets[1]}.`,
    );
  return moment;
}

/** Whether the calendar has a day. `Date` turns others into later or earlier days, such as month 13 into January. */
function isDay([year, month, date]: NonNullable<Typed['day']>): boolean {
  const day = new Date(Date.UTC(year, month - 1, date));
  return day.getUTCFullYear() === year && day.getUTCMonth() === month - 1 && day.getUTCDate() === date;
}

/** @throws CliError `USAGE` for an offset that no zone has */
function checkZone(flag: string, { text, zone = 'Z' }: Typed): void {
  const [, hours = 0, minutes = 0] = OFFSET.exec(zone) ?? [];
  if (Number(minutes) > 59 || Number(hours) + Number(minutes) / 60 > 14)
    throw usageError(
      `${flag}: ${JSON.stringify(text)} has no valid zone. Pass Z, or an offset up to 14:00, such as +02:00.`,
    );
}

function offsetOf(zone: string): number {
  const [, hours = 0, minutes = 0] = OFFSET.exec(zone) ?? [];
  const offset = (Number(hours) * 60 + Number(minutes)) * 60_000;
  return zone.startsWith('-') ? -offset : offset;
}

/**
 * The moment of a typed text. A time of day alone is the last, or the next such time.
 *
 * @param zone the zone of a text without one, or `undefined` for this machine's
 * @throws CliError `USAGE`
 */
export function momentIn(
  flag: string,
  typed: Typed,
  { zone, isPast, now }: { zone: string | undefined; isPast: boolean; now: number },
): Date {
  checkZone(flag, typed);
  const own = typed.zone ?? zone;
  if (typed.day) return momentOf(flag, typed, typed.day, own);
  const on = (days: number): Date => momentOf(flag, typed, dayOf(now + days * DAY_MS, own), own);
  const today = on(0);
  if (isPast) return today.getTime() > now ? on(-1) : today;
  return today.getTime() <= now ? on(1) : today;
}

function dayOf(moment: number, zone: string | undefined): NonNullable<Typed['day']> {
  if (zone === undefined) {
    const local = new Date(moment);
    return [local.getFullYear(), local.getMonth() + 1, local.getDate()];
  }
  const shifted = new Date(moment + offsetOf(zone));
  return [shifted.getUTCFullYear(), shifted.getUTCMonth() + 1, shifted.getUTCDate()];
}

/**
 * The end of a change. Without a zone, the text is refused on a machine outside UTC, unless --local is set.
 *
 * @returns the text itself if it is not a moment, so that the library refuses it
 * @throws CliError `USAGE`
 */
export function endOf(text: string, { isLocal }: Zone, now = Date.now()): Date | string {
  const typed = typedMoment(text);
  if (!typed) return text;
  const at = (zone: string | undefined): Date => {
    const moment = momentIn('--until', typed, { zone, isPast: false, now });
    if (moment.getTime() > now) return moment;
    const shown = `${JSON.stringify(text)} is ${instant({ isLocal: isLocal && zone === undefined }, moment)}, which is over`;
    throw usageError(`--until: ${shown}. Pass a time in the future, such as 2030-01-31T12:00Z.`);
  };
  if (typed.zone !== undefined || isLocal) return at(undefined);
  const utc = at('Z');
  const local = at(undefined);
  if (utc.getTime() === local.getTime()) return utc;
  const shown = (moment: Date, isOfMachine: boolean): string => instant({ isLocal: isOfMachine }, moment);
  throw usageError(
    `--until: ${JSON.stringify(text)} has no zone. Pass ${text}Z for ${shown(utc, false)}, or add --local for ${shown(local, true)}, in the zone of this machine.`,
  );
}
