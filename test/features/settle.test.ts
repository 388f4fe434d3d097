import { expect } from 'chai';
import fc from 'fast-check';
import type { Redis } from 'ioredis';
import { createLimiter, HeadgateError, type Decision, type Policy, type Store } from 'headgate';
import { slidingLog } from '../../src/algorithms/sliding-log.js';
import { burstOf, overhangOf, policyOf, windowed, windowOf } from '../support/policies.js';
import { runs } from '../support/random.js';
import { clients, limiterOn, memory, stores, TestClock } from '../support/stores.js';

const quotas = windowed.filter((algorithm) => algorithm !== 'concurrency');

const step = fc.record({
  wait: fc.constantFrom(0, 0, 0.01, 0.1, 0.5, 1, 1.2),
  act: fc.constantFrom('consume', 'consume', 'consume', 'settle', 'refund', 'twice', 'give'),
  cost: fc.constantFrom(0, 1, 1, 2, 5, 100, 1_000_000),
  which: fc.nat(30),
});

for (const [name, createStore] of Object.entries(stores)) {
  describe(`settle and refund on ${name}`, () => {
    for (const algorithm of quotas) {
      const setup = (fields: object = {}) => {
        const clock = new TestClock();
        const policy = { algorithm, limit: 10, window: '1m', ...fields } as Policy;
        const limiter = limiterOn(createStore(clock.read), policy);
        const remaining = async () => (await limiter.peek('k')).remaining;
        return { clock, limiter, remaining };
      };

      describe(algorithm, () => {
        it('gives back an excess, and charges a shortfall', async () => {
          const { limiter, remaining } = setup();
          const decision = await limiter.consume('k', { cost: 5 });
          await decision.settle(2);
          expect(await remaining()).to.equal(8);
          expect(decision.charged).to.equal(2);
          await decision.settle(7);
          expect(await remaining()).to.equal(3);
          await decision.settle(7);
          expect(await remaining()).to.equal(3);
          await decision.refund();
          expect(await remaining()).to.equal(10);
        });

        it('charges a cost that is known only afterwards', async () => {
          const { limiter, remaining } = setup();
          const decision = await limiter.consume('k', { cost: 0 });
          expect(await remaining()).to.equal(10);
          await decision.settle(4);
          expect(await remaining()).to.equal(6);
        });

        it('drains to zero, and carries a debt of no more than one window', async () => {
          const { clock, limiter } = setup();
          const decision = await limiter.consume('k');
          await decision.settle(1_000_000);
          const { remaining, retryAfterMs } = await limiter.peek('k', { cost: 1 });
          expect(remaining).to.equal(0);
          expect(retryAfterMs).to.be.within(1, 66_000);
          clock.now += retryAfterMs!;
          expect((await limiter.peek('k')).allowed).to.be.true;
        });

        it('gives a later charge back where it was charged', async () => {
          const { clock, limiter, remaining } = setup();
          const decision = await limiter.consume('k', { cost: 2 });
          clock.now += decision.resetAfterMs;
          await decision.settle(5);
          expect(await remaining()).to.equal(7);
          await decision.refund();
          expect(await remaining()).to.equal(10);
        });

        it('forgives no other charge when the charge that drained the quota is given back', async () => {
          const { limiter, remaining } = setup();
          await limiter.consume('k', { cost: 4 });
          const decision = await limiter.consume('k');
          await decision.settle(1_000_000);
          await decision.settle(0);
          expect(await remaining()).to.be.at.most(6);
        });

        it('refunds once, however often it is called', async () => {
          const { limiter, remaining } = setup();
          await limiter.consume('k', { cost: 3 });
          const decision = await limiter.consume('k', { cost: 2 });
          await Promise.all([decision.refund(), decision.refund(), decision.settle(0)]);
          expect(await remaining()).to.equal(7);
        });

        it('ends a second refund only when the units of the first are back', async () => {
          const { limiter } = setup();
          const decision = await limiter.consume('k', { cost: 4 });
          const ends: string[] = [];
          const first = decision.refund().then(() => ends.push('first'));
          await Promise.all([decision.refund().then(() => ends.push('second')), first]);
          expect(ends).to.deep.equal(['first', 'second']);
        });

        it('has no effect on a denied request, or on a look', async () => {
          const { limiter, remaining } = setup();
          await limiter.consume('k', { cost: 9 });
          const denied = await limiter.consume('k', { cost: 2 });
          expect(denied).to.include({ allowed: false, charged: 0 });
          await denied.refund();
          await denied.settle(5);
          const looked = await limiter.peek('k');
          await looked.refund();
          await looked.settle(5);
          expect(await remaining()).to.equal(1);
        });

        it('refunds nothing once the charge has expired by itself', async () => {
          const { clock, limiter, remaining } = setup();
          const decision = await limiter.consume('k', { cost: 6 });
          clock.now += decision.resetAfterMs;
          await limiter.consume('k', { cost: 5 });
          await decision.refund();
          expect(await remaining()).to.equal(5);
          const idle = await limiter.consume('idle', { cost: 6 });
          clock.now += idle.resetAfterMs + 120_000;
          await idle.refund();
          expect((await limiter.peek('idle')).remaining).to.equal(10);
        });

        it('gives back by hand, never more than the charge', async () => {
          const { limiter, remaining } = setup();
          await limiter.consume('k', { cost: 6 });
          await limiter.refund('k', 2);
          expect(await remaining()).to.equal(6);
          await limiter.refund('k', 1_000_000);
          expect(await remaining()).to.equal(10);
          await limiter.refund('stranger', 5);
          expect((await limiter.peek('stranger')).remaining).to.equal(10);
        });

        it('never raises the quota above its capacity, below zero, or beyond one window, and never counts less than the charges', () =>
          fc.assert(
            fc.asyncProperty(
              policyOf(algorithm, { windows: [1_000, 1_500, 60_000] }),
              fc.array(step, { minLength: 1, maxLength: 30 }),
              async (policy, steps) => {
                const clock = new TestClock();
                const limiter = limiterOn(createStore(clock.read), policy);
                const window = windowOf(policy) + overhangOf(policy);
                const decisions: Decision[] = [];
                for (const { wait, act, cost, which } of steps) {
                  clock.now += Math.round(wait * windowOf(policy));
                  const decision = decisions[which % decisions.length];
                  if (act === 'consume') decisions.push(await limiter.consume('k', { cost }));
                  else if (act === 'settle') await decision?.settle(cost);
                  else if (act === 'refund') await decision?.refund();
                  else if (act === 'twice') await Promise.all([decision?.refund(), decision?.refund()]);
                  else await limiter.refund('k', cost);
                  const { remaining, retryAfterMs, resetAfterMs } = await limiter.peek('k');
                  expect(remaining).to.be.within(0, burstOf(policy));
                  expect(retryAfterMs).to.be.at.most(window);
                  expect(resetAfterMs).to.be.at.least(0);
                }
              },
            ),
            runs(name, 150, 8),
          ));
      });
    }

    it('settles every policy, and leaves slots to release', async () => {
      const limiter = limiterOn(createStore(new TestClock().read), {
        policies: [
          { name: 'minute', limit: 10, window: '1m' },
          { name: 'hour', algorithm: 'token-bucket', limit: 100, window: '1h' },
          { name: 'slots', algorithm: 'concurrency', limit: 4, lease: '1m' },
        ],
      });
      const remainingUnits = async () => (await limiter.peek('k')).policies.map(({ remaining }) => remaining);
      const decision = await limiter.consume('k', { cost: 3 });
      await decision.settle(5);
      expect(await remainingUnits()).to.deep.equal([5, 95, 1]);
      await decision.refund();
      expect(await remainingUnits()).to.deep.equal([10, 100, 1]);
      await decision.cancel();
      expect(await remainingUnits()).to.deep.equal([10, 100, 4]);
      await decision.cancel();
      expect(await remainingUnits()).to.deep.equal([10, 100, 4]);
    });

    it('gives a shadow back only its own charge', async () => {
      const limiter = limiterOn(createStore(new TestClock().read), {
        policies: [
          { name: 'real', limit: 10, window: '1m' },
          { name: 'tried', limit: 2, window: '1m', shadow: true },
        ],
      });
      await limiter.consume('k', { cost: 2 });
      const decision = await limiter.consume('k', { cost: 2 });
      expect(decision.policies[1]).to.include({ allowed: false, remaining: 0 });
      await decision.refund();
      const { policies } = await limiter.peek('k');
      expect(policies.map(({ remaining }) => remaining)).to.deep.equal([8, 0]);
    });

    it('a log does not grow with units that were given back', async () => {
      const clock = new TestClock();
      const limiter = limiterOn(createStore(clock.read), { policies: 'sliding-log 8/1h' });
      const open: Decision[] = [];
      const admitted: number[] = [];
      for (let i = 0; i < 300; i++) {
        clock.now += 1;
        open.push(await limiter.consume('k'));
        if (i % 50 === 0) admitted.push(clock.now);
        if (open.length > 2) {
          const [oldest] = open.splice(0, 1) as [Decision];
          if ((i - 2) % 50 !== 0) await oldest.refund();
        }
      }
      for (const each of open) await each.refund();
      expect(await limiter.peek('k')).to.include({
        remaining: 2,
        resetAfterMs: admitted[5]! + 3_600_000 - clock.now,
      });
      expect(await limiter.peek('k', { cost: 4 })).to.include({
        retryAfterMs: admitted[1]! + 3_600_000 - clock.now,
      });
      const client = (clients as Record<string, Redis | undefined>)[name];
      const [key] = client ? await client.keys(`*:k}l2@1h`) : [];
      if (key !== undefined) expect(await client!.strlen(key)).to.be.at.most(29 + 8 * 13);
      clock.now = admitted[2]! + 3_600_000;
      expect((await limiter.peek('k')).remaining).to.equal(5);
    });
  });
}

