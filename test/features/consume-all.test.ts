import { expect } from 'chai';
import fc from 'fast-check';
import {
  consumeAll,
  createLimiter,
  type Ask,
  type HeadgateError,
  type Limiter,
  type Policy,
  type Store,
} from 'headgate';
import type { ChangeReply } from '../../src/contract/reply.js';
import { runs } from '../support/random.js';
import { limiterOn, memory, stores, TestClock } from '../support/stores.js';

for (const [name, createStore] of Object.entries(stores)) {
  describe(`consumeAll on ${name}`, () => {
    function setup() {
      const store = createStore(new TestClock().read);
      const perAddress = limiterOn(store, { name: 'address', limit: 10, window: '1m' });
      const perAccount = limiterOn(store, { name: 'account', policies: 'token-bucket 3/1m' });
      const slots = limiterOn(store, { name: 'slots', algorithm: 'concurrency', limit: 4, lease: '1m' });
      const all: Ask[] = [
        { limiter: perAddress, key: '10.0.0.1' },
        { limiter: perAccount, key: 'ada', cost: 2 },
        { limiter: slots, key: 'all' },
      ];
      const remainingUnits = () => remaining(all);
      return { perAddress, perAccount, slots, all, left: remainingUnits };
    }

    it('charges all if all admit', async () => {
      const { all, left } = setup();
      const joint = await consumeAll(all);
      expect(joint.allowed).to.be.true;
      expect(joint.decisions).to.have.length(3);
      expect(joint.decision).to.include({ key: 'ada', limit: 3, remaining: 1 });
      expect(await left()).to.deep.equal([9, 1, 3]);
      await joint.refund();
      expect(await left()).to.deep.equal([10, 3, 3]);
      await joint.release();
      expect(await left()).to.deep.equal([10, 3, 4]);
    });

    it('reports a limiter whose policies apply to the request, in any order', async () => {
      const { perAddress, slots } = setup();
      const byOrg = limiterOn(createStore(new TestClock().read), { limit: 5, window: '1m', by: 'org' });
      const withoutOrg: Ask = { limiter: byOrg, key: { org: undefined } };
      const withOrg: Ask[] = [
        { limiter: perAddress, key: '10.0.0.1', cost: 5 },
        { limiter: slots, key: 'all' },
      ];
      for (const order of [
        [withoutOrg, ...withOrg],
        [...withOrg, withoutOrg],
        [withOrg[1]!, withoutOrg, withOrg[0]!],
      ]) {
        const joint = await consumeAll(order);
        expect(joint.decision).to.include({ key: '10.0.0.1', limit: 10, remaining: 5 });
        await joint.cancel();
      }
      expect((await consumeAll([withoutOrg])).decision).to.include({ allowed: true, limit: 0 });
    });

    it('a shadow, and a limiter that is off, do not change the reported limiter', async () => {
      const { perAddress } = setup();
      const store = createStore(new TestClock().read);
      const small = { limit: 1, window: '1m' } as const;
      const silent = [
        limiterOn(store, { ...small, name: 'shadow', shadow: true }),
        limiterOn(store, { name: 'tried', policies: [{ ...small, shadow: true }] }),
        limiterOn(store, {
          ...{ name: 'off', algorithm: 'token-bucket', limit: 10, burst: 1, window: '1m' },
          enabled: false,
        }),
      ].map((limiter) => ({ limiter, key: 'k' }));
      const asks = [...silent, { limiter: perAddress, key: 'k' }];
      for (const remaining of [9, 8])
        for (const order of [asks, [...asks].reverse()]) {
          const joint = await consumeAll(order);
          expect(joint.decision).to.include({ allowed: true, limit: 10, remaining, reason: undefined });
          if (order === asks) await joint.decisions.at(-1)!.refund();
        }
      expect((await consumeAll(silent.slice(0, 1))).decision).to.include({ reason: 'quota-exceeded' });
    });

    it('charges none if one denies, whatever the order', async () => {
      const { all, left, perAccount } = setup();
      await perAccount.consume('ada', { cost: 2 });
      const before = await left();
      for (const order of [all, [...all].reverse(), [all[1]!, all[0]!, all[2]!]]) {
        const joint = await consumeAll(order);
        expect(joint).to.include({ allowed: false });
        expect(joint.decision).to.include({ key: 'ada', allowed: false, reason: 'quota-exceeded' });
        expect(joint.decision.retryAfterMs).to.equal(20_000);
        expect(await left()).to.deep.equal(before);
        await joint.cancel();
        expect(await left()).to.deep.equal(before);
      }
    });

    it('releases slots at the end of a block', async () => {
      const { all, left } = setup();
      {
        await using joint = await consumeAll(all);
        expect(joint.allowed).to.be.true;
        expect((await left())[2]).to.equal(3);
      }
      expect((await left())[2]).to.equal(4);
    });

    it('is a conjunction: admits if each alone would, else leaves each as it was', () =>
      fc.assert(
        fc.asyncProperty(
          fc.array(fc.constantFrom('fixed-window', 'sliding-window', 'sliding-log', 'gcra', 'concurrency'), {
            minLength: 1,
            maxLength: 4,
          }),
          fc.array(fc.record({ keys: fc.nat(80), cost: fc.integer({ min: 1, max: 4 }) }), { maxLength: 12 }),
          async (algorithms, requests) => {
            const clock = new TestClock();
            const store = createStore(clock.read);
            const limiters = algorithms.map((algorithm, i) => {
              const span = algorithm === 'concurrency' ? { lease: '1m' } : { window: '1m' };
              const options = { name: `l${i}`, algorithm, limit: 3 + 2 * i, ...span };
              return limiterOn(store, options as never);
            });
            for (const { keys, cost } of requests) {
              // One of three keys for each limiter.
              const all = limiters.map((limiter, i) => ({
                limiter,
                key: `k${Math.floor(keys / 3 ** i) % 3}`,
                cost,
              }));
              const before = await remaining(all);
              const looks = await Promise.all(all.map(({ limiter, key }) => limiter.peek(key, { cost })));
              const { allowed } = await consumeAll(all);
              expect(allowed).to.equal(looks.every((look) => look.allowed));
              expect(await remaining(all)).to.deep.equal(
                before.map((units) => (allowed ? units - cost : units)),
              );
            }
          },
        ),
        runs(name, 100, 10),
      ));
  });
}

