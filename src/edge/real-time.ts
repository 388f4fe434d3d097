// The functions of common/real-time.ts on runtimes where timers belong to a request. The build puts this file in that one's place.

const clock = globalThis.performance;

export const performance = {
  now: clock.now.bind(clock),
  timeOrigin: clock.timeOrigin,
  eventLoopUtilization: (): { active: number } => ({ active: 0 }),
};

/** Node's class has two methods that other runtimes lack. */
export interface EdgeTimer {
  readonly id: NodeJS.Timeout;
  ref(): EdgeTimer;
  unref(): EdgeTimer;
}

export function timerOf(id: NodeJS.Timeout): EdgeTimer {
  const timer: EdgeTimer = { id, ref: () => timer, unref: () => timer };
  return timer;
}

export const setTimeout = (run: () => void, ms: number): EdgeTimer => timerOf(globalThis.setTimeout(run, ms));

export function clearTimeout(timer: EdgeTimer | undefined): void {
  if (timer) globalThis.clearTimeout(timer.id);
}

/** A later turn would mix requests: on Cloudflare Workers no request may wait for the input and output of another one. */
export function setImmediate(run: () => void): void {
  queueMicrotask(run);
}

/** Whether a timer fires even if the request that started it has ended. */
export const TIMERS_OUTLIVE_REQUESTS = false;
