import { toMilliseconds, type Duration } from '../../../common/duration.js';
import { invalidOption } from '../../../common/errors.js';
import { checkInteger, checkShape } from '../../../common/validate.js';

/** The part of a hot key's quota that a process charges in advance. See docs/redis.md. */
export interface SliceOptions {
  /**
   * The most units of a key that this process has at a time: 2 to 1,000,000. A slice never exceeds a tenth of the lowest limit that applies
   * to the key, or an eighth of the remaining units.
   * @default 10000
   */
  size?: number;
  /** The time for which the process keeps units before it returns the rest: `'1ms'` to `'1s'`. @default '100ms' */
  hold?: Duration;
}

/** The checked options of slices. */
export interface Slicing {
  readonly size: number;
  /** ms */
  readonly hold: number;
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION` */
export function checkSlices(given: boolean | SliceOptions | undefined): Slicing | undefined {
  if (given === undefined || given === false) return undefined;
  const options = given === true ? {} : given;
  if (typeof options !== 'object') {
    throw invalidOption('redisStore.slices', given, "Pass true, or { size: 10_000, hold: '100ms' }.");
  }
  checkShape('redisStore.slices', options, ['size', 'hold']);
  const { size = 10_000, hold: held = '100ms' } = options;
  const hold = toMilliseconds('redisStore.slices.hold', held);
  if (hold > 1000) throw invalidOption('redisStore.slices.hold', held, "Pass '1ms' to '1s'.");
  return { size: checkInteger('redisStore.slices.size', size, 2, 1e6), hold };
}
