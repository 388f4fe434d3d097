import { expect } from 'chai';
import {
  type Cost,
  type Decision,
  type HeadgateError,
  type Policy,
  consumeAll,
  createLimiter,
  memoryStore,
} from 'headgate';
import { rateLimited } from 'headgate/decorators';
import { countedServer } from '../support/counted-server.js';
import { waitRequest } from '../support/requests.js';
import { limiterOn, stores, TestClock } from '../support/stores.js';
import { around } from '../support/around.js';

const HOUR_MS = 3_600_000;
const requests: Policy = { name: 'requests', limit: 5, window: '1h' };
const tokens: Policy = { name: 'tokens', limit: 1000, window: '1h', unit: 'tokens' };

/** One policy of each algorithm. */
const of = (name: string, limit: number): Policy[] => [
  { name, algorithm: 'sliding-window', limit, window: '1h' },
  { name, algorithm: 'fixed-window', limit, window: '1h' },
  { name, algorithm: 'sliding-log', limit, window: '1h' },
  { name, algorithm: 'token-bucket', limit, window: '1h' },
  { name, algorithm: 'leaky-bucket', limit, window: '1h' },
  { name, algorithm: 'gcra', limit, window: '1h', burst: limit },
  { name, algorithm: 'calendar', limit, period: 'day' },
  { name, algorithm: 'concurrency', limit, lease: '1h' },
];

const remainingUnits = ({ policies }: Decision) =>
  Object.fromEntries(policies.map(({ name, remaining }) => [name, remaining]));

const failure = async (act: () => unknown): Promise<HeadgateError> => {
  try {
    await act();
  } catch (error) {
    return error as HeadgateError;
  }
  throw new Error('The call did not fail.');
};

