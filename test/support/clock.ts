// The clock for tests, with a common start.
import { TestClock as ManualClock } from 'headgate/testing';

export { limiterOn } from '../../packages/testing/src/subject.js';

/** The time at which the tests' clocks start. */
export const START = new ManualClock().now;

export class TestClock extends ManualClock {
  constructor() {
    super(START);
  }
}
