// Policies by several keys in one limiter: valid keys of a request, refused ones, and waiting requests.
import { expect } from 'chai';
import {
  consumeAll,
  createLimiter,
  memoryStore,
  type CreateLimiterOptions,
  type LimiterOptions,
  type Key,
  type Limiter,
  type Policy,
} from 'headgate';
import { rateLimited } from 'headgate/decorators';
import { redisStore } from 'headgate/redis';
import { stateStore } from 'headgate/stores';
import { setsByDimension, select } from '../../src/contract/dimension-sets.js';
import { clients, freshPrefix, limiterOn, stores, TestClock } from '../support/stores.js';
import { serverKinds } from '../support/shared-servers.js';
import { around } from '../support/around.js';
import { codeOf } from '../support/errors.js';

const POLICIES: readonly Policy[] = [
  { name: 'ip', algorithm: 'fixed-window', limit: 3, window: '1m' },
  { name: 'account', algorithm: 'fixed-window', limit: 2, window: '1m', by: 'account' },
  { name: 'org', algorithm: 'fixed-window', limit: 5, window: '1h', by: 'org' },
];

for (const [name, createStore] of Object.entries(stores)) {
  describe(`policies by several keys, on ${name}`, () => {
    const open = (options: LimiterOptions & { policies?: Policy[] } = {}) => {
      const clock = new TestClock();
      const store = createStore(clock.read);
      return { clock, limiter: limiterOn(store, { policies: POLICIES, ...options }) };
    };
    const all = { key: '::1', account: 'ada', org: 'acme' };

    it('are decided together, and each verdict has its key', async () => {
      const { limiter } = open();
      const { key, policies } = await limiter.consume(all, { cost: 2 });
      expect(key).to.equal('::1');
      expect(policies.map((each) => [each.name, each.key, each.remaining])).to.deep.equal([
        ['ip', '::1', 1],
        ['account', 'ada', 0],
        ['org', 'acme', 3],
      ]);
      const denied = await limiter.consume({ ...all, key: 'elsewhere' });
      expect(denied).to.include({
        allowed: false,
        policy: 'account',
        key: 'elsewhere',
        retryAfterMs: 60_000,
      });
      expect(await limiter.peek('elsewhere')).to.include({ remaining: 3 });
    });

    it('a string is the key of the first dimension, and others do not apply', async () => {
      const { limiter } = open();
      for (const key of ['x', { key: 'x' }, { key: 'x', account: undefined }] satisfies Key[])
        expect((await limiter.consume(key)).policies.map((each) => each.name)).to.deep.equal(['ip']);
      expect(await limiter.consume('x')).to.include({ allowed: false });
      expect((await limiter.consume({ org: 'x', account: 'x' })).policies).to.have.length(2);
    });

    it('a decision contains the keys of the policies and of the ban', async () => {
      for (const ban of [undefined, { by: 'account' }]) {
        const { limiter } = open({ policies: POLICIES.slice(1, 2), ...(ban && { ban }) });
        expect(await limiter.consume({ key: '::1', account: 'ada' })).to.include({ key: 'ada' });
      }
      const { limiter } = open({ policies: POLICIES.slice(1, 2), ban: {} });
      expect(await limiter.consume({ key: '::1', account: 'ada' })).to.include({ key: '::1' });
    });

    it('no policy applies to a request without any of the keys', async () => {
      const { limiter } = open({ policies: POLICIES.slice(1) });
      const decision = await limiter.consume('::1', { cost: 100 });
      expect(decision).to.include({ allowed: true, charged: 0, policy: undefined, reason: undefined });
      expect(decision.policies).to.deep.equal([]);
      await decision.refund();
      expect(await limiter.wait({ key: '::1' })).to.include({ allowed: true });
      await limiter.reset('::1');
    });

    it('settle, release and cancel change the charge of each key', async () => {
      const { limiter } = open({
        policies: [
          ...POLICIES,
          { name: 'slots', algorithm: 'concurrency', limit: 2, lease: '1m', by: 'account' },
        ],
      });
      const decision = await limiter.acquire(all);
      await decision.settle(2);
      const remainingUnits = async () => (await limiter.peek(all)).policies.map(({ remaining }) => remaining);
      expect(await remainingUnits()).to.deep.equal([1, 0, 3, 1]);
      await decision.settle(1);
      expect(await decision.release()).to.be.true;
      expect(await remainingUnits()).to.deep.equal([2, 1, 4, 2]);
      await decision.cancel();
      expect(await remainingUnits()).to.deep.equal([3, 2, 5, 2]);
    });

    it('attempts are charged only to the key of their own dimension', async () => {
      const [ip, account] = POLICIES as [Policy, Policy];
      const { limiter } = open({ policies: [{ ...ip, count: 'attempts' } as Policy, account] });
      for (let i = 0; i < 3; i++) await limiter.consume({ key: 'x', account: 'ada' });
      expect(await limiter.peek('x')).to.include({ allowed: false });
      expect(await limiter.peek({ account: 'ada' })).to.include({ remaining: 0 });
      expect(await limiter.consume({ key: 'y', account: 'bob' })).to.include({ allowed: true });
    });

    it('a waiter with several keys is woken by a give-back to one of them', async () => {
      const { limiter } = open({
        policies: [{ name: 'slot', algorithm: 'concurrency', limit: 1, lease: '1h', by: 'org' }, ...POLICIES],
      });
      const held = await limiter.acquire({ key: 'a', org: 'acme' });
      const waiting = ['b', 'c'].map((key) => limiter.wait({ key, org: 'acme' }));
      await held.release();
      const first = await Promise.race(waiting);
      expect(first.allowed).to.be.true;
      await first.release();
      expect((await Promise.all(waiting)).map(({ allowed }) => allowed)).to.deep.equal([true, true]);
      await limiter.close();
    });

    it('of several waiters with a common key, each reset of it wakes one', async () => {
      const { limiter } = open({
        policies: [
          { name: 'company', algorithm: 'fixed-window', limit: 1, window: '1h', by: 'org' },
          ...POLICIES,
        ],
      });
      await limiter.consume({ org: 'acme' });
      let admitted = 0;
      const waiting = ['a', 'b', 'c'].map(async (key) => {
        await limiter.wait({ key, org: 'acme' });
        admitted++;
      });
      const looks = async () => {
        for (let i = 0; i < 5; i++) {
          await limiter.peek('x');
          await new Promise(setImmediate);
        }
      };
      await looks();
      for (let resets = 1; resets <= waiting.length; resets++) {
        await limiter.reset({ org: 'acme' });
        await looks();
        expect(admitted).to.equal(resets);
      }
      await limiter.close();
    });

    it('a ban by another key delays no other key, and its end wakes waiters', async () => {
      const { limiter } = open({
        policies: POLICIES.slice(0, 1),
        tiers: { team: '5/1m by account' },
        ban: { by: 'account' },
      });
      await limiter.ban({ account: 'ada' }, '1h');
      const banned = limiter.wait({ key: '::1', account: 'ada' });
      expect(await limiter.wait({ key: '::1', account: 'bob' })).to.include({ allowed: true });
      await limiter.unban({ account: 'ada' });
      expect(await banned).to.include({ allowed: true });
      await limiter.close();
    });

    it('rateLimited and consumeAll take keys of several dimensions, too', async () => {
      const { limiter } = open();
      const greet = rateLimited((user: string) => `hello ${user}`, {
        limiter,
        key: (user) => ({ account: user }),
      });
      expect(await greet('ada')).to.equal('hello ada');
      const joint = await consumeAll([{ limiter, key: { account: 'ada' } }]);
      expect(joint.decision).to.include({ remaining: 0, key: 'ada' });
      expect(await codeOf(() => greet('ada'))).to.equal('HEADGATE_DENIED');
    });
  });
}

