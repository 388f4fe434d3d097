/** A clock with timers. Tests supply their own. */
export interface Timing {
  /** A time in milliseconds that never goes back. */
  now(): number;
  /**
   * Calls `run` once after `ms`, and returns a function that cancels the call. Under fake timers `now()` may be the real time, and disagree
   * with the timers.
   */
  after(ms: number, run: () => void): () => void;
}

/** Node's longest timer, ms. A timer with a longer delay fires immediately. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

export const realTiming: Timing = {
  now: () => performance.now(),
  after(ms, run) {
    let timer: NodeJS.Timeout;
    const set = (left: number): void => {
      const more = (): void => set(left - MAX_TIMER_MS);
      timer = setTimeout(left > MAX_TIMER_MS ? more : run, Math.min(Math.ceil(left), MAX_TIMER_MS));
    };
    set(ms);
    return () => clearTimeout(timer);
  },
};
