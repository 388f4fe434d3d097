// Time in the hand, for tests of any store.
import { createLimiter, type CreateLimiterOptions, type Store } from 'headgate';

/** Redis expires keys by real time: a test's time lies far enough ahead that nothing expires but by the test's clock. */
export const START = Date.now() + 10 * 24 * 3_600_000;

/** Time that passes when the test says so. */
export class TestClock {
  now = START;
  readonly read = (): number => this.now;
}

/** A limiter whose store's failures are the test's, however slow this machine is. */
export function limiterOn(store: Store, options: CreateLimiterOptions) {
  return createLimiter({ onStoreError: 'throw', timeout: '1m', ...options, store });
}
