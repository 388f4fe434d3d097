/** Time and timers: tests bring their own. */
export interface Timing {
  /** Milliseconds that only go forward. */
  now(): number;
  /** Calls `run` once after about `ms`, perhaps early: look at `now()` again. Returns a function that cancels it. */
  after(ms: number, run: () => void): () => void;
}

/** Node fires a longer timer at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

export const realTiming: Timing = {
  now: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, Math.min(Math.ceil(ms), LONGEST_TIMER));
    return () => clearTimeout(timer);
  },
};
