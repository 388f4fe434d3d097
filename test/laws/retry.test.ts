// Law 2. Denied until exactly retryAfter, admitted at it, if nobody else spends. Impossible costs say so.
import { expect } from 'chai';
import fc from 'fast-check';
import type { Limiter, Policy } from 'headgate';
import { algorithms, burstOf, policyOf } from '../support/policies.js';
import { runs } from '../support/random.js';
import { limiterOn, stores, TestClock, type CreateStore } from '../support/stores.js';

/** What was spent before: after so many ms, so much, and perhaps given back or charged beyond. */
const spending = fc.array(
  fc.record({
    wait: fc.oneof(fc.constantFrom(0, 1, 500, 6_000), fc.integer({ min: 0, max: 70_000 })),
    cost: fc.integer({ min: 1, max: 10 }),
    then: fc.constantFrom('keep', 'keep', 'keep', 'refund', 'owe'),
  }),
  { minLength: 1, maxLength: 25 },
);

const ranges = { windows: [7, 1_000, 1_500, 60_000, 3_600_000] };

for (const [name, createStore] of Object.entries(stores)) {
  describe(`law 2, retry, on ${name}`, () => {
    for (const algorithm of algorithms) {
      it(`${algorithm}: denied at every instant before retryAfter, admitted at it`, () =>
        fc.assert(
          fc.asyncProperty(policyOf(algorithm, ranges), spending, fc.nat(), async (policy, spent, pick) => {
            const { clock, limiter } = await spend(createStore, policy, spent);
            const cost = 1 + (pick % burstOf(policy));
            const { allowed, retryAfterMs } = await limiter.consume('key', { cost });
            if (allowed) return;
            const start = clock.now;
            for (const ms of instantsBefore(retryAfterMs!, name === 'memory' ? 2_000 : 20)) {
              clock.now = start + ms;
              const early = await limiter.consume('key', { cost });
              expect(early.allowed, `admitted ${retryAfterMs! - ms} ms early`).to.be.false;
              expect(early.retryAfterMs, `${ms} ms later`).to.equal(retryAfterMs! - ms);
            }
            clock.now = start + retryAfterMs!;
            expect((await limiter.peek('key', { cost })).allowed, 'peek').to.be.true;
            expect((await limiter.consume('key', { cost })).allowed, 'consume').to.be.true;
          }),
          runs(name, 100, 8),
        ));

      it(`${algorithm}: resetAfter is when the full quota is back, and not before`, () =>
        fc.assert(
          fc.asyncProperty(policyOf(algorithm, ranges), spending, async (policy, spent) => {
            const { clock, limiter } = await spend(createStore, policy, spent);
            const { resetAfterMs } = await limiter.peek('key');
            const start = clock.now;
            const isFull = async () => (await limiter.peek('key', { cost: 0 })).resetAfterMs === 0;
            for (const ms of instantsBefore(resetAfterMs, name === 'memory' ? 200 : 5)) {
              clock.now = start + ms;
              expect(await isFull(), `full ${resetAfterMs - ms} ms early`).to.be.false;
            }
            clock.now = start + resetAfterMs;
            expect(await isFull()).to.be.true;
            expect((await limiter.consume('key', { cost: burstOf(policy) })).allowed).to.be.true;
          }),
          runs(name, 60, 5),
        ));

      it(`${algorithm}: a cost beyond capacity is never admitted, and says so`, () =>
        fc.assert(
          fc.asyncProperty(policyOf(algorithm, ranges), spending, async (policy, spent) => {
            const { limiter } = await spend(createStore, policy, spent);
            const cost = burstOf(policy) + 1;
            const { allowed, reason, retryAfterMs } = await limiter.consume('key', { cost });
            expect({ allowed, reason, retryAfterMs }).to.deep.equal({
              allowed: false,
              reason: 'cost-exceeds-capacity',
              retryAfterMs: undefined,
            });
          }),
          runs(name, 20, 3),
        ));
    }

    it('a ban: denied until its end, admitted at it', async () => {
      const clock = new TestClock();
      const limiter = limiterOn(createStore(clock.read), {
        limit: 1,
        window: 1_000,
        ban: { after: 2, for: 5_000 },
      });
      for (let i = 0; i < 3; i++) await limiter.consume('key');
      const { retryAfterMs } = await limiter.consume('key');
      expect(retryAfterMs).to.equal(5_000);
      clock.now += retryAfterMs! - 1;
      expect(await limiter.consume('key')).to.include({ allowed: false, retryAfterMs: 1 });
      clock.now += 1;
      expect(await limiter.consume('key')).to.include({ allowed: true });
    });

    it('several policies: the longest of those that deny', () =>
      fc.assert(
        fc.asyncProperty(
          fc.array(
            fc.constantFrom(...algorithms).chain((each) => policyOf(each, ranges)),
            {
              minLength: 2,
              maxLength: 4,
            },
          ),
          fc.array(fc.nat({ max: 30_000 }), { maxLength: 15 }),
          async (random, waits) => {
            const clock = new TestClock();
            const policies = random.map((policy, i) => ({ ...policy, name: `p${i}` }));
            const limiter = limiterOn(createStore(clock.read), { policies });
            for (const wait of waits) {
              clock.now += wait;
              await limiter.consume('key');
            }
            const { retryAfterMs } = await limiter.consume('key');
            if (retryAfterMs === 0) return;
            clock.now += retryAfterMs! - 1;
            expect((await limiter.consume('key')).allowed).to.be.false;
            clock.now += 1;
            expect((await limiter.consume('key')).allowed).to.be.true;
          },
        ),
        runs(name, 100, 8),
      ));
  });
}

/** A limiter on which all that was spent, and its clock. */
async function spend(
  createStore: CreateStore,
  policy: Policy,
  spent: readonly { wait: number; cost: number; then: string }[],
): Promise<{ clock: TestClock; limiter: Limiter }> {
  const clock = new TestClock();
  const limiter = limiterOn(createStore(clock.read), policy);
  for (const { wait, cost, then } of spent) {
    clock.now += wait;
    const decision = await limiter.consume('key', { cost });
    if (then === 'refund') await decision.refund();
    if (then === 'owe') await decision.settle(cost + 3);
  }
  return { clock, limiter };
}

/** Every ms before `end` if there are no more than `most`; else some at the start, in between and just before. */
function instantsBefore(end: number, most: number): number[] {
  if (end <= most) return Array.from({ length: end }, (_, ms) => ms);
  const between = Array.from({ length: most - 4 }, (_, i) => Math.floor((end * (i + 1)) / (most - 3)));
  return [...new Set([0, 1, ...between, end - 2, end - 1])];
}
