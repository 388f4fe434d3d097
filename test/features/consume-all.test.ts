import { expect } from 'chai';
import fc from 'fast-check';
import { consumeAll, createLimiter, type Dimension, type HeadgateError, type Store } from 'headgate';
import { runs } from '../support/random.js';
import { limiterOn, memory, stores, TestClock } from '../support/stores.js';

for (const [name, createStore] of Object.entries(stores)) {
  describe(`consumeAll on ${name}`, () => {
    function setup() {
      const store = createStore(new TestClock().read);
      const perAddress = limiterOn(store, { name: 'address', limit: 10, window: '1m' });
      const perAccount = limiterOn(store, {
        name: 'account',
        algorithm: 'token-bucket',
        limit: 3,
        window: '1m',
      });
      const slots = limiterOn(store, { name: 'slots', algorithm: 'concurrency', limit: 4, lease: '1m' });
      const all: Dimension[] = [
        { limiter: perAddress, key: '10.0.0.1' },
        { limiter: perAccount, key: 'ada', cost: 2 },
        { limiter: slots, key: 'all' },
      ];
      const left = () => remaining(all);
      return { perAddress, perAccount, slots, all, left };
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

    it('tells of a limiter whose policies apply to the request, wherever the others stand', async () => {
      const { perAddress, slots } = setup();
      const byOrg = limiterOn(createStore(new TestClock().read), { limit: 5, window: '1m', by: 'org' });
      const none: Dimension = { limiter: byOrg, key: { org: undefined } };
      const some: Dimension[] = [
        { limiter: perAddress, key: '10.0.0.1' },
        { limiter: slots, key: 'all' },
      ];
      for (const order of [
        [none, ...some],
        [...some, none],
        [some[1]!, none, some[0]!],
      ])
        expect((await consumeAll(order)).decision).to.include({ key: 'all', limit: 4 });
      expect((await consumeAll([none])).decision).to.include({ allowed: true, limit: 0 });
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
              // A key of three for each limiter.
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

function remaining(dimensions: readonly Dimension[]): Promise<number[]> {
  return Promise.all(dimensions.map(async ({ limiter, key }) => (await limiter.peek(key)).remaining));
}

describe('consumeAll', () => {
  const limiter = createLimiter({ limit: 5, window: '1h' });
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

  it('gives back what was charged when a store fails', async () => {
    const broken: Store = {
      decide: () => Promise.reject(new Error('down')),
      adjust: () => Promise.reject(new Error('down')),
      lease: () => Promise.reject(new Error('down')),
      reset: () => {},
      ban: () => {},
    };
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

  it('denies although what was charged cannot be given back', async () => {
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
});
