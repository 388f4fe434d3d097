import { expect } from 'chai';
import fc from 'fast-check';
import type { Policy } from 'headgate';
import { algorithms, overhangOf, policyOf, windowed, windowOf } from '../../support/policies.js';
import { runs } from '../../support/random.js';
import { limiterOn, stores, TestClock, type CreateStore } from '../../support/stores.js';

const spending = fc.array(
  fc.record({ wait: fc.constantFrom(0, 0, 1, 100, 700, 5_000), cost: fc.integer({ min: 1, max: 6 }) }),
  { minLength: 1, maxLength: 15 },
);

const ranges = {
  limits: [1, 2, 3, 5, 7, 10, 100],
  windows: [1_000, 1_500, 7_000, 60_000],
  maxDelays: [0, 500],
};

/** Two ways to change a limit: another set of the same limiter (a tier), and another limiter of the same name (a new process). */
const ways = ['another set', 'another process'] as const;

/** Spends by one policy, then looks by another. */
async function change(
  createStore: CreateStore,
  way: (typeof ways)[number],
  before: Policy,
  after: Policy,
  steps: readonly { wait: number; cost: number }[],
) {
  const clock = new TestClock();
  const store = createStore(clock.read);
  const first = limiterOn(store, { name: 'x', ...before });
  for (const { wait, cost } of steps) {
    clock.now += wait;
    await first.consume('k', { cost });
  }
  const old = await first.peek('k', { cost: 1 });
  if (way === 'another process') await first.close();
  const second = way === 'another process' ? limiterOn(store, { name: 'x', ...after }) : first;
  const set = way === 'another process' ? second.set : first.compile([after]);
  const ask = async (cost: number) => second.decide('k', cost, set);
  return { clock, old, ask };
}

for (const [name, createStore] of Object.entries(stores)) {
  describe(`changing a limit live, on ${name}`, () => {
    it('fixed-window: from less than a million units to millions, and back', async () => {
      const small = { algorithm: 'fixed-window', limit: 1_000_000, window: '1h' } as const;
      const limiter = limiterOn(createStore(new TestClock().read), small);
      const [low, high] = [small, { ...small, limit: 10_000_000 }].map((one) => limiter.compile([one]));
      expect(await limiter.decide('k', 900_000, low)).to.include({ allowed: true, remaining: 100_000 });
      for (const remaining of [8_100_000, 7_100_000, 6_100_000, 5_100_000, 4_100_000])
        expect(await limiter.decide('k', 1_000_000, high)).to.include({ allowed: true, remaining });
      const denied = { allowed: false, remaining: 0, retryAfterMs: 3_600_000 };
      expect(await limiter.decide('k', 1, low)).to.include(denied);
    });

    for (const algorithm of algorithms) {
      it(`${algorithm}: after any change, a unit is free within one new window`, () =>
        fc.assert(
          fc.asyncProperty(
            fc.constantFrom(...ways),
            policyOf(algorithm, ranges),
            policyOf(algorithm, ranges),
            spending,
            async (way, before, after, steps) => {
              const { clock, ask } = await change(createStore, way, before, after, steps);
              const decision = await ask(1);
              if (decision.allowed) return;
              const { retryAfterMs } = decision;
              expect(retryAfterMs).to.be.within(1, windowOf(after) + overhangOf(after));
              // The announced wait holds.
              clock.now += retryAfterMs! - 1;
              expect((await ask(1)).allowed).to.be.false;
              clock.now += 1;
              expect((await ask(1)).allowed).to.be.true;
            },
          ),
          runs(name, 150, 10),
        ));

      it(`${algorithm}: a higher limit gives more units at once`, () =>
        fc.assert(
          fc.asyncProperty(
            fc.constantFrom(...ways),
            policyOf(algorithm, ranges),
            fc.integer({ min: 1, max: 100 }),
            spending,
            async (way, random, more, steps) => {
              // With the default burst, which equals the limit.
              const { burst: _, ...before } = random as Policy & { burst?: number };
              const after = { ...before, limit: before.limit + more } as Policy;
              const { old, ask } = await change(createStore, way, before, after, steps);
              const { remaining } = await ask(0);
              // Counters keep the spent units. A bucket with another rate is full.
              if (/bucket|gcra/.test(algorithm)) expect(remaining).to.equal(after.limit);
              else expect(remaining).to.equal(old.remaining + more);
              expect((await ask(1)).retryAfterMs).to.be.at.most(old.retryAfterMs! + 1);
            },
          ),
          runs(name, 150, 10),
        ));
    }

    it('a bucket of another rate or burst is another bucket, and full', async () => {
      const before = { algorithm: 'token-bucket', limit: 10, window: '1m', burst: 20 } as const;
      const spent = [{ wait: 0, cost: 20 }];
      for (const changed of [{ burst: 25 }, { burst: 5 }, { limit: 11 }, { window: '2m' }]) {
        const after = { ...before, ...changed };
        const { ask } = await change(createStore, 'another process', before, after, spent);
        expect((await ask(0)).remaining).to.equal(after.burst);
      }
    });

    it('a count of another window or other segments is another count', async () => {
      const spent = [{ wait: 0, cost: 10 }];
      for (const algorithm of ['fixed-window', 'sliding-window', 'sliding-log'] as const) {
        const before = { algorithm, limit: 10, window: '1m' } as Policy;
        const changes = [{ window: '2m' }, ...(algorithm === 'sliding-window' ? [{ segments: 5 }] : [])];
        for (const changed of changes) {
          const { ask } = await change(
            createStore,
            'another process',
            before,
            { ...before, ...changed },
            spent,
          );
          expect((await ask(0)).remaining).to.equal(10);
        }
      }
    });

    it('behaves as in the guide, with a spent limit of 10 per minute', async () => {
      const at = { limit: 10, window: '1m' } as const;
      const waits: Record<string, [higher: number | undefined, lower: number | undefined]> = {};
      for (const algorithm of windowed.filter((each) => each !== 'concurrency')) {
        const before = { algorithm, ...at } as Policy;
        const spent = [{ wait: 0, cost: 10 }];
        const higher = await change(createStore, 'another process', before, { ...before, limit: 100 }, spent);
        const lower = await change(createStore, 'another process', before, { ...before, limit: 1 }, spent);
        waits[algorithm] = [(await higher.ask(1)).retryAfterMs, (await lower.ask(1)).retryAfterMs];
      }
      expect(waits).to.deep.equal({
        'fixed-window': [0, 60_000],
        'sliding-window': [0, 66_000],
        'sliding-log': [0, 60_000],
        'token-bucket': [0, 0],
        'leaky-bucket': [0, 0],
        gcra: [0, 0],
      });
    });
  });
}
