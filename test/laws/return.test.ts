// Law 13. What is given back is as if it had never been charged: the same trace with and without it, compared verdict for verdict.
import { expect } from 'chai';
import fc from 'fast-check';
import type { Decision, Limiter, Policy } from 'headgate';
import { algorithms, policyOf } from '../support/policies.js';
import { runs } from '../support/random.js';
import { limiterOn, stores, TestClock, type CreateStore } from '../support/stores.js';

const ranges = { limits: [3, 5, 10, 100], windows: [1_000, 1_500, 60_000], maxDelays: [0] };
const isBucket = ({ algorithm }: Policy) => /bucket|gcra/.test(algorithm ?? '');

/** How a request is taken back, or made what another was charged at once. */
const ways = ['cancel', 'refund', 'settle', 'debt'] as const;

type Step =
  | { do: 'wait'; ms: number }
  | { do: 'consume'; cost: number }
  | { do: 'extra'; cost: number; way: (typeof ways)[number] }
  | { do: 'back'; which: number }
  | { do: 'reset' };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(1, 20, 130, 700) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('consume' as const), cost: fc.constantFrom(1, 1, 2) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('extra' as const),
      cost: fc.constantFrom(1, 1, 2, 3),
      way: fc.constantFrom(...ways),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('back' as const), which: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.constant({ do: 'reset' as const }) },
);

/** Two copies of one world: in the second, what is given back in the first was never asked. */
class Worlds {
  readonly clock = new TestClock();
  readonly real: Limiter;
  readonly never: Limiter;
  readonly #charged: { decision: Decision; way: (typeof ways)[number] }[] = [];

  constructor(createStore: CreateStore, policies: readonly Policy[]) {
    this.real = limiterOn(createStore(this.clock.read), { policies });
    this.never = limiterOn(createStore(this.clock.read), { policies });
  }

  async play(each: Step): Promise<void> {
    if (each.do === 'wait') {
      // A window begins with a request: an extra one that outlasted all others would have begun another window.
      const { policies } = await this.never.peek('k', { cost: 0 });
      if (policies.some(({ resetAfterMs }) => resetAfterMs <= each.ms)) await this.giveAllBack();
      this.clock.now += each.ms;
    } else if (each.do === 'consume') {
      // Both must answer alike, or the traces part: only when nothing is outstanding, or there is room in both.
      if ((await this.real.peek('k', { cost: each.cost })).allowed) {
        await this.real.consume('k', { cost: each.cost });
        await this.never.consume('k', { cost: each.cost });
      }
    } else if (each.do === 'extra') {
      const { policies } = await this.never.peek('k', { cost: 0 });
      if (policies.some(({ resetAfterMs }) => resetAfterMs === 0)) return;
      const cost = each.way === 'debt' ? 0 : each.cost;
      const decision = await this.real.consume('k', { cost });
      if (!decision.allowed) return;
      if (each.way === 'debt') {
        // Beyond what is left, and back: at once, as a debt denies all others.
        const one = await this.real.consume('k', { cost: 1 });
        if (!one.allowed) return;
        await one.settle(1 + 100 * each.cost);
        await one.settle(1);
        await this.never.consume('k', { cost: 1 });
      } else {
        this.#charged.push({ decision, way: each.way });
      }
    } else if (each.do === 'back') {
      await this.#giveBack(each.which);
    } else {
      await this.real.reset('k');
      await this.never.reset('k');
    }
  }

  async #giveBack(which: number): Promise<void> {
    const [extra] = this.#charged.splice(which % Math.max(1, this.#charged.length), 1);
    if (!extra) return;
    if (extra.way === 'cancel') await extra.decision.cancel();
    else if (extra.way === 'refund') await extra.decision.refund();
    else await extra.decision.settle(0);
  }

  async giveAllBack(): Promise<void> {
    while (this.#charged.length > 0) await this.#giveBack(0);
  }

  async compare(): Promise<void> {
    for (const cost of [0, 1, 2])
      expect((await this.real.peek('k', { cost })).policies).to.deep.equal(
        (await this.never.peek('k', { cost })).policies,
      );
  }
}

