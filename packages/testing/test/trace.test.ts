// Random traces must contain every option: the checks never see an option that is missing in all traces.
import { expect } from 'chai';
import fc from 'fast-check';
import { ALGORITHMS, policyOf } from '../src/algorithms.js';
import { mixedTraces, traces } from '../src/trace.js';

const CASES = 300;

/** The share of the cases for which a condition holds. */
function shareOf<T>(cases: fc.Arbitrary<T>, holds: (each: T) => boolean): number {
  return fc.sample(fc.noBias(cases), { numRuns: CASES, seed: 1 }).filter(holds).length / CASES;
}

describe('random traces', () => {
  const plain = traces(ALGORITHMS);

  it('have ban options and two tiers in half of the cases', () => {
    expect(shareOf(plain, ({ ban }) => ban !== undefined)).to.be.within(0.4, 0.6);
    expect(shareOf(plain, ({ tiers }) => tiers.length === 2)).to.be.within(0.4, 0.6);
  });

  it('have shadows, counted attempts, and costs of each policy', () => {
    expect(shareOf(plain, ({ tiers }) => tiers.flat().some(({ shadow }) => shadow))).to.be.above(0.3);
    expect(shareOf(plain, ({ tiers }) => tiers.flat().some((each) => 'count' in each))).to.be.above(0.3);
    expect(shareOf(plain, ({ steps }) => steps.some(([, , , action]) => 'costs' in action))).to.be.above(0.8);
  });

  for (const call of ['decide', 'adjust', 'lease', 'reset', 'ban'])
    it(`call ${call}`, () => {
      expect(shareOf(plain, ({ steps }) => steps.some(([, , , action]) => action.do === call))).to.be.above(
        0.7,
      );
    });

  it('go back in time only on a clock that jumps', () => {
    const goesBack = (cases: typeof plain) => shareOf(cases, ({ steps }) => steps.some(([wait]) => wait < 0));
    expect(goesBack(plain)).to.equal(0);
    expect(goesBack(traces(ALGORITHMS, { jumps: true }))).to.be.above(0.8);
  });

  it('count by several dimensions, if asked to, except for attempts across slots', () => {
    const mixed = mixedTraces(ALGORITHMS, {});
    expect(shareOf(mixed, ({ ban }) => ban?.by === 'account')).to.be.above(0.1);
    for (const by of ['key', 'account', 'org'])
      expect(shareOf(mixed, ({ tiers }) => tiers.flat().some((policy) => policy.by === by))).to.be.above(0.5);
    const across = mixedTraces(ALGORITHMS, { acrossSlots: true });
    expect(
      shareOf(
        across,
        ({ ban, tiers }) =>
          !!ban || tiers.flat().some((each) => 'count' in each && each.count === 'attempts'),
      ),
    ).to.equal(0);
  });
});

describe('random policies', () => {
  for (const [algorithm, field] of [
    ['sliding-window', 'segments'],
    ['gcra', 'burst'],
    ['leaky-bucket', 'maxDelay'],
    ['calendar', 'timeZone'],
  ] as const)
    it(`of ${algorithm} have ${field} in half of the cases`, () => {
      expect(shareOf(policyOf(algorithm), (policy) => field in policy)).to.be.within(0.4, 0.6);
    });
});
