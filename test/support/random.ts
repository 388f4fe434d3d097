// What random tests have in common.
import { allowTime } from './hooks.js';

/** HEADGATE_RUNS=20 runs each random test 20 times as long. */
const factor = Number(process.env.HEADGATE_RUNS ?? 1);

/**
 * How often a property runs: in memory, and on a server, where each step is a round trip. The test that calls this gets a minute, or as
 * many minutes as it runs longer, because the processor limits it and others may use it, too.
 */
export function runs(store: string, inMemory: number, onServer: number): { numRuns: number } {
  allowTime(60_000 * Math.max(1, factor));
  return { numRuns: Math.ceil(factor * (store === 'memory' ? inMemory : onServer)) };
}