for (const [name, createStore] of Object.entries(stores)) {
  describe(`law 13, return, on ${name}`, function () {
    this.timeout(60_000);

    for (const algorithm of algorithms.filter((each) => each !== 'concurrency')) {
      const exact = !isBucket({ algorithm } as Policy);

      it(`${algorithm}: as if it had never been charged`, () =>
        fc.assert(
          fc.asyncProperty(
            policyOf(algorithm, ranges),
            fc.array(step, { minLength: 5, maxLength: 40, size: 'max' }),
            async (policy, steps) => {
              const worlds = new Worlds(createStore, [policy]);
              for (const each of steps) {
                // A bucket drains its charges in their order: what has drained of one is not given back.
                if (!exact && each.do === 'wait') await worlds.giveAllBack();
                await worlds.play(each);
              }
              await worlds.giveAllBack();
              await worlds.compare();
            },
          ),
          runs(name, 200, 10),
        ));
    }

    for (const algorithm of algorithms.filter((each) => isBucket({ algorithm: each } as Policy))) {
      it(`${algorithm}: a charge that has partly drained gives back no more than the rest, and no less than what time did not take`, () =>
        fc.assert(
          fc.asyncProperty(
            policyOf(algorithm, ranges),
            fc.integer({ min: 1, max: 3 }),
            fc.array(fc.tuple(fc.constantFrom(0, 1, 20, 300), fc.constantFrom(1, 2)), { maxLength: 8 }),
            async (policy, cost, others) => {
              const { clock, real, never } = new Worlds(createStore, [policy]);
              const start = clock.now;
              const extra = await real.consume('k', { cost });
              for (const [wait, units] of others) {
                clock.now += wait;
                if (!(await real.peek('k', { cost: units })).allowed) continue;
                await real.consume('k', { cost: units });
                await never.consume('k', { cost: units });
              }
              await extra.cancel();
              const [is, was] = [await real.peek('k', { cost: 0 }), await never.peek('k', { cost: 0 })];
              expect(is.resetAfterMs).to.be.within(
                was.resetAfterMs,
                was.resetAfterMs + clock.now - start + 1,
              );
            },
          ),
          runs(name, 200, 10),
        ));
    }

    it('after a reset, a refund takes nothing of what others were charged, even in the same millisecond', async () => {
      for (const algorithm of algorithms.filter((each) => each !== 'concurrency')) {
        for (const later of [0, 1]) {
          const clock = new TestClock();
          const limiter = limiterOn(createStore(clock.read), { algorithm, limit: 10, window: '1m' });
          const mine = await limiter.consume('k', { cost: 10 });
          clock.now += later;
          await limiter.reset('k');
          const others = await limiter.consume('k', { cost: 10 });
          await mine.refund();
          expect(await limiter.consume('k'), algorithm).to.include({ allowed: false });
          await others.refund();
          expect((await limiter.peek('k')).remaining, algorithm).to.equal(10);
        }
      }
    });

    it('a charge that drained the quota exactly, or beyond, is given back whole', async () => {
      for (const algorithm of algorithms.filter((each) => each !== 'concurrency')) {
        for (const most of [100, 130]) {
          const limiter = limiterOn(createStore(new TestClock().read), {
            algorithm,
            limit: 100,
            window: '1m',
          });
          const decision = await limiter.consume('k');
          await decision.settle(most);
          expect((await limiter.peek('k')).remaining).to.equal(0);
          await decision.settle(10);
          expect(decision.charged).to.equal(10);
          expect((await limiter.peek('k')).remaining, algorithm).to.equal(90);
        }
      }
    });

    it('a bucket: of several charges, what has drained of one is gone, whichever is given back first', async () => {
      for (const algorithm of ['token-bucket', 'leaky-bucket', 'gcra'] as const) {
        for (const later of [0, 1]) {
          const clock = new TestClock();
          const limiter = limiterOn(createStore(clock.read), { algorithm, limit: 100, window: 100_000 });
          const first = await limiter.consume('k', { cost: 50 });
          clock.now += later;
          const second = await limiter.consume('k', { cost: 50 });
          await first.cancel();
          clock.now += 50_000;
          await limiter.consume('k', { cost: 100 });
          await second.cancel();
          expect((await limiter.peek('k')).remaining, algorithm).to.equal(0);
        }
      }
    });

    it('buckets: whatever is given back in whatever order, never more is left than without it', () =>
      fc.assert(
        fc.asyncProperty(
          policyOf('token-bucket', ranges),
          fc.array(
            fc.oneof(
              fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(1, 20, 130, 700) }),
              fc.record({
                do: fc.constantFrom('keep' as const, 'extra' as const),
                cost: fc.constantFrom(1, 2, 5),
              }),
              fc.record({ do: fc.constant('back' as const), which: fc.nat(9) }),
            ),
            { minLength: 10, maxLength: 50, size: 'max' },
          ),
          async (policy, steps) => {
            const { clock, real, never } = new Worlds(createStore, [policy]);
            const extras: Decision[] = [];
            for (const each of steps) {
              if (each.do === 'wait') clock.now += each.ms;
              else if (each.do === 'back')
                await extras.splice(each.which % Math.max(1, extras.length), 1)[0]?.cancel();
              else if ((await real.peek('k', { cost: each.cost })).allowed) {
                const decision = await real.consume('k', { cost: each.cost });
                if (each.do === 'extra') extras.push(decision);
                else await never.consume('k', { cost: each.cost });
              }
            }
            for (const extra of extras) await extra.cancel();
            const [is, was] = [await real.peek('k', { cost: 0 }), await never.peek('k', { cost: 0 })];
            expect(is.resetAfterMs).to.be.at.least(was.resetAfterMs);
          },
        ),
        runs(name, 300, 15),
      ));

    it('a reset counts also where nothing was left to reset', async () => {
      const clock = new TestClock();
      const limiter = limiterOn(createStore(clock.read), {
        algorithm: 'token-bucket',
        limit: 5,
        window: 10_000,
      });
      const mine = await limiter.consume('k', { cost: 3 });
      await limiter.refund('k', 3);
      await limiter.reset('k');
      await limiter.consume('k', { cost: 3 });
      await mine.cancel();
      expect((await limiter.peek('k')).remaining).to.equal(2);
    });

    it('a reset reaches the tiers, too', async () => {
      const limiter = limiterOn(createStore(new TestClock().read), { limit: 5, window: 60_000 });
      const tier = limiter.compile([{ algorithm: 'token-bucket', limit: 10, window: 60_000 }]);
      await limiter.decide('k', 10, tier);
      await limiter.reset('k');
      expect(await limiter.decide('k', 0, tier)).to.include({ remaining: 10 });
    });

    it('sliding-log: a unit from anywhere in a long log', async () => {
      const clock = new TestClock();
      const limiter = limiterOn(createStore(clock.read), {
        algorithm: 'sliding-log',
        limit: 5_000,
        window: 60_000,
      });
      const charged: Decision[] = [];
      for (let i = 0; i < 2_500; i++) {
        clock.now += i % 3 === 0 ? 0 : 1;
        charged.push(await limiter.consume('k', { cost: 2 }));
      }
      expect((await limiter.peek('k')).remaining).to.equal(0);
      for (const [i, which] of [0, 2_499, 700, 1_900, 1].entries()) {
        await charged[which]!.settle(1);
        expect((await limiter.peek('k')).remaining).to.equal(i + 1);
      }
      // All have left at their own times: nothing was moved.
      const { resetAfterMs } = await limiter.peek('k', { cost: 0 });
      expect(resetAfterMs).to.equal(60_000);
      clock.now += 60_000 - 1;
      expect((await limiter.peek('k')).remaining).to.equal(5_000 - 3);
    });

    it('of two debts each is given back for itself', async () => {
      // A bucket carries one window of debt, and forgets what is beyond.
      for (const algorithm of ['fixed-window', 'sliding-window', 'sliding-log'] as const) {
        const limiter = limiterOn(createStore(new TestClock().read), {
          algorithm,
          limit: 10,
          window: 60_000,
        });
        const [one, two] = [await limiter.consume('k'), await limiter.consume('k')];
        await one.settle(1_000);
        await two.settle(12);
        await one.settle(0);
        expect((await limiter.peek('k')).remaining, algorithm).to.equal(0);
        await two.settle(9);
        expect((await limiter.peek('k')).remaining, algorithm).to.equal(1);
      }
    });

    it('sliding-log: the units of the charge, not the oldest', async () => {
      const clock = new TestClock();
      const limiter = limiterOn(createStore(clock.read), {
        algorithm: 'sliding-log',
        limit: 5,
        window: '1s',
      });
      await limiter.consume('k');
      clock.now += 900;
      await (await limiter.consume('k')).cancel();
      clock.now += 200;
      expect((await limiter.peek('k')).remaining).to.equal(5);
    });
  });
}