function remaining(dimensions: readonly Ask[]): Promise<number[]> {
  return Promise.all(dimensions.map(async ({ limiter, key }) => (await limiter.peek(key)).remaining));
}

describe('consumeAll', () => {
  const limiter = createLimiter({ limit: 5, window: '1h' });
  const broken: Store = {
    decide: () => Promise.reject(new Error('down')),
    adjust: () => Promise.reject(new Error('down')),
    lease: () => Promise.reject(new Error('down')),
    reset: () => {},
    ban: () => {},
  };
  const codeOf = (promise: Promise<unknown>) =>
    promise.catch((error: HeadgateError) => error.code ?? error.message);

  for (const [what, dimensions, code] of [
    ['nothing', [], 'HEADGATE_INVALID_OPTION'],
    ['no array', { limiter, key: 'k' }, 'HEADGATE_INVALID_OPTION'],
    ['no limiter', [{ limiter, key: 'k' }, { key: 'k' }], 'HEADGATE_INVALID_OPTION'],
    ['no key', [{ limiter, key: 'k' }, { limiter }], 'HEADGATE_INVALID_KEY'],
    [
      'a negative cost',
      [
        { limiter, key: 'k' },
        { limiter, key: 'k', cost: -1 },
      ],
      'HEADGATE_INVALID_COST',
    ],
    [
      'unknown fields',
      [
        { limiter, key: 'k' },
        { limiter, key: 'k', points: 1 },
      ],
      'HEADGATE_UNKNOWN_OPTION',
    ],
  ] as const) {
    it(`refuses ${what}, and charges nothing`, async () => {
      expect(await codeOf(consumeAll(dimensions as never))).to.equal(code);
      expect((await limiter.peek('k')).remaining).to.equal(5);
    });
  }

  it('gives back the charges when a store fails', async () => {
    const failing = limiterOn(broken, { limit: 1, window: '1h' });
    expect(
      await codeOf(
        consumeAll([
          { limiter, key: 'failing' },
          { limiter: failing, key: 'k' },
        ]),
      ),
    ).to.equal('HEADGATE_STORE_ERROR');
    expect((await limiter.peek('failing')).remaining).to.equal(5);
  });

  it('denies although the charges cannot be given back', async () => {
    const inner = memory();
    const forgetful: Store = {
      decide: (query) => inner.decide(query),
      adjust: () => Promise.reject(new Error('down')),
      lease: () => Promise.reject(new Error('down')),
      reset: () => {},
      ban: () => {},
    };
    const first = limiterOn(forgetful, { limit: 5, window: '1h' });
    const joint = await consumeAll([
      { limiter: first, key: 'k' },
      { limiter, key: 'k', cost: 6 },
    ]);
    expect(joint.decision).to.include({ allowed: false, reason: 'cost-exceeds-capacity' });
  });

  const policies: Policy[] = [
    { name: 'units', limit: 5, window: '1h' },
    { name: 'slots', algorithm: 'concurrency', limit: 4, lease: '1m' },
  ];
  const leftOf = async (of: Limiter) => (await of.peek('k')).policies.map((verdict) => verdict.remaining);

  /** A limiter on a store in this process, whose changes of charges go through `change`. */
  function changing(change: <T>(work: () => T) => Promise<T>): Limiter {
    const inner = memory();
    const store: Store = {
      embedded: true,
      decide: (query) => inner.decide(query),
      adjust: (asked) => change(() => inner.adjust(asked) as ChangeReply),
      lease: (asked) => change(() => inner.lease(asked) as boolean),
      reset: (subject) => inner.reset(subject),
      ban: (subject, ms) => inner.ban(subject, ms),
    };
    return createLimiter({ store, policies });
  }

  it('has given all units back when it ends, however long a store takes', async () => {
    const slow = changing(async (work) => {
      await new Promise(setImmediate);
      return work();
    });
    const isFull = async () => expect(await leftOf(slow)).to.deep.equal([5, 4]);
    await consumeAll([
      { limiter: slow, key: 'k' },
      { limiter, key: 'k', cost: 6 },
    ]);
    await isFull();
    const failing = createLimiter({ ...policies[0]!, name: 'failing', store: broken, onStoreError: 'throw' });
    const dimensions = [slow, failing].map((each) => ({ limiter: each, key: 'k' }));
    expect(await codeOf(consumeAll(dimensions))).to.equal('HEADGATE_STORE_ERROR');
    await isFull();
    {
      await using joint = await consumeAll([{ limiter: slow, key: 'k' }]);
      expect(await leftOf(slow)).to.deep.equal([4, 3]);
      await joint.refund();
    }
    await isFull();
  });

  it('rejects with a store’s error after all limiters were tried', async () => {
    const forgetful = changing(() => Promise.reject(new Error('down')));
    const right = createLimiter({ policies });
    for (const act of ['refund', 'release', 'cancel'] as const) {
      const joint = await consumeAll([forgetful, right].map((each) => ({ limiter: each, key: 'k' })));
      expect(await codeOf(joint[act]())).to.equal('down');
      expect(await leftOf(right)).to.deep.equal({ refund: [5, 3], release: [4, 4], cancel: [5, 4] }[act]);
      await joint.decisions[1]!.cancel();
    }
  });

  it('asks no limiter before all costs are valid', async () => {
    let calls = 0;
    const counting = createLimiter({ limit: 5, window: '1h', onDecision: () => calls++ });
    const dimensions = [1, -1].map((cost) => ({ limiter: counting, key: 'k', cost }));
    expect(await codeOf(consumeAll(dimensions))).to.equal('HEADGATE_INVALID_COST');
    expect(calls).to.equal(0);
  });
});
