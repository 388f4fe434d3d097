/** A clock with timers. Tests supply their own. */
export interface Timing {
  /** A time in milliseconds that never goes back. */
  now(): number;
  /** Calls `run` once after about `ms`, perhaps early: look at `now()` again. Returns a function that cancels it. */
  after(ms: number, run: () => void): () => void;
}

/** Node fires timers with a longer delay immediately. */
const LONGEST_TIMER = 2 ** 31 - 1;

export const realTiming: Timing = {
  now: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, Math.min(Math.ceil(ms), LONGEST_TIMER));
    return () => clearTimeout(timer);
  },
};
