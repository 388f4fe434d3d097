// Random policies for fast-check, and what the laws promise of each algorithm: the kit's.
import fc from 'fast-check';
import type { Algorithm, Policy } from 'headgate';
import { ALGORITHMS as algorithms, randomPolicy, type Ranges } from '../../src/testing/algorithms.js';
import { Random } from '../../src/testing/random.js';

export { algorithms };
export { capacityOf as burstOf, overhangOf, windowOf } from '../../src/testing/algorithms.js';

/** The algorithms that take a window or a lease of any length. */
export const windowed = algorithms.filter((algorithm) => algorithm !== 'calendar');

/** A policy of one algorithm; rates that divide and rates that don't. */
export function policyOf(algorithm: Algorithm, ranges: Ranges = {}): fc.Arbitrary<Policy> {
  return fc.integer().map((seed) => randomPolicy(new Random(seed), algorithm, ranges));
}
