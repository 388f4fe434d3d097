// Law 20: every two features go together on a store, or are refused when the limiter is made, as src/contract/together.ts says.
import { expect } from 'chai';
import type { HeadgateError, Store } from 'headgate';
import { refusedPairs } from '../../scripts/docs/together.js';
import { FEATURE_NAMES, type FeatureName } from '../../src/contract/together.js';
import { tryOut, type Site } from './feature-samples.js';

/** Features of the Redis store. */
const ON_REDIS: readonly FeatureName[] = ['slices', 'localDenials', 'hashKeys', 'thresholds as a stream'];

/** Tries each pair in both orders. */
export function describePairs(kind: string, storeOf: (site: Site) => Store): void {
  const refused = refusedPairs();
  describe(`law 20: pairs of features, on ${kind}`, () => {
    for (const one of FEATURE_NAMES) {
      it(one, async () => {
        for (const other of FEATURE_NAMES) {
          if (one === other) continue;
          const pair = [one, other] as const;
          if (kind === 'memory' && pair.some((name) => ON_REDIS.includes(name))) continue;
          const refusal = refused.get([...pair].sort().join(' + '));
          const isHere = refusal && ['policy', 'limiter'].includes(refusal.within);
          const failure = await tryOut(pair, storeOf).then(
            () => undefined,
            (error: HeadgateError) => error,
          );
          const what = `${one} + ${other}: ${failure?.stack ?? 'no error'}`;
          expect(failure?.code ?? failure, what).to.equal(isHere ? refusal.code : undefined);
          if (isHere) expect(failure?.message, what).to.contain(refusal.reason);
        }
      });
    }
  });
}
