/**
 * A deadline that has passed by any store's clock. Nobody waits for the call; or the store's time is not known yet, and the refusal tells it.
 */
export const OVER = '1';

/**
 * Translates times of this process into the store's time, for deadlines. The clocks may differ, and may be set while the process runs. So
 * the store's clock is learned from the replies, each of which begins with the store's time.
 */
export class StoreTime {
  /** Bounds of the difference between the store's time and the monotonic time of this process, ms. */
  #least = 0;
  /** Whether there was a reply already. */
  known = false;
  #most = 0;
  /** The last time that was translated, with its text. V8 formats large numbers slowly, and many calls share a millisecond. */
  #said = 0;
  #text = '0';

  /**
   * Learns from a reply.
   *
   * @param now the store's time, ms
   * @param sent when the call was sent, and `received` when its reply was read, by `performance.now()`
   */
  learn(now: number, sent: number, received: number): void {
    const least = now - received;
    const most = now + 1 - sent;
    // A reply that contradicts the bounds shows that the store's clock was set.
    if (!this.known || least > this.#most || most < this.#least) {
      this.known = true;
      this.#least = least;
      this.#most = most;
      return;
    }
    // The fastest reply gives the narrowest bounds.
    this.#least = Math.max(this.#least, least);
    this.#most = Math.min(this.#most, most);
  }

  /**
   * How much longer than `timeout` to wait for a call, ms, because its deadline may be that much too early. It is 0 unless a busy process
   * read all replies late. The store would then refuse calls that are in time.
   */
  doubt(timeout: number): number {
    return this.known ? Math.max(0, this.#most - this.#least - timeout / 2) : 0;
  }

  /** Translates a time by `performance.now()` into the store's time, rounded down. It errs on the early side, so that no call runs late. */
  at(moment: number): string {
    if (!this.known) return OVER;
    const ms = Math.floor(moment + this.#least);
    if (ms !== this.#said) {
      this.#said = ms;
      this.#text = String(ms);
    }
    return this.#text;
  }
}