describe('policies by several keys', () => {
  const limiter = createLimiter({ policies: POLICIES });
  for (const [what, key, code] of [
    ['an empty object', {}, 'HEADGATE_INVALID_KEY'],
    ['a number', 5, 'HEADGATE_INVALID_KEY'],
    ['null', null, 'HEADGATE_INVALID_KEY'],
    ['an array', ['ada'], 'HEADGATE_INVALID_KEY'],
    ['a key of a wrong type', { account: 5 }, 'HEADGATE_INVALID_KEY'],
    ['a key that is null', { account: null }, 'HEADGATE_INVALID_KEY'],
    ['an unknown dimension', { accuont: 'ada' }, 'HEADGATE_UNKNOWN_DIMENSION'],
    ['a dimension that every object has', { constructor: 'ada' }, 'HEADGATE_UNKNOWN_DIMENSION'],
  ] as const) {
    it(`${what} is refused: ${code}`, async () => {
      const invalidKey = key as unknown as Key;
      for (const run of [
        () => limiter.consume(invalidKey),
        () => limiter.peek(invalidKey),
        () => limiter.wait(invalidKey),
        () => limiter.reset(invalidKey),
        () => limiter.refund(invalidKey),
      ])
        expect(await codeOf(run)).to.equal(code);
    });
  }

  it('an unknown dimension is refused with the known ones, and with the fix', async () => {
    const error: unknown = await limiter.consume({ accuont: 'ada' }).catch((reason: unknown) => reason);
    expect(error)
      .to.have.property('message')
      .that.matches(/^key\.accuont: .*"accuont".*'key', 'account', 'org'\..*by: "accuont"/);
  });

  for (const [what, options, code] of [
    ['a dimension with a space', { limit: 1, window: '1s', by: 'the org' }, 'HEADGATE_INVALID_OPTION'],
    ['a dimension that is not a string', { limit: 1, window: '1s', by: 1 }, 'HEADGATE_INVALID_OPTION'],
    ['a ban by an unknown one', { policies: POLICIES, ban: { by: 'user' } }, 'HEADGATE_UNKNOWN_DIMENSION'],
    ['slotBy an unknown one', { policies: POLICIES, slotBy: 'user' }, 'HEADGATE_UNKNOWN_DIMENSION'],
    [
      'slotBy and acrossSlots',
      { policies: POLICIES, slotBy: 'org', acrossSlots: true },
      'HEADGATE_INVALID_OPTION',
    ],
    [
      'more dimensions than eight',
      { policies: [...'abcdefgh'].map((by) => ({ name: by, limit: 1, window: '1s', by })) },
      'HEADGATE_INVALID_OPTION',
    ],
  ] as const) {
    it(`${what}: refused when the limiter is made`, async () => {
      expect(await codeOf(() => createLimiter(options as unknown as CreateLimiterOptions))).to.equal(code);
    });
  }

  it('a ban by hand needs the key of the ban’s dimension', async () => {
    const banning = createLimiter({ policies: POLICIES, ban: { by: 'account' } });
    expect(await codeOf(() => banning.ban('ada', '1h'))).to.equal('HEADGATE_INVALID_KEY');
    await banning.ban({ account: 'ada' }, '1h');
    expect(await banning.consume({ key: 'x', account: 'ada' })).to.include({ reason: 'banned' });
    expect(await banning.consume('ada')).to.include({ allowed: true });
  });

  it('with slotBy, a change by hand needs the key that selects the slot; a request may lack it', async () => {
    const limiter = createLimiter({ policies: POLICIES, slotBy: 'org', ban: { by: 'account' } });
    const changes = [
      (key: Key) => limiter.reset(key),
      (key: Key) => limiter.refund(key),
      (key: Key) => limiter.ban(key, '1h'),
      (key: Key) => limiter.unban(key),
    ];
    for (const change of changes) {
      for (const key of [{ account: 'ada' }, { key: 'x', account: 'ada' }])
        expect(await codeOf(() => change(key))).to.equal('HEADGATE_INVALID_KEY');
      expect(await codeOf(() => change({ account: 'ada', org: 'acme' }))).to.equal('none');
      expect(await codeOf(() => change({ account: 'ada', org: undefined }))).to.equal('none');
    }
    expect(await codeOf(() => limiter.reset('x'))).to.equal('HEADGATE_INVALID_KEY');
    await limiter.ban({ account: 'ada', org: undefined }, '1h');
    expect(await limiter.consume({ account: 'ada' })).to.include({ reason: 'banned' });
    expect(await limiter.consume({ account: 'ada', org: 'acme' })).to.include({ allowed: true });
    const byKey = createLimiter({ policies: POLICIES, slotBy: 'key' });
    expect(await codeOf(() => byKey.reset('x'))).to.equal('none');
    expect(await codeOf(() => byKey.reset({ account: 'ada' }))).to.equal('HEADGATE_INVALID_KEY');
  });

  it('with slotBy, the key that selects the slot is changed by hand only if it is the single key', async () => {
    const limiter = createLimiter({ policies: POLICIES, slotBy: 'org' });
    const request = { key: 'x', account: 'ada', org: 'acme' };
    const charged = async () =>
      (await limiter.peek(request)).policies.map(({ limit, remaining }) => limit - remaining);
    await limiter.consume(request, { cost: 2 });
    expect(await charged()).to.deep.equal([2, 2, 2]);
    await limiter.refund({ account: 'ada', org: 'acme' }, 1);
    expect(await charged()).to.deep.equal([2, 1, 2]);
    await limiter.reset({ account: 'ada', org: 'acme' });
    expect(await charged()).to.deep.equal([2, 0, 2]);
    await limiter.refund({ org: 'acme' }, 1);
    expect(await charged()).to.deep.equal([2, 0, 1]);
    await limiter.reset({ key: 'x', org: 'acme' });
    expect(await charged()).to.deep.equal([0, 0, 1]);
    await limiter.reset({ org: 'acme' });
    expect(await charged()).to.deep.equal([0, 0, 0]);
  });

  it('with slotBy, a tier counts in the same slot, even without a policy by that dimension', async () => {
    const account = POLICIES.slice(1, 2);
    const remaining = async (limiter: Limiter, key: Key) =>
      (await limiter.peek(key)).policies.find(({ name }) => name === 'account')!.remaining;
    const byOrg = createLimiter({ policies: POLICIES, tiers: { small: account }, slotBy: 'org' });
    await byOrg.consume({ account: 'ada', org: 'acme' }, { tier: 'small' });
    expect(await remaining(byOrg, { account: 'ada', org: 'acme' })).to.equal(1);
    expect(await remaining(byOrg, { account: 'ada', org: 'other' })).to.equal(2);
    const byKey = createLimiter({ policies: account, slotBy: 'key' });
    await byKey.consume({ key: 'x', account: 'ada' });
    expect(await remaining(byKey, { key: 'x', account: 'ada' })).to.equal(1);
    expect(await remaining(byKey, { key: 'y', account: 'ada' })).to.equal(2);
  });

  it('the policies by one dimension are the same set, whatever other keys a request has', () => {
    const { set } = createLimiter({ policies: POLICIES });
    for (const [i, bits] of [0b011, 0b101, 0b111].entries()) {
      const [ip, other] = setsByDimension(select(set, bits));
      expect(ip!.set).to.equal(select(set, 0b001));
      expect(other!.set).to.equal(select(set, i === 1 ? 0b100 : 0b010));
    }
  });

  it('a policy by `key` equals one without `by`', () => {
    expect(createLimiter({ limit: 1, window: '1s', by: 'key' }).set.dimensions).to.equal(undefined);
  });

  it('a store without support for dimensions is refused, and so is a backend that writes one key at a time', async () => {
    const old = around(memoryStore());
    const bytes = stateStore({ update: (_, change) => void change(undefined, 0) });
    for (const store of [old, bytes])
      expect(await codeOf(() => createLimiter({ store, policies: POLICIES }))).to.equal(
        'HEADGATE_DIMENSIONS',
      );
    expect(await codeOf(() => createLimiter({ store: bytes, policies: [POLICIES[1]!] }))).to.equal('none');
  });

  it('tiers may differ in their dimensions: an unknown one of the other is known', async () => {
    const tiers = createLimiter({ policies: [POLICIES[0]!] });
    const set = tiers.compile([POLICIES[2]!]);
    expect(await tiers.consume({ key: 'x', org: 'acme' })).to.include({ limit: 3 });
    expect(await tiers.decide({ key: 'x', org: 'acme' }, 1, set)).to.include({ limit: 5, key: 'acme' });
    await tiers.reset({ key: 'x', org: 'acme' });
    expect((await tiers.decide({ org: 'acme' }, 0, set)).remaining).to.equal(5);
  });

  it('a look reports that memory has no room, unless its cost is 0', async () => {
    const store = memoryStore({ maxKeys: 100, onFull: 'deny' });
    const full = createLimiter({ store, policies: POLICIES, warnings: false });
    for (let i = 0; i < 1_000; i++) for (let n = 0; n < 3; n++) await full.consume(`ip${i}`);
    const keys = { key: 'new', account: 'ada' };
    expect((await full.peek(keys)).reason).to.equal('store-full');
    expect((await full.peek(keys, { cost: 0 })).allowed).to.equal(true);
  });

  it('without room for one of the keys, the charges of the others can be given back', async () => {
    const store = memoryStore({ maxKeys: 100 });
    const policies = [
      ...POLICIES.slice(0, 1),
      { name: 'slots', algorithm: 'concurrency', limit: 1, lease: '1h', by: 'account' },
      { name: 'tokens', limit: 100, window: '1h', by: 'account' },
    ] as const;
    const full = createLimiter({ store, policies, warnings: false });
    for (let i = 0; i < 1_000; i++) for (let n = 0; n < 3; n++) await full.consume(`ip${i}`);
    const remainingUnits = async () =>
      (await full.peek({ account: 'ada' })).policies.map(({ remaining }) => remaining);
    const decision = await full.consume({ key: 'new', account: 'ada' }, { cost: { tokens: 40 } });
    expect(decision).to.include({ allowed: true, reason: 'store-full', policy: 'slots', charged: 1 });
    expect(await remainingUnits()).to.deep.equal([0, 60]);
    expect(full.gauges.slots).to.equal(1);
    expect(await decision.renew()).to.equal(true);
    await decision.settle({ tokens: 10 });
    expect(await remainingUnits()).to.deep.equal([0, 90]);
    expect(await decision.release()).to.equal(true);
    await decision.settle(5);
    expect(await remainingUnits()).to.deep.equal([1, 95]);
    await decision.refund();
    expect(await remainingUnits()).to.deep.equal([1, 100]);
    const alone = await full.consume('new');
    await alone.settle(5);
    expect(alone).to.include({ reason: 'store-full', charged: 0 });
  });

  it('each dimension has separate room in memory', async () => {
    const store = memoryStore({ maxKeys: 100 });
    const flooded = createLimiter({ store, policies: POLICIES });
    for (let i = 0; i < 2; i++) await flooded.consume({ key: 'x', account: 'ada' });
    for (let i = 0; i < 1_000; i++) for (let n = 0; n < 3; n++) await flooded.consume(`ip${i}`);
    expect(await flooded.peek({ account: 'ada' })).to.include({ allowed: false });
    // The addresses find no room, but accounts are limited.
    for (let i = 0; i < 2; i++) await flooded.consume({ key: `new${i}`, account: 'bob' });
    expect(await flooded.consume({ key: 'new', account: 'bob' })).to.include({
      allowed: false,
      policy: 'account',
    });
  });
});

