// The time of the core in the playground, in place of src/common/real-time.ts: timers fire when the simulation reaches their time, so an hour
// of waiting takes a moment. Only the bundle of the playground imports it.
interface VirtualTimer {
  readonly at: number;
  readonly run: () => void;
  ref(): VirtualTimer;
  unref(): VirtualTimer;
}

/** By time; of equal times, in the order in which they were set. */
let timers: VirtualTimer[] = [];
let now = 0;

export const performance = {
  now: (): number => now,
  timeOrigin: 0,
  eventLoopUtilization: (): { active: number } => ({ active: 0 }),
};

export function setTimeout(run: () => void, ms: number): VirtualTimer {
  const timer: VirtualTimer = { at: now + Math.max(0, ms), run, ref: () => timer, unref: () => timer };
  const next = timers.findIndex(({ at }) => at > timer.at);
  timers.splice(next < 0 ? timers.length : next, 0, timer);
  return timer;
}

export function clearTimeout(timer: VirtualTimer | undefined): void {
  if (timer) timers = timers.filter((each) => each !== timer);
}

export const setImmediate = (run: () => void): void => queueMicrotask(run);

/** Timers of Node outlive the request that set them, and so do these. */
export const TIMERS_OUTLIVE_REQUESTS = true;

/** The build for edge runtimes makes its intervals with it. */
export const timerOf = (id: unknown): { readonly id: unknown } => ({ id });

/** The hands of the clock, for the simulation. */
export const time = {
  get now(): number {
    return now;
  },
  /** Calls `run` at a time. */
  at(ms: number, run: () => void): void {
    setTimeout(run, ms - now);
  },
  /** Begins at 0, without timers. */
  reset(): void {
    timers = [];
    now = 0;
  },
  /** Fires the next timer, at most at `until`. @returns false if there was none; it is then `until` */
  step(until: number): boolean {
    const [timer] = timers;
    if (!timer || timer.at > until) {
      if (until < Infinity) now = until;
      return false;
    }
    timers.shift();
    now = timer.at;
    timer.run();
    return true;
  },
};
