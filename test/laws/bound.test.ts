// Law 1. The units admitted in any true window never exceed the algorithm's published worst case.
import { expect } from 'chai';
import fc from 'fast-check';
import type { HeadgateError } from 'headgate';
import { compilePolicies } from '../../src/contract/compile-policies.js';
import type { CompiledPolicy } from '../../src/contract/policy.js';
import { describeLaw } from '../support/kit.js';
import { runs } from '../support/random.js';

describeLaw('law 1, bound');

describe('law 1, bound: buckets', () => {
  it('no rate is rounded up, nor down by more than 0.1 %', () =>
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 12, noNaN: true }).map((power) => Math.floor(10 ** power)),
        fc.double({ min: 0, max: 10.4, noNaN: true }).map((power) => Math.floor(10 ** power)),
        fc.option(fc.integer({ min: 1, max: 1_000_000 }), { nil: undefined }),
        (limit, window, burst) => {
          let params;
          try {
            [{ params }] = compilePolicies('policies', [
              { algorithm: 'gcra', limit, window, ...(burst && { burst }) },
            ]) as [CompiledPolicy];
          } catch (error) {
            // The library refuses rates that are too fine, and bursts that are too large.
            expect((error as HeadgateError).code).to.equal('HEADGATE_INVALID_OPTION');
            return;
          }
          const [scale, increment, capacity, , ceiling] = Object.values(params).map((each) => BigInt(each));
          const [charged, asked] = [increment! * BigInt(limit), BigInt(window) * scale!];
          expect(charged >= asked, 'rounded up').to.be.true;
          expect(1000n * (charged - asked) < asked, 'rounded down too far').to.be.true;
          expect(capacity! + ceiling! <= 2n ** 53n, 'sums are exact').to.be.true;
        },
      ),
      runs('memory', 500, 0),
    ));
});
