// Law 6. Only the store's clock counts. A clock that jumps back or forth never locks a key out for more than one window.
import { expect } from 'chai';
import fc from 'fast-check';
import type { Decision } from 'headgate';
import { redisStore } from 'headgate/redis';
import { describeLaw } from '../support/kit.js';
import { algorithms, overhangOf, policyOf, windowed, windowOf } from '../support/policies.js';
import { runs } from '../support/random.js';
import { serverKinds } from '../support/shared-servers.js';
import { clients, freshPrefix, limiterOn, stores, TestClock } from '../support/stores.js';

describeLaw('law 6, clock');

for (const name of serverKinds) {
  describe(`law 6, clock, on ${name}`, () => {
    it("a client's own clock does not matter", async () => {
      const prefix = freshPrefix();
      const policies = windowed.map((algorithm) =>
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

for (const [name, create] of Object.entries(stores)) {
  it(`law 6, on ${name}: a fixed window counts, whenever it ends`, async () => {
    const policies = ['w=fixed-window 5/1m', 'slots=concurrency 100/1m'];
    // A fixed window on Redis keeps its end modulo 2^31.
    for (const rest of [0, 1, 500, 30_000, 200_000, 2_000_000, 2 ** 30, 2 ** 31 - 1]) {
      const clock = new TestClock();
      clock.now = Math.ceil(clock.now / 2 ** 31) * 2 ** 31 + rest - 60_000;
      const limiters = [
        limiterOn(create(clock.read), { policies }),
        limiterOn(create(clock.read), { policies: policies.slice(0, 1) }),
      ];
      for (const limiter of limiters) {
        const first = await limiter.consume('key', { cost: 4 });
        expect((await limiter.peek('key')).policies[0], String(rest)).to.include({ remaining: 1 });
        await first.settle(2);
        const allowed = [];
        for (let i = 0; i < 5; i++) allowed.push((await limiter.consume('key')).allowed);
        expect(allowed, String(rest)).to.deep.equal([true, true, true, false, false]);
        await limiter.close();
      }
    }
  });

  for (const policy of [
    ...['fixed-window', 'sliding-window', 'sliding-log', 'token-bucket', 'leaky-bucket', 'gcra'].map(
      (algorithm) => `${algorithm} 5/12s`,
    ),
    'calendar 5/month',
    'fixed-window 2000000/12s',
  ])
    it(`law 6, on ${name}: after the clock went back by a millisecond, a refund of ${policy} returns its units`, async () => {
      const clock = new TestClock();
      const limiter = limiterOn(create(clock.read), { policies: policy });
      const { limit } = await limiter.peek('key');
      const decision = await limiter.consume('key', { cost: 2 });
      const busy = await limiter.consume('busy', { cost: 2 });
      clock.now -= 1;
      await decision.refund();
      await limiter.consume('busy');
      for (let i = 0; i < 2; i++) await busy.refund();
      // A bucket's debt lasts until the time that it would have lasted anyway.
      clock.now += 1;
      expect((await limiter.peek('key')).remaining).to.equal(limit);
      expect((await limiter.peek('busy')).remaining).to.equal(limit - 1);
      await limiter.close();
    });

  it(`law 6, on ${name}: after the clock went back, a look returns the verdict of a decision, and the decision makes that verdict last`, () =>
    fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...algorithms).chain((algorithm) => policyOf(algorithm)),
        fc.array(fc.constantFrom(1, 2, 5), { minLength: 1, maxLength: 8 }),
        fc.constantFrom(-1, -700, -20_000, -3_600_000, -86_400_000),
        fc.nat(5_000),
        async (policy, costs, jump, later) => {
          const clock = new TestClock();
          const limiter = limiterOn(create(clock.read), policy);
          for (const cost of costs) await limiter.consume('key', { cost });
          clock.now += jump;
          const facts = ({ allowed, retryAfterMs }: Decision) => ({ allowed, retryAfterMs });
          // Looks write nothing, so each look counts from its own time. No look returns a wait of more than a window.
          const early = await limiter.peek('key');
          clock.now += later;
          const look = await limiter.peek('key');
          for (const { retryAfterMs = 0 } of [early, look]) {
            expect(retryAfterMs).to.be.at.most(windowOf(policy) + overhangOf(policy));
          }
          const decision = await limiter.consume('key');
          expect(facts(look)).to.deep.equal(facts(decision));
          if (decision.allowed) return limiter.close();
          const end = clock.now + decision.retryAfterMs!;
          expect(facts(await limiter.peek('key'))).to.deep.equal(facts(decision));
          clock.now = end - 1;
          expect(facts(await limiter.peek('key'))).to.deep.equal({ allowed: false, retryAfterMs: 1 });
          clock.now = end;
          expect((await limiter.peek('key')).allowed).to.be.true;
          return limiter.close();
        },
      ),
      runs(name, 2_000, 100),
    ));
}
