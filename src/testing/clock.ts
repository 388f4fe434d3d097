import { toMilliseconds, type Duration } from '../common/duration.js';

const DAY = 24 * 3_600_000;

/**
 * Time in the hand: it stands still until the test lets it pass. Give `clock.read` to a store, as in
 * `memoryStore({ clock: clock.read })`.
 */
export class TestClock {
  /** Milliseconds since the epoch, whole. May be set, backwards too. */
  now: number;

  /**
   * @param start milliseconds since the epoch. Default: ten days ahead of real time. A server that expires keys by its own clock then
   * expires none before the test's time has come.
   */
  constructor(start = Date.now() + 10 * DAY) {
    this.now = start;
  }

  /** The time, as stores ask for it. Needs no `this`. */
  readonly read = (): number => this.now;

  /**
   * Lets time pass.
   *
   * @param duration ms or `'10s'`, up to 366 days; 0 is allowed
   * @throws HeadgateError `HEADGATE_INVALID_OPTION`
   */
  advance(duration: Duration): void {
    this.now += toMilliseconds('duration', duration, 0);
  }
}
