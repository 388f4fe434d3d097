// The kit's clock, with the same start for all tests.
import { TestClock as KitClock } from '../../src/testing/clock.js';

export { limiterOn } from '../../src/testing/subject.js';

/** The time at which the tests' clocks start. */
export const START = new KitClock().now;

export class TestClock extends KitClock {
  constructor() {
    super(START);
  }
}