for (const [name, createStore] of Object.entries(stores)) {
  describe(`a cost per policy, on ${name}`, () => {
    const make = (options: object) => {
      const clock = new TestClock();
      return { clock, limiter: limiterOn(createStore(clock.read), options as never) };
    };

    it('charges each policy its own units, and 1 unit if it is not named', async () => {
      const { limiter } = make({ policies: [requests, tokens] });
      const decision = await limiter.consume('k', { cost: { tokens: 800 } });
      expect(remainingUnits(decision)).to.deep.equal({ requests: 4, tokens: 200 });
      expect(decision).to.include({ allowed: true, policy: 'requests', cost: 1, charged: 1, remaining: 4 });
      expect(decision.costs).to.deep.equal({ requests: 1, tokens: 800 });
      expect(remainingUnits(await limiter.peek('k'))).to.deep.equal({ requests: 4, tokens: 200 });
      await limiter.consume('k', { cost: { requests: 2 } });
      expect(remainingUnits(await limiter.peek('k'))).to.deep.equal({ requests: 2, tokens: 199 });
      await limiter.consume('k', { cost: { requests: 0, tokens: 99 } });
      expect(remainingUnits(await limiter.peek('k', { cost: { tokens: 1 } }))).to.deep.equal({
        requests: 2,
        tokens: 100,
      });
    });

    it('charges all or none, and reports how long the same cost is denied', async () => {
      const { limiter, clock } = make({ policies: [requests, tokens] });
      await limiter.consume('k', { cost: { tokens: 800 } });
      const denied = await limiter.consume('k', { cost: { tokens: 300 } });
      expect(denied).to.include({ allowed: false, policy: 'tokens', cost: 300, charged: 0 });
      expect(remainingUnits(await limiter.peek('k'))).to.deep.equal({ requests: 4, tokens: 200 });
      expect((await limiter.peek('k', { cost: { tokens: 200 } })).allowed).to.be.true;
      clock.now += denied.retryAfterMs! - 1;
      expect((await limiter.consume('k', { cost: { tokens: 300 } })).allowed).to.be.false;
      clock.now += 1;
      expect((await limiter.consume('k', { cost: { tokens: 300 } })).allowed).to.be.true;
    });

    it('names the policy that can never admit a cost', async () => {
      const { limiter } = make({ policies: [requests, tokens], warnings: false });
      const denied = await limiter.consume('k', { cost: { tokens: 1001 } });
      expect(denied).to.include({ reason: 'cost-exceeds-capacity', policy: 'tokens', cost: 1001 });
      expect(denied.retryAfterMs).to.equal(undefined);
      expect((await limiter.consume('k', { cost: { requests: 6 } })).policy).to.equal('requests');
    });

    it('all algorithms together: denied by each in turn, no policy is charged', async () => {
      const policies = of('', 10).map((policy, i) => ({ ...policy, name: `p${i}` }));
      const { limiter } = make({ policies });
      const costs = Object.fromEntries(policies.map((policy, i) => [policy.name, i + 1]));
      const decision = await limiter.consume('k', { cost: costs });
      const expected = policies.map((_, i) => 10 - (i + 1));
      expect(decision.policies.map(({ remaining }) => remaining)).to.deep.equal(expected);
      for (const [i, policy] of policies.entries()) {
        const denied = await limiter.consume('k', { cost: { [policy.name]: 10 - i } });
        expect(denied).to.include({ allowed: false, policy: policy.name });
        expect((await limiter.peek('k')).policies.map(({ remaining }) => remaining)).to.deep.equal(expected);
      }
      const other = await limiter.consume('k', { cost: { p0: 2, p7: 0 } });
      expect(other.allowed).to.be.true;
      await other.cancel();
      await decision.cancel();
      expect((await limiter.peek('k')).policies.map(({ remaining }) => remaining)).to.deep.equal(
        policies.map(() => 10),
      );
    });

    for (const policy of of('units', 100)) {
      const { algorithm } = policy;
      if (algorithm === 'concurrency') continue;

      it(`${algorithm}: settle and refund are exact for each policy`, async () => {
        const { limiter } = make({ policies: [requests, policy] });
        const first = await limiter.consume('k', { cost: { units: 60 } });
        const second = await limiter.consume('k', { cost: { units: 30, requests: 2 } });
        await second.settle({ units: 10 });
        expect(second.charged).to.equal(second.policy === 'requests' ? 2 : 10);
        expect(remainingUnits(await limiter.peek('k', { cost: 0 }))).to.deep.equal({
          requests: 2,
          units: 30,
        });
        await first.settle({ units: 85, requests: 0 });
        expect(remainingUnits(await limiter.peek('k', { cost: 0 }))).to.deep.equal({ requests: 3, units: 5 });
        await first.settle({ units: 70 });
        await first.settle(1);
        expect(remainingUnits(await limiter.peek('k', { cost: 0 }))).to.deep.equal({
          requests: 2,
          units: 89,
        });
        await second.refund();
        expect(remainingUnits(await limiter.peek('k', { cost: 0 }))).to.deep.equal({
          requests: 4,
          units: 99,
        });
        await first.refund();
        expect(remainingUnits(await limiter.peek('k', { cost: 0 }))).to.deep.equal({
          requests: 5,
          units: 100,
        });
        await first.settle({ units: 7 });
        await limiter.consume('k', { cost: { units: 20 } });
        await limiter.refund('k', { units: 20 });
        expect(remainingUnits(await limiter.peek('k', { cost: 0 }))).to.deep.equal({
          requests: 5,
          units: 93,
        });
      });
    }

    it('takes as many slots as the cost of its policy, gives them back, and renews them', async () => {
      const slots: Policy = { name: 'slots', algorithm: 'concurrency', limit: 4, lease: '1m' };
      const wide: Policy = { name: 'wide', algorithm: 'concurrency', limit: 9, lease: '1m' };
      const { limiter, clock } = make({ policies: [requests, slots, wide] });
      const held = await limiter.acquire('k', { cost: { slots: 3 } });
      expect(remainingUnits(held)).to.deep.equal({ requests: 4, slots: 1, wide: 8 });
      expect(limiter.gauges.slots).to.equal(3);
      const empty = await limiter.acquire('k', { cost: { slots: 0 } });
      expect(remainingUnits(empty)).to.deep.equal({ requests: 3, slots: 1, wide: 7 });
      expect(await limiter.acquire('k', { cost: { slots: 2 } })).to.include({
        allowed: false,
        policy: 'slots',
      });
      clock.now += 50_000;
      expect(await held.renew()).to.be.true;
      expect(await empty.renew()).to.be.true;
      clock.now += 50_000;
      expect(remainingUnits(await limiter.peek('k'))).to.deep.equal({ requests: 3, slots: 1, wide: 7 });
      expect(await empty.release()).to.be.true;
      expect(await held.release()).to.be.true;
      expect(await held.release()).to.be.false;
      expect(remainingUnits(await limiter.peek('k'))).to.deep.equal({ requests: 3, slots: 4, wide: 9 });
      const without = await limiter.consume('k', { cost: { slots: 0, wide: 0 } });
      expect(await without.release()).to.be.false;
      expect(limiter.gauges.slots).to.equal(0);
    });

    it('charges attempts their own cost, and none to a policy that costs 0', async () => {
      const { limiter } = make({
        policies: [requests, { name: 'tries', limit: 100, window: '1h', count: 'attempts' }],
      });
      await limiter.consume('k', { cost: { requests: 5, tries: 0 } });
      expect(remainingUnits(await limiter.peek('k', { cost: 0 }))).to.deep.equal({ requests: 0, tries: 100 });
      expect((await limiter.consume('k', { cost: { tries: 40 } })).allowed).to.be.false;
      expect((await limiter.consume('k', { cost: { tries: 0 } })).allowed).to.be.false;
      expect(remainingUnits(await limiter.peek('k', { cost: 0 }))).to.deep.equal({ requests: 0, tries: 60 });
      expect(await limiter.consume('k', { cost: { requests: 0, tries: 61 } })).to.include({
        allowed: false,
        policy: 'tries',
      });
    });

    it('a shadow has its own cost, too, and never denies', async () => {
      const { limiter } = make({ policies: [requests, { ...tokens, shadow: true }] });
      await limiter.consume('k', { cost: { tokens: 900 } });
      const decision = await limiter.consume('k', { cost: { tokens: 200 } });
      expect(decision.allowed).to.be.true;
      expect(remainingUnits(decision)).to.deep.equal({ requests: 3, tokens: 100 });
      await decision.settle({ tokens: 5 });
      expect(remainingUnits(await limiter.peek('k'))).to.deep.equal({ requests: 3, tokens: 100 });
    });

    it('knows the names of all tiers: those of other tiers have no effect', async () => {
      const { limiter } = make({ tiers: { free: [requests], pro: [requests, tokens] } });
      const cost = { tokens: 700 };
      expect(remainingUnits(await limiter.consume('k', { tier: 'free', cost }))).to.deep.equal({
        requests: 4,
      });
      const pro = await limiter.consume('k', { tier: 'pro', cost });
      expect(remainingUnits(pro)).to.deep.equal({ requests: 3, tokens: 300 });
      const free = await limiter.consume('k', { tier: 'free', cost: 1 });
      await free.settle({ tokens: 5 });
      expect((await failure(() => free.settle({ token: 5 }))).code).to.equal('HEADGATE_UNKNOWN_POLICY');
    });

    it('by several dimensions: each key is charged by its own policies', async () => {
      const { limiter } = make({
        policies: [{ ...tokens, by: 'org' }, requests, { ...tokens, name: 'own', by: 'account' }],
      });
      const key = { key: 'ip', org: 'acme', account: 'ada' };
      const decision = await limiter.consume(key, { cost: { tokens: 600, own: 300 } });
      expect(remainingUnits(decision)).to.deep.equal({ tokens: 400, requests: 4, own: 700 });
      const other = { org: 'acme', account: 'bob' };
      const denied = await limiter.consume(other, { cost: { tokens: 500 } });
      expect(denied).to.include({ allowed: false, policy: 'tokens' });
      expect(remainingUnits(await limiter.consume(other, { cost: { tokens: 0, own: 0 } }))).to.deep.equal({
        tokens: 400,
        own: 1000,
      });
      await decision.settle({ tokens: 100 });
      expect(remainingUnits(await limiter.peek(key))).to.deep.equal({ tokens: 900, requests: 4, own: 700 });
      await limiter.refund({ org: 'acme' }, { tokens: 100 });
      expect(remainingUnits(await limiter.peek(key))).to.deep.equal({ tokens: 1000, requests: 4, own: 700 });
    });

    it('waits for the policy that denies, in order', async () => {
      const limiter = limiterOn(createStore(), {
        policies: [
          { name: 'requests', algorithm: 'token-bucket', limit: 1000, window: '1s' },
          { name: 'tokens', algorithm: 'token-bucket', limit: 1000, window: '1s' },
        ],
      });
      await limiter.consume('k', { cost: { tokens: 1000 } });
      const came: number[] = [];
      const waits = [200, 100, 1].map(async (units) => {
        const { allowed } = await limiter.wait('k', { cost: { tokens: units }, timeout: '5s' });
        expect(allowed).to.be.true;
        came.push(units);
      });
      await Promise.all(waits);
      expect(came).to.deep.equal([200, 100, 1]);
      const error = await failure(() => limiter.wait('k', { cost: { tokens: 1001 } }));
      expect(error.code).to.equal('HEADGATE_DENIED');
      await limiter.close();
    });

    it('simultaneous requests of different costs: each its own, never over the limit', async () => {
      const { limiter } = make({ policies: [{ ...requests, limit: 100 }, tokens] });
      const all = await Promise.all(
        Array.from({ length: 60 }, (_, i) =>
          limiter.consume('k', i % 3 === 0 ? { cost: { tokens: 70 } } : i % 3 === 1 ? { cost: 2 } : {}),
        ),
      );
      let [inRequests, inTokens] = [0, 0];
      for (const { allowed, costs } of all) {
        if (!allowed) continue;
        inRequests += costs['requests']!;
        inTokens += costs['tokens']!;
      }
      expect(inTokens).to.be.within(901, 1000);
      expect(remainingUnits(await limiter.peek('k'))).to.deep.equal({
        requests: 100 - inRequests,
        tokens: 1000 - inTokens,
      });
    });

    it('under an override, also of another tier', async () => {
      const { limiter } = make({
        policies: [requests, tokens],
        tiers: {
          pro: [
            { ...tokens, limit: 5000 },
            { ...requests, limit: 50 },
          ],
        },
        overrides: true,
      });
      await limiter.override('k', { tokens: { limit: 2000 } });
      expect(remainingUnits(await limiter.consume('k', { cost: { tokens: 1500 } }))).to.deep.equal({
        requests: 4,
        tokens: 500,
      });
      await limiter.override('k', { tier: 'pro' });
      const decision = await limiter.consume('k', { cost: { tokens: 3000 } });
      expect(remainingUnits(decision)).to.deep.equal({ tokens: 500, requests: 48 });
      await decision.settle({ tokens: 1 });
      expect(remainingUnits(await limiter.peek('k'))).to.deep.equal({ tokens: 3499, requests: 48 });
      await limiter.override('k', { tokens: false });
      expect(remainingUnits(await limiter.consume('k', { cost: { tokens: 3000 } }))).to.deep.equal({
        requests: 2,
      });
      await limiter.close();
    });

    it('counts for bans, and denials are remembered only for this cost', async () => {
      const { limiter, clock } = make({ policies: [requests, tokens] });
      await limiter.consume('k', { cost: { tokens: 990 } });
      for (let i = 0; i < 3; i++)
        expect((await limiter.consume('k', { cost: { tokens: 11 } })).allowed).to.be.false;
      expect((await limiter.consume('k', { cost: { tokens: 10 } })).allowed).to.be.true;
      expect((await limiter.consume('k', { cost: { requests: 3, tokens: 0 } })).allowed).to.be.true;
      expect((await limiter.consume('k', { cost: { tokens: 0 } })).allowed).to.be.false;
      clock.now += 2 * HOUR_MS;
      expect((await limiter.consume('k', { cost: { tokens: 11 } })).allowed).to.be.true;
    });
  });
}

