/** A clock with timers. Tests supply their own. */
export interface Timing {
  /** A time in milliseconds that never goes back. */
  now(): number;
  /**
   * Calls `run` once after `ms`. Returns a function that cancels it. Where timers are fakes, `now()`
   * may be the real time, and tell another.
   */
  after(ms: number, run: () => void): () => void;
}

/** Node fires timers with a longer delay immediately. */
const LONGEST_TIMER = 2 ** 31 - 1;

export const realTiming: Timing = {
  now: () => performance.now(),
  after(ms, run) {
    let timer: NodeJS.Timeout;
    const set = (left: number): void => {
      const more = (): void => set(left - LONGEST_TIMER);
      timer = setTimeout(left > LONGEST_TIMER ? more : run, Math.min(Math.ceil(left), LONGEST_TIMER));
    };
    set(ms);
    return () => clearTimeout(timer);
  },
};
