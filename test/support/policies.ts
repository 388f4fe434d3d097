// Random policies for fast-check, and the facts that the laws promise for each algorithm, from headgate-testing.
import { ALGORITHMS as algorithms } from '../../packages/testing/src/algorithms.js';

export { algorithms };
export {
  capacityOf as burstOf,
  overhangOf,
  policyOf,
  windowOf,
} from '../../packages/testing/src/algorithms.js';

/** The algorithms whose window or lease may have any length. */
export const windowed = algorithms.filter((algorithm) => algorithm !== 'calendar');