describe('a cost per policy', () => {
  const limiter = () => createLimiter({ policies: [requests, tokens] });

  const WRONG: [what: string, cost: unknown, code: string, text: RegExp][] = [
    ['an unknown name', { token: 5 }, 'HEADGATE_UNKNOWN_POLICY', /"token"\. .*"requests", "tokens"\. See/],
    ['a fraction', { tokens: 1.5 }, 'HEADGATE_INVALID_COST', /cost\.tokens: 1\.5 .*whole number/],
    [
      'undefined, as of a missing field',
      { tokens: undefined },
      'HEADGATE_INVALID_COST',
      /cost\.tokens: undefined/,
    ],
    ['a negative number', { tokens: -1 }, 'HEADGATE_INVALID_COST', /cost\.tokens: -1/],
    ['a text', { tokens: '5' }, 'HEADGATE_INVALID_COST', /cost\.tokens: "5"/],
    ['a list', [1, 800], 'HEADGATE_INVALID_COST', /\{ tokens: 800 \}/],
    ['a map', new Map([['tokens', 5]]), 'HEADGATE_INVALID_COST', /\{ tokens: 800 \}/],
    ['an empty object', {}, 'HEADGATE_INVALID_COST', /\{ tokens: 800 \}/],
    ['null', null, 'HEADGATE_INVALID_COST', /\{ tokens: 800 \}/],
    ['a name of every object', JSON.parse('{ "__proto__": 5 }'), 'HEADGATE_UNKNOWN_POLICY', /"__proto__"/],
    ['an inherited name', { constructor: 5 }, 'HEADGATE_UNKNOWN_POLICY', /"constructor"/],
  ];

  for (const [what, given, code, text] of WRONG)
    it(`refuses ${what}, in every call with a cost, before anything is charged`, async () => {
      const tested = limiter();
      const cost = given as Cost;
      const decision = await tested.consume('k');
      for (const act of [
        () => tested.consume('k', { cost }),
        () => tested.peek('k', { cost }),
        () => tested.wait('k', { cost }),
        () => tested.refund('k', cost),
        () => decision.settle(cost),
        () => consumeAll([{ limiter: tested, key: 'k', cost }]),
        () => rateLimited(() => 1, { limiter: tested, cost })(),
        () => rateLimited(() => 1, { limiter: tested, cost: () => cost })(),
        () => rateLimited(() => 1, { policies: [requests, tokens], cost }),
      ]) {
        const error = await failure(act);
        expect(error.code, String(act)).to.equal(code);
        expect(error.message, String(act)).to.match(text);
      }
      expect(remainingUnits(await tested.peek('k'))).to.deep.equal({ requests: 4, tokens: 999 });
    });

  it('a fixed cost above a capacity is refused when the limiter is made', () => {
    const cost = { tokens: 2000 };
    expect(() => rateLimited(() => 1, { policies: [requests, tokens], cost })).to.throw(/'tokens'.*\b1000\b/);
    expect(() => rateLimited(() => 1, { limiter: limiter(), cost })).to.throw(/'tokens'.*\b1000\b/);
    rateLimited(() => 1, { policies: [requests, tokens], cost: { tokens: 1000 } });
  });

  it('a single policy may be named, too', async () => {
    const tested = createLimiter('10/1m');
    expect((await tested.consume('k', { cost: { default: 4 } })).remaining).to.equal(6);
  });

  it('a promise that was not awaited is not a cost', async () => {
    const cost = Promise.resolve(1) as never;
    expect((await failure(() => limiter().consume('k', { cost }))).code).to.equal('HEADGATE_INVALID_COST');
  });

  it('a full memory store needs no room for a key without a charge', async () => {
    const tested = createLimiter({
      store: memoryStore({ maxKeys: 100, onFull: 'deny' }),
      policies: [
        { name: 'requests', limit: 1, window: '1h' },
        { ...tokens, by: 'org' },
      ],
      warnings: false,
    });
    for (let i = 0; i < 100; i++) await tested.consume({ org: `${i}` }, { cost: { tokens: 1000 } });
    const key = { key: 'k', org: 'new' };
    expect(await tested.consume(key)).to.include({ allowed: false, reason: 'store-full' });
    expect(await tested.consume(key, { cost: { requests: 0 } })).to.include({ reason: 'store-full' });
    const decision = await tested.consume(key, { cost: { tokens: 0 } });
    expect(decision).to.include({ allowed: true, reason: undefined });
    expect(remainingUnits(decision)).to.deep.equal({ requests: 0, tokens: 1000 });
  });

  it('names policies of the request, however many others there were', async () => {
    const limiter = createLimiter({ limit: 5, window: '1h' });
    for (let i = 0; i < 120; i++) limiter.compile([{ name: `p${i}`, limit: 10, window: '1h' }]);
    const set = limiter.compile([tokens, { ...requests, by: 'account' }]);
    const all = await limiter.decide({ key: 'k', account: 'ada' }, { requests: 2, tokens: 500 }, set);
    await all.settle({ tokens: 200 });
    const some = await limiter.decide({ key: 'k' }, { requests: 2, tokens: 100 }, set);
    expect(remainingUnits(some)).to.deep.equal({ tokens: 700 });
    const request = waitRequest({ key: 'k' }, set, { cost: { requests: 2, tokens: 700 } });
    await limiter.internals.waits.waitBy(request);
    expect((await failure(() => some.settle({ other: 1 }))).code).to.equal('HEADGATE_UNKNOWN_POLICY');
  });

  it('consumeAll takes a cost per policy for each limiter', async () => {
    const [a, b] = [limiter(), createLimiter('1/1h')];
    const asks = [
      { limiter: a, key: 'k', cost: { tokens: 500 } },
      { limiter: b, key: 'k' },
    ];
    expect((await consumeAll(asks)).allowed).to.be.true;
    expect((await consumeAll(asks)).allowed).to.be.false;
    expect(remainingUnits(await a.peek('k'))).to.deep.equal({ requests: 4, tokens: 500 });
  });

  it('holds a request for the policy that paces it', async () => {
    const tested = createLimiter({
      policies: [
        { name: 'all', limit: 1000, window: '1m' },
        { name: 'pace', algorithm: 'leaky-bucket', limit: 4, window: '1s', burst: 1, maxDelay: '1s' },
      ],
    });
    await tested.consume('k');
    const decision = await tested.consume('k', { cost: { all: 0 } });
    expect(decision.delayMs).to.be.within(1, 250);
    expect((await tested.hold(decision)).allowed).to.be.true;
    expect((await tested.consume('k', { cost: { pace: 0 } })).delayMs).to.equal(0);
    await tested.close();
  });
});

