import { Session } from 'node:inspector/promises';
import { setFlagsFromString } from 'node:v8';

/** Array methods whose iterations V8 does not count. */
const METHODS = [
  'filter',
  'find',
  'findIndex',
  'includes',
  'indexOf',
  'shift',
  'slice',
  'splice',
  'unshift',
] as const;

/**
 * Counts the work of a program, independently of the machine: the entries into blocks of code in `src/`, and the elements that array
 * methods visit. Runs the program three times and returns the larger of two counts, because V8 does not count optimized code.
 */
export async function workOf(run: () => Promise<unknown>): Promise<number> {
  // Optimized code does not count its calls. Maglev must stay off: Node 20 has it, but not by default.
  setFlagsFromString('--no-maglev');
  setFlagsFromString('--no-opt');
  // V8 has now finished its optimizations, and this count undoes the optimizations.
  await run();
  const counts = [await counted(run), await counted(run)];
  setFlagsFromString('--opt');
  return Math.max(...counts);
}

async function counted(run: () => Promise<unknown>): Promise<number> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  const array = countElements();
  await run();
  array.stop();
  const { result } = await session.post('Profiler.takePreciseCoverage');
  session.disconnect();
  const blocks = result
    .filter(({ url }) => url.includes('/src/'))
    .flatMap(({ functions }) => functions.flatMap(({ ranges }) => ranges.map(({ count }) => count)));
  return blocks.reduce((sum, count) => sum + count, array.elements());
}

function countElements() {
  let elements = 0;
  const prototype = Array.prototype as unknown as Record<string, (...args: unknown[]) => unknown>;
  const originals = METHODS.map((name) => [name, prototype[name]!] as const);
  for (const [name, original] of originals) {
    prototype[name] = function (this: unknown[], ...args) {
      elements += this.length;
      return original.apply(this, args);
    };
  }
  return {
    elements: () => elements,
    stop: () => originals.forEach(([name, original]) => (prototype[name] = original)),
  };
}
