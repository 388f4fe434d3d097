// Settings for every random test.
import fc from 'fast-check';
import { allowTime } from './hooks.js';
import './seeds.js';

/** HEADGATE_RUNS=20 runs each random test 20 times as long. */
const factor = Number(process.env.HEADGATE_RUNS ?? 1);

/**
 * The number of runs of a property in memory, and on a server, where each step is a round trip. The calling test gets at least a minute,
 * and more in proportion, because the speed depends on the processor, which other tests use, too.
 */
export function runs(store: string, inMemory: number, onServer: number): { numRuns: number } {
  allowTime(60_000 * Math.max(1, factor));
  return { numRuns: Math.ceil(factor * (store === 'memory' ? inMemory : onServer)) };
}

/** Texts that resemble numbers. */
export const odd = fc
  .constantFrom('', '-1', '0', '1e308', 'nan', 'inf', '-0', '9007199254740993', '0x10', ' 3 ', '3.7', '0.5')
  .map(Buffer.from);

export const anyBytes = (maxLength: number) =>
  fc.uint8Array({ maxLength }).map((bytes) => Buffer.from(bytes));

/** The runs between two looks at the time. */
const RUNS_OF_ROUND = 2;

/**
 * Checks a property on other values until a time is over, and waits for the end of the last run: with `interruptAfterTimeLimit`, this run would
 * still use servers that the test closes.
 *
 * @param options `ms`, the time; `most`, the most values; `shrinkMs`, the time for which a counterexample shrinks
 * @throws the error of the counterexample, with its seed and path
 */
export async function checkFor<T>(
  property: fc.IAsyncProperty<[T]>,
  { seed, ms, most, shrinkMs }: { seed: number; ms: number; most: number; shrinkMs: number },
): Promise<void> {
  const end = performance.now() + ms;
  for (let round = 0; round * RUNS_OF_ROUND < most && performance.now() < end; round++) {
    const search = { seed: seed + round, numRuns: RUNS_OF_ROUND };
    const { counterexamplePath: path } = await fc.check(property, { ...search, endOnFailure: true });
    if (path !== null) await fc.assert(property, { ...search, path, skipAllAfterTimeLimit: shrinkMs });
  }
}
