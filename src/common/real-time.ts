// Real time for everything that waits for a server. Tests with fake timers must not stop real time, or a decision on Redis would wait for ever.
// This module copies Node's functions before later fakes replace the functions. If fakes are already there, substitutes beyond the reach of
// fakes are used. The timers that reveal fakes start at the first call: on Cloudflare Workers no timer may start while modules load.
import { Socket } from 'node:net';
import * as hooks from 'node:perf_hooks';
import * as timers from 'node:timers';
import { scheduler } from 'node:timers/promises';

const { performance: clock } = hooks;

/** Fake timers replace `now` of the global performance object, but not `now` of its prototype. On Bun only the object has the function. */
const { now } = [(clock.constructor as { prototype: typeof clock }).prototype, clock].find(
  (each) => typeof each.now === 'function',
)!;

export const performance = {
  now: now.bind(clock),
  timeOrigin: clock.timeOrigin,
  eventLoopUtilization: clock.eventLoopUtilization.bind(clock),
};

type Kind = 'Timeout' | 'Immediate';

/** The number of real timers of a kind. `undefined` on Bun and on Cloudflare Workers, which do not list them: fakes are not detected there. */
function countReal(kind: Kind): number | undefined {
  if ('bun' in process.versions) return undefined;
  try {
    return process.getActiveResourcesInfo().filter((each) => each === kind).length;
  } catch {
    return undefined;
  }
}

function isReal(kind: Kind, start: () => () => void): boolean {
  const before = countReal(kind);
  if (before === undefined) return true;
  const stop = start();
  const after = countReal(kind);
  stop();
  return after! > before;
}

const {
  setTimeout: startTimeout,
  clearTimeout: stopTimeout,
  setImmediate: startImmediate,
  clearImmediate: stopImmediate,
} = timers;

// Undefined before the first timer.
let hasRealTimeouts: boolean | undefined;
let hasRealImmediates: boolean | undefined;

/**
 * A timer made of a socket that is never connected, for processes with fakes of Node's timer functions: from Node 26 on, fakes may replace
 * `AbortSignal.timeout`, too. Such a timer does not keep the process alive.
 */
class SocketTimer {
  readonly #socket = new Socket();

  constructor(run: () => void, ms: number) {
    // 0 would mean a timer without an end.
    this.#socket.setTimeout(Math.max(1, ms), run);
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  cancel(): void {
    this.#socket.destroy();
  }
}

export function setTimeout(run: () => void, ms: number): NodeJS.Timeout {
  hasRealTimeouts ??= isReal('Timeout', () => {
    const timer = startTimeout(() => {}, 1e6);
    return () => stopTimeout(timer);
  });
  return hasRealTimeouts ? startTimeout(run, ms) : (new SocketTimer(run, ms) as unknown as NodeJS.Timeout);
}

export function clearTimeout(timer: NodeJS.Timeout | undefined): void {
  if (timer instanceof SocketTimer) timer.cancel();
  else stopTimeout(timer);
}

export function setImmediate(run: () => void): void {
  hasRealImmediates ??= isReal('Immediate', () => {
    const immediate = startImmediate(() => {});
    return () => stopImmediate(immediate);
  });
  if (hasRealImmediates) startImmediate(run);
  else void scheduler.yield().then(run);
}

/** Whether a timer fires even if the request that started it has ended. On Cloudflare Workers it does not. */
export const TIMERS_OUTLIVE_REQUESTS = true;
