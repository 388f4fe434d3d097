// Law 1. What is admitted in any true window never exceeds the algorithm's published worst case.
import { expect } from 'chai';
import fc from 'fast-check';
import type { HeadgateError, Policy } from 'headgate';
import { compilePolicies, type CompiledPolicy } from '../../src/policy.js';
import { worstWindow, type Admission } from '../support/oracle.js';
import { algorithms, boundOf, burstOf, overhangOf, policyOf, windowOf } from '../support/policies.js';
import { runs } from '../support/random.js';
import { limiterOn, START, stores, TestClock, type CreateStore } from '../support/stores.js';

/** What a client does next: waits, as a share of the window or for its retryAfter, and asks for a cost. */
interface Step {
  readonly wait: number | 'retryAfter' | 'edge';
  readonly cost: number | 'all';
  readonly then: 'keep' | 'refund' | 'release';
}

const step: fc.Arbitrary<Step> = fc.record({
  wait: fc.oneof(
    fc.constantFrom(0, 0.001, 0.05, 0.1, 0.5, 0.9, 0.999, 1, 1.1, 'retryAfter' as const, 'edge' as const),
    fc.double({ min: 0, max: 2, noNaN: true }),
  ),
  cost: fc.oneof(fc.constant('all' as const), fc.integer({ min: 1, max: 8 })),
  then: fc.constantFrom('keep', 'keep', 'keep', 'keep', 'refund', 'release'),
});

for (const [name, createStore] of Object.entries(stores)) {
  describe(`law 1, bound, on ${name}`, () => {
    for (const algorithm of algorithms) {
      it(`${algorithm}: random and greedy clients`, () =>
        fc.assert(
          fc.asyncProperty(
            policyOf(algorithm),
            fc.array(step, { minLength: 10, maxLength: 60 }),
            async (policy, steps) => {
              const admissions = await play(createStore, policy, steps);
              expect(worstWindow(admissions, windowOf(policy))).to.be.at.most(boundOf(policy));
            },
          ),
          runs(name, 150, 8),
        ));
    }

    for (const [algorithm, reached] of [
      ['fixed-window', 199],
      ['sliding-window', 100],
      ['sliding-log', 100],
      ['token-bucket', 199],
    ] as const) {
      it(`${algorithm}: adversarial bursts reach ${reached} at limit 100`, async () => {
        const policy = { algorithm, limit: 100, window: 10_000 };
        let worst = 0;
        // One unit opens the window, the rest comes just before its end, and all there is after it.
        for (const gap of [1, 1_000, 9_999]) {
          const steps = [
            { wait: 0, cost: 1, then: 'keep' },
            { wait: gap / 10_000, cost: 'all', then: 'keep' },
            ...Array.from({ length: 120 }, () => ({ wait: 'edge', cost: 'all', then: 'keep' }) as const),
          ] as const;
          worst = Math.max(worst, worstWindow(await play(createStore, policy, steps), 10_000));
        }
        expect(worst).to.equal(reached);
      });
    }
  });
}

describe('law 1, bound: never much less than the limit either', () => {
  for (const algorithm of ['fixed-window', 'sliding-window', 'sliding-log', 'gcra'] as const) {
    it(`${algorithm}: a greedy client gets its limit in each window, or at most a segment later`, () =>
      fc.assert(
        fc.asyncProperty(policyOf(algorithm), async (random) => {
          const { burst: _, ...policy } = random as Policy & { burst?: number };
          const clock = new TestClock();
          const limiter = limiterOn(stores.memory(clock.read), policy);
          const end = START + 20 * (windowOf(policy) + overhangOf(policy));
          let units = 0;
          while (clock.now < end) {
            const { allowed, retryAfterMs } = await limiter.consume('key', { cost: 1 });
            if (allowed) units++;
            else clock.now += retryAfterMs!;
            if (units > 5_000) return;
          }
          expect(units).to.be.at.least(20 * policy.limit);
        }),
        runs('memory', 50, 0),
      ));
  }
});

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
            // Too fine a rate, or too large a burst, is refused.
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

/** Plays a client's steps; returns what was admitted for good, at the time of its effect. */
async function play(createStore: CreateStore, policy: Policy, steps: readonly Step[]): Promise<Admission[]> {
  const clock = new TestClock();
  const limiter = limiterOn(createStore(clock.read), policy);
  const window = windowOf(policy);
  const admissions: Admission[] = [];
  let retryAfter = 0;
  for (const { wait, cost, then } of steps) {
    // 'edge': until something is available, be it one unit only.
    const { retryAfterMs = 0 } = wait === 'edge' ? await limiter.peek('key') : {};
    clock.now +=
      wait === 'retryAfter' ? retryAfter : wait === 'edge' ? retryAfterMs : Math.floor(wait * window);
    const all = Math.max(1, (await limiter.peek('key')).remaining);
    const decision = await limiter.consume('key', {
      cost: cost === 'all' ? all : Math.min(cost, burstOf(policy)),
    });
    retryAfter = decision.retryAfterMs ?? 0;
    if (!decision.allowed) continue;
    if (then === 'refund') {
      await decision.refund();
      if (policy.algorithm !== 'concurrency') continue;
    }
    if (policy.algorithm === 'concurrency' && then === 'release') await decision.release();
    else admissions.push({ at: clock.now + decision.delayMs, units: decision.cost });
  }
  return admissions;
}
