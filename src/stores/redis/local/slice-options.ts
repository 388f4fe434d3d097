import { toMilliseconds, type Duration } from '../../../common/duration.js';
import { invalidOption } from '../../../common/errors.js';
import { checkInteger, checkShape } from '../../../common/validate.js';

/** How much of a hot key's quota a process charges ahead. See docs/redis.md. */
export interface SliceOptions {
  /**
   * The most units of a key that this process has at a time: 2 to 1,000,000, default 10,000. It is
   * never more than a tenth of the lowest limit that applies to the key, nor than an eighth of what
   * is left of it.
   */
  size?: number;
  /** How long the process keeps them before it gives back the rest: `'1ms'` to `'1s'`, default `'100ms'`. */
  hold?: Duration;
}

/** Slices as a store uses them. */
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
    throw invalidOption('redisStore.slices', given, "Write true, or { size: 10_000, hold: '100ms' }.");
  }
  checkShape('redisStore.slices', options, ['size', 'hold']);
  const { size = 10_000, hold: held = '100ms' } = options;
  const hold = toMilliseconds('redisStore.slices.hold', held);
  if (hold > 1000) throw invalidOption('redisStore.slices.hold', held, "Write '1ms' to '1s'.");
  return { size: checkInteger('redisStore.slices.size', size, 2, 1e6), hold };
}
