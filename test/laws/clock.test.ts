// Law 6. Only the store's clock counts, and one that jumps back or forth never locks a key out for more than one window.
import { expect } from 'chai';
import fc from 'fast-check';
import { algorithms, overhangOf, policyOf, windowOf } from '../support/policies.js';
import { runs } from '../support/random.js';
import { serverKinds } from '../support/shared-servers.js';
import { clients, freshPrefix, limiterOn, stores, TestClock } from '../support/stores.js';
import { redisStore } from 'headgate/redis';

const DAY = 24 * 3_600_000;

const spending = fc.array(
  fc.record({
    // Jumps of up to days, as long as the store's time stays ahead of the server's.
    wait: fc.oneof(
      fc.integer({ min: 0, max: 5_000 }),
      fc.constantFrom(-1, -1_000, -60_000, -3_600_000, -DAY, 3_600_000, DAY),
    ),
    cost: fc.constantFrom(1, 1, 2, 5, 20),
    owe: fc.constantFrom(0, 0, 0, 3, 1_000),
  }),
  { minLength: 1, maxLength: 9 },
);

for (const [name, createStore] of Object.entries(stores)) {
  describe(`law 6, clock, on ${name}`, () => {
    for (const algorithm of algorithms) {
      it(`${algorithm}: whatever the clock did, a unit is free within one window`, () =>
        fc.assert(
          fc.asyncProperty(policyOf(algorithm), spending, async (policy, steps) => {
            const clock = new TestClock();
            const limiter = limiterOn(createStore(clock.read), policy);
            for (const { wait, cost, owe } of steps) {
              clock.now += wait;
              const decision = await limiter.consume('key', { cost });
              await decision.settle(cost + owe);
            }
            const { allowed, retryAfterMs } = await limiter.consume('key');
            if (allowed) return;
            expect(retryAfterMs).to.be.at.most(windowOf(policy) + overhangOf(policy));
            clock.now += retryAfterMs!;
            expect((await limiter.consume('key')).allowed).to.be.true;
          }),
          runs(name, 200, 15),
        ));
    }

    it('a ban never lasts longer than it was made for', () =>
      fc.assert(
        fc.asyncProperty(fc.constantFrom(-DAY, -3_600_000, -1, 0, 1, 3_600_000), async (jump) => {
          const clock = new TestClock();
          const limiter = limiterOn(createStore(clock.read), { limit: 10, window: 1_000, ban: {} });
          await limiter.ban('key', 60_000);
          clock.now += jump;
          const { retryAfterMs } = await limiter.consume('key');
          expect(retryAfterMs).to.be.at.most(60_000);
          clock.now += retryAfterMs!;
          expect((await limiter.consume('key')).allowed).to.be.true;
        }),
        { numRuns: 6 },
      ));
  });
}

for (const name of serverKinds) {
  describe(`law 6, clock, on ${name}`, () => {
    it("a client's own clock does not matter", async () => {
      const prefix = freshPrefix();
      const policies = algorithms.map((algorithm) =>
        algorithm === 'concurrency'
          ? { name: algorithm, algorithm, limit: 3, lease: '1h' }
          : { name: algorithm, algorithm, limit: 3, window: '1h' },
      );
      const { now } = Date;
      const decide = async (skew: number) => {
        const limiter = limiterOn(redisStore(clients[name], { prefix }), {
          name: 'shared',
          policies: policies,
        });
        Date.now = () => now() + skew;
        try {
          return await limiter.consume('key');
        } finally {
          Date.now = now;
        }
      };
      const decisions = [];
      for (const skew of [0, 2 * 3_600_000, -2 * 3_600_000, 2 * 3_600_000])
        decisions.push(await decide(skew));
      expect(decisions.map(({ allowed }) => allowed)).to.deep.equal([true, true, true, false]);
      for (const { policies: verdicts } of decisions) {
        for (const { resetAfterMs } of verdicts) expect(resetAfterMs).to.be.within(0, 1.1 * 3_600_000);
      }
    });
  });
}
