// What random tests have in common.

/** HEADGATE_RUNS=20 runs each random test 20 times as long. */
const factor = Number(process.env.HEADGATE_RUNS ?? 1);

/** How often a property runs: in memory, and on a server, where each step is a round trip. */
export function runs(store: string, inMemory: number, onServer: number): { numRuns: number } {
  return { numRuns: Math.ceil(factor * (store === 'memory' ? inMemory : onServer)) };
}
