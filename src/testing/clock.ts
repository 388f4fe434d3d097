import { exactMilliseconds, type Duration } from '../common/duration.js';

const DAY = 24 * 3_600_000;

/** A clock for tests, which does not move until the test advances it. Pass `clock.read` to a store: `memoryStore({ clock: clock.read })`. */
export class TestClock {
  /** Whole milliseconds since the epoch. May be set, even backwards. */
  now: number;

  /**
   * @param start milliseconds since the epoch. By default ten days ahead of real time, so that a server that expires keys by its own clock does
   * not expire any too early. A store on Redis refuses a clock in the past
   */
  constructor(start = Date.now() + 10 * DAY) {
    this.now = start;
  }

  /** The current time, in the form that stores call. It can be called without `this`. */
  readonly read = (): number => this.now;

  /**
   * Advances the clock.
   *
   * @param duration ms or `'10s'`, up to 366 days; 0 is allowed
   * @throws HeadgateError `HEADGATE_INVALID_OPTION`
   */
  advance(duration: Duration): void {
    this.now += exactMilliseconds('duration', duration, { least: 0 });
  }
}
