import ms from 'ms';
import { invalidOption } from './errors.js';
import { warnHere, type Warn } from './warnings.js';

/**
 * A length of time: whole milliseconds, or a number with a unit: `'500ms'`, `'10s'`, `'15m'`, `'1h'`, `'30d'`. Editors suggest the common ones.
 * Any string compiles, because a variable such as `{ limit: 5, window: '1m' }` has the type `string`; the limiter checks the text.
 */
export type Duration =
  number | `${1 | 10}s` | `${1 | 15}m` | '1h' | `${1 | 30}d` | (string & NonNullable<unknown>);

/** The longest duration that can be configured: 366 days, in milliseconds. */
export const MAX_DURATION_MS = 366 * 24 * 60 * 60 * 1000;

const TEXT = /^\d{1,12}(\.\d{1,6})?\s*[a-z]{1,12}$/i;

const UNITS = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
  [1000, 's'],
] as const;

type Unit = (typeof UNITS)[number];

/** A duration as exact text, in the largest unit that gives a whole number. */
export function toText(milliseconds: number): string {
  const [length, unit] = UNITS.find(([each]) => milliseconds % each === 0) ?? [1, 'ms'];
  return `${milliseconds / length}${unit}`;
}

/** A duration for people: the two largest units, rounded up. */
export function shortText(ms: number): string {
  if (ms < 1000) return `${ms}ms`;
  const largest = UNITS.findIndex(([unit]) => ms >= unit);
  const [[length, unit], second] = UNITS.slice(largest) as [Unit, Unit?];
  const [step, lesser] = second ?? [length, unit];
  const rounded = Math.ceil(ms / step) * step;
  // Rounding up may give a whole larger unit.
  if (largest > 0 && rounded >= UNITS[largest - 1]![0]) return `1${UNITS[largest - 1]![1]}`;
  const rest = (rounded % length) / step;
  return `${Math.floor(rounded / length)}${unit}${rest > 0 ? ` ${rest}${lesser}` : ''}`;
}

/** Removes the error that floating point adds to a product: 1.1 hours are 3960000.0000000005 ms. */
function exactly(product: number): number {
  const whole = Math.round(product);
  return Math.abs(product - whole) <= 4 * Number.EPSILON * whole ? whole : product;
}

export interface Bounds {
  /** The smallest accepted value, ms. @default 1 */
  readonly least?: number;
  /** The largest accepted value, ms. @default 366 days */
  readonly most?: number;
  /** Whether usual values are below a second (`'brief'`), or at least a second (`'long'`). Numbers that look like seconds cause a warning. */
  readonly usual?: Usual;
}

type Usual = 'brief' | 'long' | undefined;

/**
 * Converts a duration to whole milliseconds. A number that looks like a count of seconds causes a warning.
 *
 * @param option the option's name, for the message
 * @throws HeadgateError `HEADGATE_INVALID_OPTION` unless it is a whole number of milliseconds from `least` to `most`
 */
export function toMilliseconds(option: string, value: unknown, bounds: Bounds = {}): number {
  const result = exactMilliseconds(option, value, bounds);
  warnOfSeconds(option, value, bounds.usual);
  return result;
}

/** Like `toMilliseconds`, without the warning: for numbers that a program computed, or that were checked before. */
export function exactMilliseconds(
  option: string,
  value: unknown,
  { least = 1, most = MAX_DURATION_MS }: Bounds = {},
): number {
  let result: unknown = value;
  if (typeof value === 'string')
    result = TEXT.test(value) && !isAmbiguous(value) ? exactly(ms(value as ms.StringValue)) : NaN;
  if (typeof result === 'number' && Number.isSafeInteger(result) && result >= least && result <= most)
    return result;
  const fix = isAmbiguous(value)
    ? "The unit M is ambiguous. A minute is '1m'; calendar months are policies such as 'calendar 10000/month'."
    : `Pass whole milliseconds from ${least} to ${most}, or a number with a unit: '500ms', '10s', '15m', '1h', '30d'.`;
  throw invalidOption(option, value, fix);
}

/** Whether the unit of a text is an upper-case M, by which some libraries mean months. */
export function isAmbiguous(value: unknown): boolean {
  return typeof value === 'string' && /^[\d.]+\s*M$/.test(value);
}

const HOUR_S = 3600;
const DAY_S = 86_400;

/** Usual counts of seconds that are not whole hours: minutes, and an hour and a half. */
const MINUTES_S = [60, 120, 180, 300, 600, 900, 1200, 1800, 2700, 5400];

/**
 * Whether a number of milliseconds is more likely a count of seconds. Whole seconds, such as 18,000, are plain milliseconds; so are
 * whole minutes that are also whole days in seconds.
 */
function looksLikeSeconds(value: number, usual: Usual): boolean {
  if (usual === 'long' && value > 0 && value < 1000) return true;
  const isHours = value % HOUR_S === 0 && value % 1000 !== 0;
  const isDays = value % DAY_S === 0 && value % 60_000 !== 0;
  return isHours || isDays || (usual !== 'brief' && MINUTES_S.includes(value));
}

/** Warns of a number that is more likely a count of seconds than of milliseconds. @param warn emits the warning */
export function warnOfSeconds(option: string, value: unknown, usual?: Usual, warn: Warn = warnHere): void {
  if (typeof value !== 'number' || !looksLikeSeconds(value, usual)) return;
  warn(
    'HEADGATE_LIKELY_SECONDS',
    `${option}: ${value} is ${value} milliseconds. If you mean seconds, pass '${toText(value * 1000)}', otherwise '${value}ms'.`,
    option,
  );
}
