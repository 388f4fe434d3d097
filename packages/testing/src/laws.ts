import type { Check } from './check.js';
import { lawOfBound } from './laws/bound.js';
import { lawOfChange } from './laws/change.js';
import { lawOfCharge } from './laws/charge.js';
import { lawOfClock } from './laws/clock.js';
import { lawOfKeys } from './laws/keys.js';
import { lawOfLife } from './laws/life.js';
import { lawOfLive } from './laws/live.js';
import { boundOfMixed, changeOfMixed, chargeOfMixed, raceOfMixed, retryOfMixed } from './laws/mixed.js';
import { lawOfRace } from './laws/race.js';
import { lawOfRetry } from './laws/retry.js';
import { lawOfReturn } from './laws/return.js';
import { checkNames, Suite, type StoreUnderTest } from './subject.js';

/** A law that can be checked on a store alone. */
export type Law =
  | 'law 1, bound'
  | 'law 2, retry'
  | 'law 3, charge'
  | 'law 5, life'
  | 'law 6, clock'
  | 'law 7, race'
  | 'law 9, keys'
  | 'law 12, change'
  | 'law 13, return'
  | 'law 16, live';

const LAWS: Readonly<Record<Law, (suite: Suite) => void>> = {
  'law 1, bound': lawOfBound,
  'law 2, retry': lawOfRetry,
  'law 3, charge': lawOfCharge,
  'law 5, life': lawOfLife,
  'law 6, clock': lawOfClock,
  'law 7, race': lawOfRace,
  'law 9, keys': lawOfKeys,
  'law 12, change': lawOfChange,
  'law 13, return': lawOfReturn,
  'law 16, live': lawOfLive,
};

const MIXED: Partial<Record<Law, (suite: Suite) => void>> = {
  'law 1, bound': boundOfMixed,
  'law 2, retry': retryOfMixed,
  'law 3, charge': chargeOfMixed,
  'law 7, race': raceOfMixed,
  'law 12, change': changeOfMixed,
};

/**
 * Checks the promises of a limiter on a store, independently of the store's implementation.
 *
 * @param laws by default all
 * @throws RangeError for an unknown law or algorithm
 */
export function lawChecks(
  subject: StoreUnderTest,
  laws: readonly Law[] = Object.keys(LAWS) as Law[],
): Check[] {
  checkNames('laws', laws, Object.keys(LAWS));
  return laws.flatMap((law) => {
    const suite = new Suite(law, subject);
    LAWS[law](suite);
    if (subject.dimensions ?? true) MIXED[law]?.(suite);
    return suite.checks;
  });
}
