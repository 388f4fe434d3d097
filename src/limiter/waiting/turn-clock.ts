/** The delay of an answer is compared with the least one of so long a time, ms, or of up to twice as long. */
const COMPARED = 2000;
/** A longer delay, ms, means that the store's clock was set. */
const MOST_DELAY = 250;

/**
 * Translates the store's time into this process' time. A busy process reads an answer late. Its turns come as long after the store's
 * decision as the store said, and not after the process read it.
 */
export class TurnClock {
  /** The least difference of the two clocks that answers have shown lately, and in the time before. */
  #least = Infinity;
  #before = Infinity;
  #since = -Infinity;

  /**
   * @param storeMs the store's time of a decision
   * @param now the time at which the process reads it, by `performance.now()`
   * @returns the time of the decision by `performance.now()`
   */
  decidedAt(storeMs: number, now: number): number {
    if (now - this.#since > COMPARED) {
      this.#before = this.#least;
      this.#least = Infinity;
      this.#since = now;
    }
    const difference = now - storeMs;
    const least = Math.min(difference, this.#least, this.#before);
    if (difference - least > MOST_DELAY) {
      this.#least = this.#before = difference;
      return now;
    }
    this.#least = Math.min(this.#least, difference);
    return storeMs + least;
  }
}
