import { show } from './expect.js';
import { Random, seedFor } from './random.js';

/** A property that must hold. A check is plain data, so any test runner can run it: `for (const { name, run } of checks) it(name, run)`. */
export interface Check {
  /** The suite that the check belongs to: `'contract'`, `'law 3, charge'`, `'identity'`, ... */
  readonly suite: string;
  /** The property. Unique in its suite. */
  readonly name: string;
  /** Resolves if the property holds. Rejects with a {@link CheckError}. It can be called without `this`. */
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

/** A random case of any content. Its steps can be removed one by one. */
interface Case {
  readonly steps: readonly unknown[];
}

const unlikeTheLast = () => Math.floor(Math.random() * 2 ** 31);

/** A check of random cases. The first case that fails is shrunk. */
export function makeRandomCheck<T extends Case>(
  { runs = 25, seed }: Randomness,
  suite: string,
  name: string,
  make: (random: Random) => T,
  holds: (each: T) => Promise<void>,
): Check {
  return makeCheck(suite, name, async () => {
    const first = seed ?? unlikeTheLast();
    for (let i = 0; i < runs; i++) {
      const each = make(new Random(seedFor(first, `${i} ${suite} ${name}`)));
      const failure = await failureOf(each, holds);
      if (!failure) continue;
      const least = await shrink(each, failure.error, holds);
      const repeat = `\nwith seed: ${first} (case ${i}), shrunk to\n${show(least.each)}`;
      throw new CheckError(suite, name, least.error, repeat);
    }
  });
}

async function failureOf<T>(each: T, holds: (each: T) => Promise<void>) {
  try {
    await holds(each);
    return undefined;
  } catch (error) {
    return { error };
  }
}

const MAX_TRIES = 200;

/** Removes steps, many at a time at first, as long as the case still fails. */
async function shrink<T extends Case>(each: T, error: unknown, holds: (each: T) => Promise<void>) {
  let tries = 0;
  for (let size = each.steps.length >> 1; size >= 1; size >>= 1) {
    for (let at = 0; at < each.steps.length && tries < MAX_TRIES; tries++) {
      const smaller = { ...each, steps: each.steps.toSpliced(at, size) };
      const failure = await failureOf(smaller, holds);
      if (failure) [each, error] = [smaller, failure.error];
      else at += size;
    }
  }
  return { each, error };
}
