import { invalidOption } from '../common/errors.js';
import { optional } from '../common/options.js';

/** The row of the field `thresholds` of a policy. */
export const thresholdsField = () =>
  optional('1 to 10 fractions, 0.001 to 1, in steps of 0.001', checkThresholds);

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
