import { toMilliseconds, type Duration } from '../../common/duration.js';
import { invalidOption } from '../../common/errors.js';
import { checkInteger, checkShape } from '../../common/validate.js';

/** Leases for hot keys: a process takes a slice of a key's quota in one call, and decides from it. See docs/redis.md. */
export interface LeaseOptions {
  /**
   * The most units of a key that this process holds: 2 to 1,000,000, default 1000, and at most a tenth of the lowest limit that the key
   * is counted by.
   */
  size?: number;
  /** How long it may hold them before it gives back what is left: `'1ms'` to `'10s'`, default `'100ms'`. */
  hold?: Duration;
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION` */
export function checkLease(lease: LeaseOptions): { size: number; hold: number } {
  checkShape('redisStore.lease', lease, ['size', 'hold']);
  const { size = 1000, hold: given = '100ms' } = lease;
  const hold = toMilliseconds('redisStore.lease.hold', given);
  if (hold > 10_000) throw invalidOption('redisStore.lease.hold', given, "Write '1ms' to '10s'.");
  return { size: checkInteger('redisStore.lease.size', size, 2, 1e6), hold };
}
