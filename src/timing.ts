/** Time and timers: tests bring their own. */
export interface Timing {
  /** Milliseconds that only go forward. */
  now(): number;
  /** Runs `run` once after about so many ms: look at `now()` again, it may be early. Returns what cancels it. */
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
