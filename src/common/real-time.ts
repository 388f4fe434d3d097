// Real time for everything that waits for a server. Tests with fake timers must not stop it: a decision on Redis would then wait for ever.
// This module takes Node's functions before later fakes replace them. If fakes are already there, it uses substitutes that they do not
// cover.
import { Socket } from 'node:net';
import * as hooks from 'node:perf_hooks';
import * as timers from 'node:timers';
import { scheduler } from 'node:timers/promises';

const { prototype } = hooks.performance.constructor as { prototype: typeof hooks.performance };

/** Fake timers replace `now` of the global performance object, but not the one of its prototype. */
export const performance = {
  now: prototype.now.bind(hooks.performance),
  eventLoopUtilization: hooks.performance.eventLoopUtilization.bind(hooks.performance),
};

/** Whether a function starts a real timer. The process lists all real timers. */
function isReal(kind: 'Timeout' | 'Immediate', start: () => () => void): boolean {
  const count = (): number | undefined =>
    process.getActiveResourcesInfo?.().filter((each) => each === kind).length;
  const before = count();
  const stop = start();
  const after = count();
  stop();
  return before === undefined || after! > before;
}

const realTimeouts = isReal('Timeout', () => {
  const timer = timers.setTimeout(() => {}, 1e6);
  return () => timers.clearTimeout(timer);
});

const realImmediates = isReal('Immediate', () => {
  const immediate = timers.setImmediate(() => {});
  return () => timers.clearImmediate(immediate);
});

/**
 * A timer made of a socket that is never connected, for when Node's timer functions are faked: from Node 26 on, fakes may replace
 * `AbortSignal.timeout`, too. It does not keep the process alive.
 */
class SocketTimer {
  readonly #socket = new Socket();

  constructor(run: () => void, ms: number) {
    // 0 would mean that it never ends.
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

type SetTimeout = (run: () => void, ms: number) => NodeJS.Timeout;

export const setTimeout: SetTimeout = realTimeouts
  ? timers.setTimeout
  : (run, ms) => new SocketTimer(run, ms) as unknown as NodeJS.Timeout;

export const clearTimeout: (timer: NodeJS.Timeout | undefined) => void = realTimeouts
  ? timers.clearTimeout
  : (timer) => (timer as unknown as SocketTimer | undefined)?.cancel();

export const setImmediate: (run: () => void) => void = realImmediates
  ? timers.setImmediate
  : (run) => void scheduler.yield().then(run);
