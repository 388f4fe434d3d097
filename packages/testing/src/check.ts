import fc from 'fast-check';
import { show } from './expect.js';

/** A property that must hold. A check is plain data for any test runner: `for (const { name, run } of checks) it(name, run)`. */
export interface Check {
  /** The suite that the check belongs to: `'contract'`, `'law 3, charge'`, `'identity'`, ... */
  readonly suite: string;
  /** The property. Unique in its suite. */
  readonly name: string;
  /** Resolves if the property holds. Rejects with a {@link CheckError}. Does not need `this`. */
  readonly run: () => Promise<void>;
}

/** A failed check, with the expected and the actual value. A random check adds the case, and the way to repeat it. */
export class CheckError extends Error {
  /** The class: `'CheckError'`. */
  override readonly name = 'CheckError';
  /** The suite of the check. */
  readonly suite: string;
  /** The check's name. */
  readonly check: string;
  /** The actual value. Absent if an error was thrown. */
  readonly actual?: unknown;
  /** The expected value. Absent if an error was thrown. */
  readonly expected?: unknown;

  /** @internal */
  constructor(suite: string, check: string, cause: unknown, details = '') {
    const reason = cause instanceof Error ? cause.message : show(cause);
    super(`${suite}: ${check}\n${reason}${details}`, { cause });
    this.suite = suite;
    this.check = check;
    if (typeof cause === 'object' && cause !== null && 'actual' in cause && 'expected' in cause) {
      this.actual = cause.actual;
      this.expected = cause.expected;
    }
  }
}

export function makeCheck(suite: string, name: string, body: () => Promise<void>): Check {
  const run = async () => {
    try {
      await body();
    } catch (error) {
      throw error instanceof CheckError ? error : new CheckError(suite, name, error);
    }
  };
  return { suite, name, run };
}

/** The number and the choice of random cases. */
export interface Randomness {
  /** Cases per random check. A memory store plays hundreds in a second, a store on a server fewer. @default 25 */
  readonly runs?: number;
  /** Selects the random cases: any whole number. By default they differ each time, and a failure reports the seed. */
  readonly seed?: number;
}

/** The most cases to play in search of a smaller case. On a server, each case takes long. */
const MAX_TRIES = 200;

/** A check of random cases. The first case that fails is shrunk. */
export function makeRandomCheck<T>(
  { runs = 25, seed }: Randomness,
  [suite, name]: readonly [suite: string, name: string],
  cases: fc.Arbitrary<T>,
  holds: (each: T) => Promise<void>,
): Check {
  return makeCheck(suite, name, async () => {
    let tries = 0;
    const property = fc.asyncProperty(fc.noBias(cases), async (each) => {
      if (tries > 0 && tries++ > MAX_TRIES) return;
      try {
        await holds(each);
      } catch (error) {
        tries ||= 1;
        throw error;
      }
    });
    const found = await fc.check(property, { numRuns: runs, ...(seed !== undefined && { seed }) });
    if (!found.failed) return;
    const repeat = `\nwith seed: ${found.seed}, shrunk to\n${show(found.counterexample![0])}`;
    throw new CheckError(suite, name, found.errorInstance, repeat);
  });
}
