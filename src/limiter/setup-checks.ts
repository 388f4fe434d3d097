import type { CompiledPolicy } from '../contract/policy.js';
import type { Warn } from '../common/warnings.js';

/** Windows below this, ms, are unusual. */
const SHORT = 1000;

/** Warns of a window that was meant in seconds. */
export function checkWindows(policies: readonly CompiledPolicy[], warn: Warn): void {
  for (const { name, window, source } of policies) {
    const isNumber = Object.values(source).includes(window);
    if (window >= SHORT || !isNumber) continue;
    warn(
      'HEADGATE_SHORT_WINDOW',
      `The policy '${name}' has a time of ${window}, which is ${window} milliseconds. If you mean seconds, write '${window}s', else '${window}ms'.`,
    );
  }
}

/** Warns of state in memory where other processes or threads serve the same clients. Runners of tests are no such thing. */
export function checkProcess(warn: Warn): void {
  if (process.env['NODE_ENV'] === 'test') return;
  const where = kindOfProcess();
  if (where === undefined) return;
  warn(
    'HEADGATE_LIMIT_PER_PROCESS',
    `A limiter keeps its state in memory, but this is ${where}: each has limits of its own, so that a client has as many times the ` +
      'limit. Give the limiter a store that all share: store: redisStore(redis).',
  );
}

function kindOfProcess(): string | undefined {
  // Not imported: most processes use neither, and loading them takes a millisecond.
  const cluster = process.getBuiltinModule?.('node:cluster') as unknown as { isWorker: boolean } | undefined;
  if (cluster?.isWorker) return 'a worker of a cluster';
  const threads = process.getBuiltinModule?.('node:worker_threads');
  if (threads?.isMainThread === false) return 'a worker thread';
  // PM2 numbers the instances of an application from 0.
  return Number(process.env['NODE_APP_INSTANCE']) > 0 ? 'one of several instances' : undefined;
}
