/** The delay of an answer is compared with the least delay of the last 2 to 4 seconds: of this time, ms, and the same time before. */
const COMPARED_MS = 2000;
/** A longer delay, ms, means that the store's clock was set. */
const MAX_DELAY_MS = 250;

/**
 * Translates the store's time into this process' time. A busy process reads an answer late, but the delay of a turn counts from the store's
 * decision, and not from the time of reading.
 */
export class TurnClock {
  /** The least difference of the two clocks that answers have shown lately, and in the time before. */
  #least = Infinity;
  #before = Infinity;
  #since = -Infinity;

  /**
   * @param storeMs the store's time of a decision
   * @param now the time at which the process reads the answer, by `performance.now()`
   * @returns the time of the decision by `performance.now()`
   */
  decidedAt(storeMs: number, now: number): number {
    if (now - this.#since > COMPARED_MS) {
      this.#before = this.#least;
      this.#least = Infinity;
      this.#since = now;
    }
    const difference = now - storeMs;
    const least = Math.min(difference, this.#least, this.#before);
    if (difference - least > MAX_DELAY_MS) {
      this.#least = this.#before = difference;
      return now;
    }
    this.#least = Math.min(this.#least, difference);
    return storeMs + least;
  }
}