for (const kind of serverKinds) {
  describe(`policies by several keys, on ${kind}`, () => {
    it('one script call decides, whatever the number of dimensions', async () => {
      const limiter = limiterOn(redisStore(clients[kind], { prefix: freshPrefix(), publish: false }), {
        policies: POLICIES,
      });
      await limiter.consume({ key: 'warm', account: 'up', org: 'x' });
      const commands: string[] = [];
      const monitor = await clients[kind].monitor();
      const mine = freshPrefix();
      monitor.on('monitor', (_: string, args: string[]) => {
        if (args.some((arg) => arg.includes(mine))) commands.push(args[0]!.toLowerCase());
      });
      await limiter.consume({ key: mine, account: mine, org: mine });
      await clients[kind].get(`end${mine}`);
      while (!commands.includes('get') || commands.at(-1) !== 'get') await new Promise(setImmediate);
      monitor.disconnect();
      expect(commands.filter((command) => command.startsWith('eval'))).to.have.length(1);
    });

    it('a denial is repeated without a call for the same keys, until one of those that denied is given back', async () => {
      const store = redisStore(clients[kind], { prefix: freshPrefix(), publish: false, localDenials: '1m' });
      const limiter = limiterOn(store, { policies: POLICIES });
      const all = { key: 'x', account: 'ada', org: 'acme' };
      for (let i = 0; i < 3; i++) await limiter.consume(all);
      // The server forgets the charges, but this process does not ask the server.
      const before = await limiter.consume(all);
      expect(before).to.include({ allowed: false, policy: 'account' });
      expect(before.policies.map(({ key }) => key)).to.deep.equal(['x', 'ada', 'acme']);
      await limiter.reset({ key: 'x' });
      expect(await limiter.consume(all)).to.include({ allowed: false, policy: 'account' });
      expect(await limiter.consume({ ...all, account: 'bob' })).to.include({ allowed: true });
      await limiter.reset({ account: 'ada' });
      expect(await limiter.consume(all)).to.include({ allowed: true });
    });

    it('policies without `by` keep their keys, and other policies show their dimension', async () => {
      const prefix = freshPrefix();
      const limiter = limiterOn(redisStore(clients[kind], { prefix, publish: false }), {
        name: 'api',
        policies: POLICIES,
      });
      await limiter.consume({ key: 'x', account: 'a:d{a}', org: 'acme' });
      expect((await clients[kind].keys(`${prefix}:*`)).sort()).to.deep.equal([
        `${prefix}:{api:%@account=a:d%7ba%7d}f3@1m:account`,
        `${prefix}:{api:%@org=acme}f3@1h:org`,
        `${prefix}:{api:x}f3@1m:ip`,
      ]);
    });
  });
}