describe('settle and refund', () => {
  it('a log in memory does not grow with units that were given back', () => {
    const p = { limit: 8, window: 3_600_000 };
    const column = slidingLog.createColumn(1, p);
    for (let now = 1000; now < 1300; now++) {
      column.look(1, p, 1, now);
      column.commit(1, p, 1, now);
      column.adjust(1, p, { units: -1, now, of: { mark: now - 2 + p.window, at: now - 2, shift: 0 } });
    }
    expect(column.save(1)).to.have.length.at.most(1 + 2 * 13);
    expect(column.remaining).to.equal(6);
  });

  const failing = (inner: Store, fault = new Error('down')): { store: Store; down: boolean } => {
    const state = {
      down: false,
      store: {
        decide: async (query) => {
          if (state.down) throw fault;
          return inner.decide(query);
        },
        adjust: async (change) => {
          if (state.down) throw fault;
          return inner.adjust(change);
        },
        lease: async (change) => {
          if (state.down) throw fault;
          return inner.lease(change);
        },
        reset: (subject) => inner.reset(subject),
        ban: (subject, duration) => inner.ban(subject, duration),
      } satisfies Store,
    };
    return state;
  };

  it('settles a degraded decision in the process that charged it', async () => {
    const inner = memory();
    const state = failing(inner);
    const limiter = createLimiter({ store: state.store, name: 'x', limit: 10, window: '1h' });
    await limiter.consume('k', { cost: 2 });
    state.down = true;
    const local = await limiter.consume('k', { cost: 7 });
    expect(local).to.include({ allowed: true, degraded: true, remaining: 3 });
    await local.settle(4);
    expect(await limiter.consume('k', { cost: 0 })).to.include({ degraded: true, remaining: 6 });
    state.down = false;
    await local.refund();
    const stored = limiterOn(inner, { name: 'x', limit: 10, window: '1h' });
    expect((await stored.peek('k')).remaining).to.equal(8);
  });

  it('gives back no charge that may not have been made', async () => {
    const inner = memory();
    const state = failing(inner);
    const options = { name: 'x', limit: 10, window: '1h', onStoreError: 'throw' } as const;
    const limiter = createLimiter({ store: state.store, ...options });
    await limiter.consume('k', { cost: 4 });
    const decision = await limiter.consume('k');
    state.down = true;
    expect(await decision.settle(5).catch(() => 'failed')).to.equal('failed');
    state.down = false;
    await decision.refund();
    expect((await limiterOn(inner, options).peek('k')).remaining).to.equal(6);
  });

  describe('repeated after a failure', () => {
    const away = new HeadgateError('HEADGATE_STORE_AWAY', 'There is no connection.');
    const hour = { name: 'x', limit: 10, window: '1h' } as const;
    const setup = async (fault: Error, isEmbedded = false) => {
      const inner = memory();
      const state = failing(inner, fault);
      const store = isEmbedded ? Object.assign(state.store, { embedded: true }) : state.store;
      const decision = await createLimiter({ store, ...hour }).consume('k', { cost: 2 });
      state.down = true;
      const remaining = async () => (await limiterOn(inner, hour).peek('k')).remaining;
      return { state, decision, remaining };
    };
    const codeOf = (work: Promise<unknown>): Promise<unknown> =>
      work.then(
        () => 'done',
        (error: { code: string }) => error.code,
      );

    it('charges all units if the failed call charged nothing', async () => {
      const { state, decision, remaining } = await setup(away);
      expect(await codeOf(decision.settle(6))).to.equal('HEADGATE_STORE_AWAY');
      expect(decision.charged).to.equal(2);
      expect(await codeOf(decision.settle(6))).to.equal('HEADGATE_STORE_AWAY');
      state.down = false;
      await decision.settle(6);
      expect([decision.charged, await remaining()]).to.deep.equal([6, 4]);
      await decision.refund();
      expect(await remaining()).to.equal(10);
    });

    it('while the failed call is under way, charges all units, and leaves other policies', async () => {
      const inner = memory();
      const state = failing(inner, away);
      const policies = ['calls=fixed-window 9/1h', 'tokens=fixed-window 900/1h'] as const;
      const limiter = createLimiter({ store: state.store, name: 'x', policies });
      const decision = await limiter.consume('k');
      state.down = true;
      const failed = codeOf(decision.settle({ calls: 5, tokens: 70 }));
      const last = decision.settle({ tokens: 80 });
      state.down = false;
      await Promise.all([failed, last]);
      expect(await failed).to.equal('HEADGATE_STORE_AWAY');
      expect((await limiter.usage('k')).policies.map(({ used }) => used)).to.deep.equal([1, 80]);
    });

    it('after the store was down for a time', async () => {
      const { state, decision, remaining } = await setup(away);
      const limiter = createLimiter({ store: state.store, ...hour, name: 'other' });
      while (limiter.health.state === 'up') await limiter.consume('k');
      expect(await codeOf(decision.settle(6))).to.equal('HEADGATE_STORE_AWAY');
      state.down = false;
      while ((limiter.health.state as string) !== 'up')
        await new Promise((resolve) => setTimeout(resolve, 10));
      await decision.settle(6);
      expect(await remaining()).to.equal(4);
    });

    it('charges nothing twice if the outcome of the failed call is unknown', async () => {
      const { state, decision, remaining } = await setup(new Error('down'));
      expect(await codeOf(decision.settle(6))).to.equal('HEADGATE_STORE_ERROR');
      state.down = false;
      await decision.settle(6);
      expect(await remaining()).to.equal(8);
      await decision.settle(7);
      expect(await remaining()).to.equal(7);
    });

    it('gives units back once if a refund was refused', async () => {
      const { state, decision, remaining } = await setup(away, true);
      expect(await codeOf(decision.refund())).to.equal('HEADGATE_STORE_AWAY');
      expect(decision.charged).to.equal(2);
      state.down = false;
      await Promise.all([decision.refund(), decision.refund()]);
      await decision.refund();
      expect([decision.charged, await remaining()]).to.deep.equal([0, 10]);
    });

    it('gives units back once if a refund waited for the store', async () => {
      const { state, decision, remaining } = await setup(away);
      await decision.refund();
      await decision.refund();
      state.down = false;
      await decision.refund();
      while ((await remaining()) < 10) await new Promise((resolve) => setTimeout(resolve, 10));
      expect(await codeOf(decision.settle(3))).to.equal('done');
      expect(await remaining()).to.equal(7);
    });

    it('releases slots', async () => {
      const inner = memory();
      const state = failing(inner, new Error('down'));
      const store = Object.assign(state.store, { embedded: true });
      const limiter = createLimiter({ store, algorithm: 'concurrency', limit: 2, lease: '1m' });
      const decision = await limiter.consume('k');
      state.down = true;
      expect(await codeOf(decision.release())).to.equal(undefined);
      state.down = false;
      expect([await decision.release(), await decision.release()]).to.deep.equal([true, false]);
      expect((await limiter.peek('k')).remaining).to.equal(2);
    });
  });

  it('charges nothing for a request that was admitted without any store', async () => {
    const state = failing(memory());
    state.down = true;
    const limiter = createLimiter({ store: state.store, limit: 10, window: '1h', onStoreError: 'allow' });
    const decision = await limiter.consume('k', { cost: 7 });
    expect(decision).to.include({ allowed: true, reason: 'store-error', charged: 0 });
    await decision.settle(9);
    await decision.cancel();
  });

  for (const cost of [-1, 1.5, NaN, Infinity, '3', undefined, 1e13]) {
    it(`refuses ${String(cost)}, and changes nothing`, async () => {
      const limiter = createLimiter({ limit: 10, window: '1h' });
      const decision = await limiter.consume('k', { cost: 2 });
      const refused: unknown = await decision.settle(cost as number).catch((error: unknown) => error);
      expect(refused).to.include({ code: 'HEADGATE_INVALID_COST' });
      if (cost !== undefined) {
        const byHand: unknown = await limiter.refund('k', cost as number).catch((error: unknown) => error);
        expect(byHand).to.include({ code: 'HEADGATE_INVALID_COST' });
      }
      expect((await limiter.peek('k')).remaining).to.equal(8);
    });
  }
});
