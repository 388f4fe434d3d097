import { toMilliseconds, type Duration } from '../../common/duration.js';
import { invalidOption } from '../../common/errors.js';
import { checkInteger, checkShape } from '../../common/validate.js';

/** Slices for hot keys: a process charges a slice of a key's quota in one call, and decides from it. See docs/redis.md. */
export interface LeaseOptions {
  /**
   * The most units of a key that this process takes in advance: 2 to 1,000,000, default 1000. It never takes more than a tenth of the
   * lowest limit that applies to the key.
   */
  size?: number;
  /** How long the process keeps them before it gives back the rest: `'1ms'` to `'10s'`, default `'100ms'`. */
  hold?: Duration;
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION` */
export function checkSliceOptions(lease: LeaseOptions): { size: number; keepFor: number } {
  checkShape('redisStore.lease', lease, ['size', 'hold']);
  const { size = 1000, hold: given = '100ms' } = lease;
  const keepFor = toMilliseconds('redisStore.lease.hold', given);
  if (keepFor > 10_000) throw invalidOption('redisStore.lease.hold', given, "Write '1ms' to '10s'.");
  return { size: checkInteger('redisStore.lease.size', size, 2, 1e6), keepFor };
}
