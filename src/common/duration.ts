import ms from 'ms';
import { invalidOption } from './errors.js';

/**
 * A length of time: whole milliseconds, or a number with a unit: `'500ms'`, `'10s'`, `'15m'`, `'1h'`, `'30d'`. Editors suggest the common ones.
 * Any string compiles, because a variable such as `{ limit: 5, window: '1m' }` has the type `string`; the limiter checks the text.
 */
export type Duration =
  number | `${1 | 10}s` | `${1 | 15}m` | '1h' | `${1 | 30}d` | (string & NonNullable<unknown>);

/** The longest window, lease, ban or delay that can be configured: 366 days, in milliseconds. */
export const MAX_DURATION_MS = 366 * 24 * 60 * 60 * 1000;

const TEXT = /^\d{1,12}(\.\d{1,6})?\s*[a-z]{1,12}$/i;

const UNITS = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
  [1000, 's'],
] as const;

/** A duration as exact text, in the largest unit that gives a whole number. */
export function toText(milliseconds: number): string {
  const [length, unit] = UNITS.find(([each]) => milliseconds % each === 0) ?? [1, 'ms'];
  return `${milliseconds / length}${unit}`;
}

/** Removes the error that floating point adds to a product: 1.1 hours are 3960000.0000000005 ms. */
function exactly(product: number): number {
  const whole = Math.round(product);
  return Math.abs(product - whole) <= 4 * Number.EPSILON * whole ? whole : product;
}

/**
 * Converts a duration to whole milliseconds.
 *
 * @param option the option's name, for the message
 * @param least the smallest value accepted, in milliseconds (default 1)
 * @param most the largest value accepted, in milliseconds (default 366 days)
 * @throws HeadgateError `HEADGATE_INVALID_OPTION` unless it is a whole number of milliseconds from `least` to `most`
 */
export function toMilliseconds(option: string, value: unknown, least = 1, most = MAX_DURATION_MS): number {
  const fix = `Pass whole milliseconds from ${least} to ${most}, or a number with a unit: '500ms', '10s', '15m', '1h', '30d'.`;
  let result: unknown = value;
  if (typeof value === 'string') result = TEXT.test(value) ? exactly(ms(value as ms.StringValue)) : NaN;
  if (typeof result !== 'number' || !Number.isSafeInteger(result) || result < least || result > most) {
    throw invalidOption(option, value, fix);
  }
  return result;
}
