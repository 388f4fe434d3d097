import { exactMilliseconds, type Duration } from '../common/duration.js';
import { boolean, choice, custom, dependent, integer, optional } from '../common/options.js';
import { checkInteger, MAX_UNITS } from '../common/validate.js';
import { invalidOption } from '../common/errors.js';

export const PERIODS = ['hour', 'day', 'week', 'month', 'year'] as const;

/** The names of policies that are valid in a structured field (RFC 9651, section 3.3.3). */
export const NAME = /^[\x20-\x7e]{1,64}$/;
export const NAME_RANGE = '1 to 64 printable ASCII characters';

/** The rows of the fields of policies. The limits of sliding-log and concurrency are lower. */
export const FIELD_TABLE = {
  name: dependent(NAME_RANGE, 'default'),
  algorithm: dependent('the name of an algorithm', 'sliding-window'),
  limit: custom(`1 to ${MAX_UNITS}`, checkLimit),
  window: custom('duration', (option, window) => exactMilliseconds(option, window)),
  lease: custom('duration', (option, lease) => exactMilliseconds(option, lease)),
  burst: integer(1, MAX_UNITS),
  segments: integer(1, 100, 10),
  maxDelay: optional<Duration, number, number>(
    'duration, 0 to 366d',
    (option, delay) => exactMilliseconds(option, delay, { least: 0 }),
    0,
  ),
  period: dependent(PERIODS.map((period) => `\`'${period}'\``).join(', ')),
  timeZone: dependent('an IANA time zone', 'UTC'),
  anchor: dependent('the start of the period'),
  by: dependent('the name of a dimension', 'key'),
  share: dependent('the name of a dimension'),
  weight: integer(1, 1000, 1),
  count: choice(['admitted', 'attempts'], 'admitted'),
  unit: optional('1 to 64 letters, digits, `-`, `_` and `.`', checkUnit, 'requests'),
  shadow: boolean(false),
  thresholds: optional('1 to 10 fractions, 0.001 to 1, in steps of 0.001', checkThresholds),
};

/** The fix for a plan without a limit that is passed as a policy with a number. */
export const UNLIMITED_FIX = "For a plan without a limit, pass the text 'unlimited' in place of the policy.";

function checkLimit(option: string, limit: unknown): number {
  const hints = new Map<unknown, string>([
    ['function', "For a limit by request, adapters take `policies: (req) => '100/1m'`."],
    [Infinity, UNLIMITED_FIX],
    ['unlimited', UNLIMITED_FIX],
  ]);
  const hint = hints.get(typeof limit === 'function' ? 'function' : limit);
  if (hint === undefined) return checkInteger(option, limit, 1, MAX_UNITS);
  throw invalidOption(option, limit, `Pass a whole number from 1 to ${MAX_UNITS}. ${hint}`);
}

const MAX_THRESHOLDS = 10;

/** The thresholds in thousandths, in ascending order, so that stores compare whole numbers. */
function checkThresholds(option: string, given: unknown): readonly number[] {
  const levels = Array.isArray(given) ? given.map((each) => Math.round(Number(each) * 1000)) : [];
  const isValid = (level: number, i: number): boolean =>
    typeof (given as unknown[])[i] === 'number' &&
    Math.abs(level - (given as number[])[i]! * 1000) < 1e-6 &&
    level >= 1 &&
    level <= 1000;
  const different = [...new Set(levels)].sort((a, b) => a - b);
  if (different.length >= 1 && levels.length <= MAX_THRESHOLDS && levels.every(isValid)) return different;
  const fix = `Pass 1 to ${MAX_THRESHOLDS} fractions of the limit, from 0.001 to 1 in steps of 0.001: [0.8, 1].`;
  throw invalidOption(option, given, fix);
}

function checkUnit(option: string, unit: unknown): string {
  if (typeof unit === 'string' && /^[\w.-]{1,64}$/.test(unit)) return unit;
  throw invalidOption(option, unit, "Use 1 to 64 letters, digits, '-', '_' and '.': 'tokens'.");
}
