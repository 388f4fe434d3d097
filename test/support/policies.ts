// Random policies for fast-check, and the facts that the laws promise for each algorithm, from the kit.
import fc from 'fast-check';
import type { Algorithm, Policy } from 'headgate';
import { ALGORITHMS as algorithms, randomPolicy, type Ranges } from '../../src/testing/algorithms.js';
import { Random } from '../../src/testing/random.js';

export { algorithms };
export { capacityOf as burstOf, overhangOf, windowOf } from '../../src/testing/algorithms.js';

/** The algorithms whose window or lease may have any length. */
export const windowed = algorithms.filter((algorithm) => algorithm !== 'calendar');

/** A random policy of one algorithm. Some rates divide evenly, others do not. */
export function policyOf(algorithm: Algorithm, ranges: Ranges = {}): fc.Arbitrary<Policy> {
  return fc.integer().map((seed) => randomPolicy(new Random(seed), algorithm, ranges));
}
