import { exactMilliseconds, type Duration } from '../common/duration.js';
import { boolean, choice, custom, dependent, integer, optional } from '../common/options.js';
import { checkInteger, MAX_UNITS } from '../common/validate.js';
import { invalidOption } from '../common/errors.js';
import { thresholdsField } from './threshold-levels.js';

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
  thresholds: thresholdsField(),
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

function checkUnit(option: string, unit: unknown): string {
  if (typeof unit === 'string' && /^[\w.-]{1,64}$/.test(unit)) return unit;
  throw invalidOption(option, unit, "Use 1 to 64 letters, digits, '-', '_' and '.': 'tokens'.");
}
