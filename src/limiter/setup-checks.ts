import { warnOfSeconds } from '../common/duration.js';
import { setImmediate } from '../common/real-time.js';
import type { Warn } from '../common/warnings.js';
import type { CompiledPolicy } from '../contract/policy.js';
import type { Store } from '../contract/store.js';

const MIN_USUAL_WINDOW_MS = 1000;

/** Warns of policies that are probably not meant as written. */
export function checkPolicies(policies: readonly CompiledPolicy[], warn: Warn): void {
  checkWindows(policies, warn);
  checkShares(policies, warn);
}

/** Warns of times that were probably meant in seconds. */
export function checkWindows(policies: readonly CompiledPolicy[], warn: Warn): void {
  for (const { name, window, source } of policies) {
    const { maxDelay, ...spans } = source as Partial<Record<'window' | 'lease' | 'maxDelay', unknown>>;
    warnOfSeconds(`The policy '${name}', maxDelay`, maxDelay, 'brief', warn);
    const given = spans.window ?? spans.lease;
    if (given !== window) continue;
    if (window >= MIN_USUAL_WINDOW_MS) {
      warnOfSeconds(`The policy '${name}', ${'lease' in spans ? 'lease' : 'window'}`, given, undefined, warn);
      continue;
    }
    warn(
      'HEADGATE_SHORT_WINDOW',
      `The policy '${name}' has a time of ${window}, which is ${window} milliseconds. If you mean seconds, pass '${window}s', otherwise '${window}ms'.`,
    );
  }
}

/** Warns of shared limits that each key of a request has for itself. */
function checkShares(policies: readonly CompiledPolicy[], warn: Warn): void {
  const own = policies.find(({ share, source }) => share !== undefined && source.by === undefined);
  if (!own) return;
  const { name, share, limit } = own;
  warn(
    'HEADGATE_SHARE_PER_KEY',
    `The policy '${name}' has share: '${share}' without \`by\`, so each key of a request has a limit of ${limit} of its own; three keys have ` +
      `${3 * limit}. For a single limit, pass by: 'provider' and a constant key: { provider: 'openai', ${share}: 'acme' }, over HTTP ` +
      "keys: { provider: () => 'openai' }. If each key should have a limit of its own, pass by: 'key'.",
  );
}

/** Counts limiters in a row with a single question, right after their creation. A limiter with a second question ends the row. */
export interface Streak {
  /** The length at which the row is not a coincidence any more. */
  readonly most: number;
  readonly warning: string;
  length: number;
}

const FLEETING_LIMITERS = 500;

export const fleetingLimiters: Streak = {
  most: FLEETING_LIMITERS,
  warning:
    `${FLEETING_LIMITERS} limiters in a row got only one request each, in the turn of the event loop in which they were made. A limiter that ` +
    'is made for each request limits nothing. Create it once, when the application starts, and use it for all requests.',
  length: 0,
};

/** Whether this process runs tests, in which many otherwise wrong settings are right. */
export const isTest = (): boolean => process.env['NODE_ENV'] === 'test';

/**
 * Detects limiters that are made for a single question, as in a request handler. A kept limiter gets a second question, or the first
 * question comes in a later turn of the event loop. So limiters made at the start, or per tenant, are not reported.
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
      // Cloudflare Workers refuse timers outside of requests, so the limiter was not made for a request.
      this.#isNew = false;
    }
  }

  /** Called with each question to the limiter. @returns whether to go on checking */
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

/** Whether a limiter is the first of its memory store. If such a limiter is dropped, its counts are lost. */
export function isFirstOf(store: Store): boolean {
  if (!store.embedded || known.has(store)) return false;
  known.add(store);
  return true;
}

/** Warns of state in memory if further processes or threads serve the same clients. Test runners are exempt. */
export function checkProcess(warn: Warn): void {
  if (isTest()) return;
  const where = kindOfProcess();
  if (where === undefined) return;
  warn(
    'HEADGATE_LIMIT_PER_PROCESS',
    `A limiter keeps its state in memory, but this is ${where}. Each one counts separately, which multiplies the limit. ` +
      "Use a store that all of them share: store: redisStore(redis), or on one machine store: sqliteStore('/var/lib/app/limits.db').",
  );
}

function kindOfProcess(): string | undefined {
  // Not imported at the top, because most processes use neither module. The module of clusters takes a third of the CPU of a process' first
  // decision, and only a process with a channel to its parent can be a worker of a cluster.
  const cluster =
    process.send && (process.getBuiltinModule?.('node:cluster') as { isWorker?: boolean } | undefined);
  if (cluster?.isWorker) return 'a worker of a cluster';
  // The module of threads takes a fifth. In a thread, Node replaces functions that only the main thread has by some that are `disabled`.
  const { bun, deno } = process.versions;
  const isMain =
    (bun ?? deno) === undefined && !(process.chdir as Partial<{ disabled: true }> | undefined)?.disabled;
  const threads = isMain ? undefined : process.getBuiltinModule?.('node:worker_threads');
  if (threads?.isMainThread === false) return 'a worker thread';
  // PM2 numbers the instances of an application, starting at 0.
  return Number(process.env['NODE_APP_INSTANCE']) > 0 ? 'one of several instances' : undefined;
}
