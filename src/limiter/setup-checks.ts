import { setImmediate } from '../common/real-time.js';
import type { Warn } from '../common/warnings.js';
import type { CompiledPolicy } from '../contract/policy.js';
import type { Store } from '../contract/store.js';

/** Windows shorter than this are unusual, ms. */
const SHORT = 1000;

/** Warns of a window that was probably meant in seconds. */
export function checkWindows(policies: readonly CompiledPolicy[], warn: Warn): void {
  for (const { name, window, source } of policies) {
    const { window: given, lease } = source as { window?: unknown; lease?: unknown };
    const isNumber = (given ?? lease) === window;
    if (window >= SHORT || !isNumber) continue;
    warn(
      'HEADGATE_SHORT_WINDOW',
      `The policy '${name}' has a time of ${window}, which is ${window} milliseconds. If you mean seconds, write '${window}s', else '${window}ms'.`,
    );
  }
}

/** Counts limiters in a row that were asked only once, right after they were made. A limiter that is asked again ends the row. */
export interface Streak {
  /** From this many on, it is no coincidence. */
  readonly most: number;
  readonly warning: string;
  length: number;
}

const FLEETING = 500;

export const fleetingLimiters: Streak = {
  most: FLEETING,
  warning:
    `${FLEETING} limiters in a row were each asked only once, in the turn of the event loop in which they were made. A limiter that ` +
    'is made for each request limits nothing. Make it once, when the application starts, and use it for all requests.',
  length: 0,
};

/** Whether this process runs tests, where many things are right that are wrong elsewhere. */
export const isTest = (): boolean => process.env['NODE_ENV'] === 'test';

/**
 * Detects limiters that are made for a single question, as in a request handler. A limiter that is kept is asked again: a second time, or
 * in a later turn of the event loop. This tells apart limiters that are all made at the start, or one per tenant.
 */
export class FirstQuestion {
  readonly #warn: Warn;
  readonly #streak: Streak;
  #isNew = true;
  #asked = false;

  constructor(warn: Warn, streak: Streak) {
    this.#warn = warn;
    this.#streak = streak;
    try {
      setImmediate(() => (this.#isNew = false));
    } catch {
      // Cloudflare Workers refuse timers outside of requests, so this limiter was not made for one.
      this.#isNew = false;
    }
  }

  /** Called when the limiter is asked. @returns whether to go on checking */
  check(): boolean {
    if (this.#isNew && !this.#asked) {
      this.#asked = true;
      const { most, warning } = this.#streak;
      if (++this.#streak.length >= most) this.#warn('HEADGATE_LIMITER_IN_HANDLER', warning);
      return true;
    }
    if (this.#asked) this.#streak.length = 0;
    return false;
  }
}

const known = new WeakSet<Store>();

/** Whether a limiter is the first one of its memory store. If such a limiter is thrown away, so is everything it counted. */
export function isFirstOf(store: Store): boolean {
  if (!store.embedded || known.has(store)) return false;
  known.add(store);
  return true;
}

/** Warns of state in memory if other processes or threads serve the same clients. Test runners are exempt. */
export function checkProcess(warn: Warn): void {
  if (isTest()) return;
  const where = kindOfProcess();
  if (where === undefined) return;
  warn(
    'HEADGATE_LIMIT_PER_PROCESS',
    `A limiter keeps its state in memory, but this is ${where}. Each of them counts for itself, which multiplies the limit. ` +
      "Give the limiter a store that all of them share: store: redisStore(redis), or on one machine store: sqliteStore('/var/lib/app/limits.db').",
  );
}

function kindOfProcess(): string | undefined {
  // Not imported at the top: most processes use neither, and loading them takes a millisecond.
  const cluster = process.getBuiltinModule?.('node:cluster') as unknown as { isWorker: boolean } | undefined;
  if (cluster?.isWorker) return 'a worker of a cluster';
  const threads = process.getBuiltinModule?.('node:worker_threads');
  if (threads?.isMainThread === false) return 'a worker thread';
  // PM2 numbers the instances of an application, starting at 0.
  return Number(process.env['NODE_APP_INSTANCE']) > 0 ? 'one of several instances' : undefined;
}
