/**
 * Says moments of this process in the store's time, for deadlines. What it knows of the store's clock it has from replies,
 * each of which begins with the store's time: clocks may differ, and may be set while the process runs.
 */
export class StoreTime {
  /** The store's time less this process' monotonic time, ms, at least. It errs early, so that no call is run late. */
  #offset: number | undefined;
  /** What was said last, and as text: V8 is slow at writing large numbers, and many calls are of one millisecond. */
  #said = 0;
  #text = '0';

  /**
   * Learns from a reply.
   *
   * @param now the store's time, ms
   * @param sent when the call was sent, and `received` when its reply came, by `performance.now()`
   */
  learn(now: number, sent: number, received: number): void {
    const least = now - received;
    // The fastest reply tells most. One that contradicts what is known shows that the store's clock was set back.
    if (this.#offset === undefined || least > this.#offset || now + 1 - sent < this.#offset)
      this.#offset = least;
  }

  /**
   * A moment by `performance.now()` in the store's time, rounded down. As long as nothing is known it is 1, long past: the
   * store answers that the call is late, and what time it is.
   */
  at(moment: number): string {
    const ms = this.#offset === undefined ? 1 : Math.floor(moment + this.#offset);
    if (ms !== this.#said) {
      this.#said = ms;
      this.#text = String(ms);
    }
    return this.#text;
  }
}
