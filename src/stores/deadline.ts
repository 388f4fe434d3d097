/** A deadline that is over, in any store's time. */
export const OVER = '1';

/**
 * Says moments of this process in the store's time, for deadlines. What it knows of the store's clock it has from replies,
 * each of which begins with the store's time: clocks may differ, and may be set while the process runs.
 */
export class StoreTime {
  /** The store's time less this process' monotonic time, ms, is at least and at most this. */
  #least: number | undefined;
  #most = 0;
  /** What was said last, and as text: V8 is slow at writing large numbers, and many calls are of one millisecond. */
  #said = 0;
  #text = '0';

  /** Whether there was a reply. */
  get known(): boolean {
    return this.#least !== undefined;
  }

  /**
   * Learns from a reply.
   *
   * @param now the store's time, ms
   * @param sent when the call was sent, and `received` when its reply was read, by `performance.now()`
   */
  learn(now: number, sent: number, received: number): void {
    const least = now - received;
    const most = now + 1 - sent;
    // A reply that contradicts what is known shows that the store's clock was set.
    if (this.#least === undefined || least > this.#most || most < this.#least) {
      this.#least = least;
      this.#most = most;
      return;
    }
    // The fastest reply tells most.
    this.#least = Math.max(this.#least, least);
    this.#most = Math.min(this.#most, most);
  }

  /**
   * How much longer than `timeout` a call is to be waited for, ms, as its deadline may be that much too early. Nothing unless all that
   * is known comes from replies which a busy process read late: then the store would refuse calls that are in time.
   */
  doubt(timeout: number): number {
    return this.#least === undefined ? 0 : Math.max(0, this.#most - this.#least - timeout / 2);
  }

  /** A moment by `performance.now()` in the store's time, rounded down. It errs early, so that no call is run late. */
  at(moment: number): string {
    if (this.#least === undefined) return OVER;
    const ms = Math.floor(moment + this.#least);
    if (ms !== this.#said) {
      this.#said = ms;
      this.#text = String(ms);
    }
    return this.#text;
  }
}
