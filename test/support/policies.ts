// Random policies for fast-check, and what the laws promise of each algorithm: the kit's.
import fc from 'fast-check';
import type { Algorithm, Policy } from 'headgate';
import { randomPolicy, type Ranges } from '../../src/testing/algorithms.js';
import { Random } from '../../src/testing/random.js';

export {
  ALGORITHMS as algorithms,
  capacityOf as burstOf,
  overhangOf,
  windowOf,
} from '../../src/testing/algorithms.js';

/** A policy of one algorithm; rates that divide and rates that don't. */
export function policyOf(algorithm: Algorithm, ranges: Ranges = {}): fc.Arbitrary<Policy> {
  return fc.integer().map((seed) => randomPolicy(new Random(seed), algorithm, ranges));
}