describe('a cost per policy, in calls of a server', () => {
  const counted = countedServer();
  const fixed = { algorithm: 'fixed-window', window: '1h' } as const;
  const policies: Policy[] = [
    { name: 'requests', limit: 1e6, ...fixed },
    { name: 'tokens', limit: 1e9, ...fixed },
  ];

  it('needs no separate call: costs of either kind share one', async () => {
    const tested = limiterOn(counted.store(), { policies });
    await tested.consume('first');
    const ask = (cost: (i: number) => Cost) => () =>
      Promise.all(Array.from({ length: 60 }, (_, i) => tested.consume(`k${i}`, { cost: cost(i) })));
    for (const cost of [
      (i: number) => i,
      (i: number) => ({ tokens: i }),
      (i: number) => (i % 2 ? { tokens: i } : 5),
    ])
      expect(await counted.callsOf(ask(cost))).to.be.below(10);
  });

  it('a denial is remembered for the same costs, and for no others', async () => {
    const tested = limiterOn(counted.store(), { policies: [requests, tokens] });
    await tested.consume('k', { cost: { tokens: 990 } });
    const ask = (cost: Cost) => tested.consume('k', { cost });
    expect((await ask({ tokens: 20 })).allowed).to.be.false;
    const calls = await counted.callsOf(async () => {
      for (let i = 0; i < 20; i++)
        expect(await ask({ requests: 1, tokens: 20 })).to.include({
          allowed: false,
          policy: 'tokens',
          cost: 20,
        });
    });
    expect(calls).to.equal(0);
    expect(await counted.callsOf(() => ask({ tokens: 20, requests: 2 }))).to.equal(1);
    expect(await counted.callsOf(() => ask(20))).to.equal(1);
    expect((await ask({ tokens: 10 })).allowed).to.be.true;
  });

  it('beside slices, the store decides, and every unit is charged once', async () => {
    const store = counted.store({ slices: true });
    const tested = limiterOn(store, { policies });
    for (let i = 0; i < 500; i++) await tested.consume('hot');
    const calls = await counted.callsOf(async () => {
      for (let i = 0; i < 50; i++) await tested.consume('hot', { cost: { tokens: 7 } });
    });
    expect(calls).to.be.within(50, 60);
    await store.close!();
    expect(remainingUnits(await tested.peek('hot'))).to.deep.equal({
      requests: 1e6 - 550,
      tokens: 1e9 - 500 - 350,
    });
  });
});

