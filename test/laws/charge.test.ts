// Law 3. A denied request charges nothing, in any policy: all charge, or none does.
import { expect } from 'chai';
import fc from 'fast-check';
import { algorithms, policyOf } from '../support/policies.js';
import { runs } from '../support/random.js';
import { limiterOn, stores, TestClock } from '../support/stores.js';

const policies = fc
  .array(
    fc.record({
      policy: fc.constantFrom(...algorithms).chain((algorithm) => policyOf(algorithm)),
      shadow: fc.constantFrom(false, false, true),
    }),
    { minLength: 1, maxLength: 4 },
  )
  .map((list) => list.map(({ policy, shadow }, i) => ({ ...policy, shadow, name: `p${i}` })));

const steps = fc.array(
  fc.record({
    wait: fc.constantFrom(0, 0, 1, 50, 1_000, 20_000),
    cost: fc.constantFrom(1, 1, 2, 3, 5, 50),
  }),
  { minLength: 5, maxLength: 40 },
);

for (const [name, createStore] of Object.entries(stores)) {
  describe(`law 3, charge, on ${name}`, () => {
    it('after a denial, every policy is as it was', () =>
      fc.assert(
        fc.asyncProperty(policies, steps, async (list, requests) => {
          const clock = new TestClock();
          const limiter = limiterOn(createStore(clock.read), { policies: list });
          for (const { wait, cost } of requests) {
            clock.now += wait;
            const before = await limiter.peek('key', { cost });
            const decision = await limiter.consume('key', { cost });
            const after = await limiter.peek('key', { cost });
            expect(decision.allowed, 'as peek said').to.equal(before.allowed);
            if (!decision.allowed) {
              expect(decision.policies, 'the denial').to.deep.equal(before.policies);
              expect(after.policies, 'afterwards').to.deep.equal(before.policies);
            }
          }
        }),
        runs(name, 150, 10),
      ));

    it('after an admission, every policy that admits is charged, and a shadow that would deny is not', () =>
      fc.assert(
        fc.asyncProperty(policies, steps, async (list, requests) => {
          const clock = new TestClock();
          const limiter = limiterOn(createStore(clock.read), { policies: list });
          for (const { wait, cost } of requests) {
            clock.now += wait;
            const before = await limiter.peek('key', { cost });
            const decision = await limiter.consume('key', { cost });
            if (!decision.allowed) continue;
            const after = await limiter.peek('key', { cost });
            decision.policies.forEach(({ allowed, remaining }, i) => {
              const left = before.policies[i]!.remaining;
              expect(remaining).to.equal(allowed ? Math.max(0, left - cost) : left);
              expect(after.policies[i]!.remaining).to.equal(remaining);
            });
          }
        }),
        runs(name, 100, 8),
      ));

    it('a cost of 0 and a peek charge and write nothing', () =>
      fc.assert(
        fc.asyncProperty(policies, steps, async (list, requests) => {
          const clock = new TestClock();
          const limiter = limiterOn(createStore(clock.read), { policies: list });
          for (const { wait, cost } of requests) {
            clock.now += wait;
            await limiter.consume('key', { cost });
            const [first, second] = [await limiter.peek('key'), await limiter.peek('key')];
            await limiter.consume('key', { cost: 0 });
            const third = await limiter.peek('key');
            expect(second.policies).to.deep.equal(first.policies);
            expect(third.policies).to.deep.equal(first.policies);
          }
        }),
        runs(name, 30, 4),
      ));
  });
}