describe('a cost per policy, without an answer from the store', () => {
  const costs = { cost: { tokens: 300 } };

  it('is charged and settled by the process that decides instead', async () => {
    const store = memoryStore();
    const tested = createLimiter({
      store: { ...around(store), decide: () => Promise.reject(new Error('It is away.')) },
      policies: [requests, tokens],
      warnings: false,
    });
    const decision = await tested.consume('k', costs);
    expect(decision).to.include({ degraded: true, allowed: true });
    expect(remainingUnits(decision)).to.deep.equal({ requests: 4, tokens: 700 });
    await decision.settle({ tokens: 100 });
    expect(remainingUnits(await tested.peek('k'))).to.deep.equal({ requests: 4, tokens: 900 });
    await tested.close();
  });

  it('is given back completely if the answer comes after the request was denied', async () => {
    const store = memoryStore();
    const slots: Policy = { name: 'slots', algorithm: 'concurrency', limit: 5, lease: '1h' };
    const policies = [requests, tokens, slots];
    let delay = 60;
    const tested = createLimiter({
      store: {
        ...around(store),
        decide: async (query) => {
          const reply = store.decide(query);
          await new Promise((resolve) => setTimeout(resolve, delay));
          return reply;
        },
      },
      policies,
      onStoreError: 'deny',
      timeout: '20ms',
      connectTimeout: '20ms',
      warnings: false,
    });
    expect((await tested.consume('k', { cost: { tokens: 300, slots: 3 } })).reason).to.equal('store-error');
    await new Promise((resolve) => setTimeout(resolve, 120));
    delay = 0;
    const other = createLimiter({ store, policies, name: 'default', warnings: false });
    expect(remainingUnits(await other.peek('k'))).to.deep.equal({ requests: 5, tokens: 1000, slots: 5 });
    await tested.close();
  });
});
