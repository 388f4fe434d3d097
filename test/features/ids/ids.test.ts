import { expect } from 'chai';
import type { Policy } from 'headgate';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { stateStore } from 'headgate/stores';
import { serverKinds } from '../../support/shared-servers.js';
import { clients, freshPrefix, limiterOn, stores, TestClock } from '../../support/stores.js';
import { around } from '../../support/around.js';
import { codeOf } from '../../support/errors.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** A policy of each algorithm that counts over time. */
const policies: Policy[] = [
  { name: 'sliding', algorithm: 'sliding-window', limit: 10, window: '1h' },
  { name: 'fixed', algorithm: 'fixed-window', limit: 10, window: '1h' },
  { name: 'log', algorithm: 'sliding-log', limit: 10, window: '1h' },
  { name: 'bucket', algorithm: 'token-bucket', limit: 10, window: '1h' },
  { name: 'leaky', algorithm: 'leaky-bucket', limit: 10, window: '1h', maxDelay: '1h' },
  { name: 'day', algorithm: 'calendar', limit: 10, period: 'day' },
];

for (const [name, createStore] of Object.entries(stores)) {
  describe(`request ids, on ${name}`, () => {
    const make = (options: object) => {
      const clock = new TestClock();
      const store = createStore(clock.read);
      const limiters = [1, 2].map(() => limiterOn(store, { name: 'shared', ...options } as never));
      return { clock, one: limiters[0]!, other: limiters[1]! };
    };
    const verdict = ({ allowed, policies: own }: { allowed: boolean; policies: readonly object[] }) => ({
      ...{ allowed, own },
    });

    for (const policy of [...policies, undefined]) {
      const title = policy?.name ?? 'all together';
      const options = policy ? { policies: [policy] } : { policies, ban: {} };

      it(`${title}: a repetition gets the first decision, and charges nothing`, async () => {
        const { clock, one, other } = make(options);
        const first = await one.consume('k', { cost: 3, id: 'a' });
        expect(first.repeated).to.equal(false);
        await one.consume('k', { cost: 2 });
        clock.now += 1000;
        const before = await one.usage('k');
        for (const limiter of [one, other, one]) {
          const again = await limiter.consume('k', { cost: 3, id: 'a' });
          expect(again.repeated).to.equal(true);
          expect(verdict(again)).to.deep.equal(verdict(first));
        }
        expect((await one.usage('k')).policies).to.deep.equal(before.policies);
        expect((await one.consume('k', { id: 'b' })).repeated).to.equal(false);
        expect((await one.consume('other', { id: 'a' })).repeated).to.equal(false);
        clock.now += 10 * MINUTE;
        expect((await other.consume('k', { id: 'a' })).repeated).to.equal(false);
      });

      it(`${title}: a denied id is decided anew, and a spent key still repeats`, async () => {
        const { clock, one } = make(options);
        await one.consume('k', { cost: 10, id: 'spends' });
        const isDelayed = policy?.name === 'leaky';
        if (isDelayed) await one.consume('k', { cost: 10 });
        expect(await one.consume('k', { cost: 10, id: 'late' })).to.include({
          allowed: false,
          repeated: false,
        });
        expect(await one.consume('k', { cost: 10, id: 'spends' })).to.include({
          allowed: true,
          repeated: true,
        });
        clock.now += 49 * HOUR;
        expect(await one.consume('k', { cost: 10, id: 'late' })).to.include({
          allowed: true,
          repeated: false,
        });
        expect(await one.consume('k', { cost: 10, id: 'late' })).to.include({
          allowed: true,
          repeated: true,
        });
      });

      it(`${title}: the first decision that settles a charge may settle it again, the other may not`, async () => {
        const { one, other } = make(options);
        const remaining = async () => (await one.usage('k')).policies.map((each) => each.remaining);
        const first = await one.consume('k', { cost: 8, id: 'a' });
        const again = await other.consume('k', { cost: 8, id: 'a' });
        await again.settle(3);
        const settled = await remaining();
        expect(settled[0]).to.equal(7);
        await first.settle(1);
        await first.refund();
        expect(await remaining()).to.deep.equal(settled);
        expect((await one.consume('k', { cost: 8, id: 'a' })).repeated).to.equal(true);
        await again.settle(4);
        expect((await remaining())[0]).to.equal(6);
        await again.refund();
        expect((await remaining())[0]).to.equal(10);
        // The id is free, as if the request had never been made.
        const next = await one.consume('k', { cost: 5, id: 'a' });
        expect(next.repeated).to.equal(false);
        await first.refund();
        expect((await remaining())[0]).to.equal(5);
        // Like every decision, the one that owns the charge can be settled again after its refund.
        await again.settle(2);
        expect((await remaining())[0]).to.equal(3);
        await again.refund();
        await next.refund();
        expect((await remaining())[0]).to.equal(10);
      });
    }

    it('a repetition is held for the rest of the first delay', async () => {
      const { clock, one, other } = make({ policies: ['leaky-bucket 1/1s burst 1 max-delay 1m', '100/1m'] });
      for (let i = 0; i < 3; i++) await one.consume('k');
      const first = await one.consume('k', { id: 'a' });
      const delays = [first.delayMs];
      for (const ms of [0, 700, 2299, 1, 5000]) {
        clock.now += ms;
        const again = await other.consume('k', { id: 'a' });
        expect(verdict(again)).to.deep.equal(verdict(first));
        delays.push(again.delayMs);
      }
      expect(delays).to.deep.equal([3000, 3000, 2300, 1, 0, 0]);
    });

    it('a repetition under another tier gets the first decision, and gives back what that one charged', async () => {
      const tiers = { free: 'minute=fixed-window 5/1m', pro: 'hour=fixed-window 50/1h' };
      const { one, other } = make({ tiers });
      await one.consume('k', { tier: 'free', id: 'a', cost: 3 });
      const again = await other.consume('k', { tier: 'pro', id: 'a', cost: 20 });
      expect(again).to.include({ allowed: true, repeated: true, limit: 5, remaining: 2, cost: 3 });
      await one.consume('k', { tier: 'pro' });
      await again.refund();
      expect((await one.usage('k', { tier: 'pro' })).policies[0]).to.include({ used: 1 });
      expect((await one.usage('k', { tier: 'free' })).policies[0]).to.include({ used: 0 });
    });

    it('a ban does not take back the answer to a charged request', async () => {
      const { one } = make({ limit: 5, window: '1h', ban: {} });
      const { remaining } = await one.consume('k', { id: 'a' });
      await one.ban('k', '1h');
      expect(await one.consume('k', { id: 'a' })).to.include({ allowed: true, repeated: true, remaining });
      expect(await one.consume('k', { id: 'b' })).to.include({
        allowed: false,
        reason: 'banned',
        repeated: false,
      });
      const tiers = { tiers: { free: 'minute=5/1m', pro: 'hour=5/1h' }, ban: {} };
      const banned = make(tiers).one;
      await banned.consume('k', { id: 'a', tier: 'free' });
      await banned.ban('k', '1h');
      expect(await banned.consume('k', { id: 'a', tier: 'pro' })).to.include({
        allowed: true,
        repeated: true,
      });
    });

    it('several keys have one id, beside the first key', async () => {
      const { one, other } = make({
        policies: [
          { name: 'address', algorithm: 'fixed-window', limit: 5, window: '1h' },
          { name: 'org', algorithm: 'fixed-window', limit: 5, window: '1h', by: 'org' },
        ],
      });
      const keys = { key: 'x', org: 'acme' };
      const first = await one.consume(keys, { id: 'a', cost: { org: 2 } });
      const again = await other.consume(keys, { id: 'a', cost: { org: 2 } });
      expect(verdict(again)).to.deep.equal(verdict(first));
      expect((await one.usage(keys)).policies.map(({ used }) => used)).to.deep.equal([1, 2]);
      await again.refund();
      await first.refund();
      expect((await one.usage(keys)).policies.map(({ used }) => used)).to.deep.equal([0, 0]);
    });

    it('overrides: the first decision keeps its limit', async () => {
      const { one, other } = make({ overrides: true, limit: 5, window: '1h' });
      await one.override('k', { limit: 50 });
      const first = await one.consume('k', { id: 'a', cost: 2 });
      await one.override('k', { limit: 500 });
      expect(await other.consume('k', { id: 'a', cost: 2 })).to.include({
        repeated: true,
        limit: 50,
        remaining: 48,
      });
      await first.refund();
      expect((await one.usage('k')).policies[0]).to.include({ limit: 500, used: 0 });
      await one.override('k', { limit: 1 });
      expect(await one.consume('k', { id: 'b', cost: 2 })).to.include({ allowed: false, repeated: false });
    });

    it('a shadow and policies that count attempts: charged once if admitted, with each attempt if denied', async () => {
      const { one } = make({
        policies: [
          { name: 'shadow', algorithm: 'fixed-window', limit: 1, window: '1h', shadow: true },
          { name: 'limit', algorithm: 'fixed-window', limit: 2, window: '1h' },
          { name: 'tries', algorithm: 'fixed-window', limit: 9, window: '1h', count: 'attempts' },
        ],
      });
      for (const id of ['a', 'b', 'b', 'a', 'c', 'c']) await one.consume('k', { id });
      expect((await one.usage('k')).policies.map(({ used }) => used)).to.deep.equal([1, 2, 4]);
    });

    it('many simultaneous repetitions: one charge for each id', async () => {
      const { one, other } = make({ limit: 100, window: '1h', repeats: 9 });
      const asked = Array.from({ length: 300 }, (_, i) =>
        [one, other][i % 2]!.consume('k', { id: `id${i % 30}` }),
      );
      const decisions = await Promise.all(asked);
      expect(decisions.filter(({ repeated }) => !repeated)).to.have.length(30);
      expect((await one.usage('k')).policies[0]).to.include({ used: 30 });
    });

    it('a look has no id; a cost of 0 and an id that is not valid change nothing', async () => {
      const { one } = make({ limit: 5, window: '1h' });
      for (const id of ['', 'x'.repeat(256), 7, null])
        expect(await codeOf(one.consume('k', { id: id as string }))).to.equal('HEADGATE_INVALID_OPTION');
      expect(await codeOf(one.peek('k', { id: 'a' } as never))).to.equal('HEADGATE_UNKNOWN_OPTION');
      expect(await one.consume('k', { id: 'a', cost: 0 })).to.include({ allowed: true, repeated: false });
      expect(await one.consume('k', { id: 'x'.repeat(255) })).to.include({ repeated: false });
      expect(await one.consume('k', { id: 'x'.repeat(255) })).to.include({ repeated: true });
      expect((await one.usage('k')).policies[0]).to.include({ used: 1 });
      const slots = make({ algorithm: 'concurrency', limit: 1, lease: '1m' }).one;
      expect(await codeOf(slots.consume('k', { id: 'a' }))).to.equal('HEADGATE_INVALID_OPTION');
    });

    it('idsFor is the time for which an id is remembered', async () => {
      const { clock, one } = make({ limit: 5, window: '1h', idsFor: '2h' });
      await one.consume('k', { id: 'a' });
      clock.now += 2 * HOUR - 1;
      expect((await one.consume('k', { id: 'a' })).repeated).to.equal(true);
      clock.now += 1;
      expect((await one.consume('k', { id: 'a' })).repeated).to.equal(false);
    });
  });
}

for (const kind of serverKinds) {
  it(`request ids, on ${kind}: each key has a TTL, also after a settlement; a key without one gets one`, async () => {
    const prefix = freshPrefix();
    const client = clients[kind];
    const limiter = createLimiter({
      store: redisStore(client, { prefix }),
      policies: '9/1h',
      warnings: false,
    });
    const ttlOf = async () => {
      const keys = (await client.keys(`${prefix}:*`)).filter((key) => /\}Q2:[^.]+$/.test(key));
      expect(keys).to.have.length(1);
      return client.pttl(keys[0]!);
    };
    const first = await limiter.consume('k', { id: 'a', cost: 3 });
    expect(await ttlOf()).to.be.within(590_000, 600_000);
    const [key] = (await client.keys(`${prefix}:*Q2:*`)) as [string];
    // The value and the end of the key: at most 40 bytes beside the text of the first key.
    expect((await client.getBuffer(key))!.length + key.length - key.indexOf('}') - 1).to.be.at.most(40);
    await client.persist(key);
    const again = await limiter.consume('k', { id: 'a', cost: 3 });
    expect(await ttlOf()).to.be.within(590_000, 600_000);
    await first.settle(1);
    expect(await ttlOf()).to.be.within(590_000, 600_000);
    await client.persist(key);
    await first.settle(2);
    expect(await ttlOf()).to.be.within(590_000, 600_000);
    await first.refund();
    await again.refund();
    // The id was repeated, so it is spent.
    expect(await ttlOf()).to.be.within(590_000, 600_000);
    await limiter.consume('k', { id: 'b' });
    await (await limiter.consume('k', { id: 'b' })).refund();
    const owner = (await client.keys(`${prefix}:*Q2:*`)).find((each) => each.includes('.'));
    // The charge counts for an hour and a sub-window.
    expect(await client.pttl(owner!)).to.be.within(3_600_000, 4_000_000);
    await limiter.close();
  });

  it(`request ids, on ${kind}: an id of two policies takes at most 44 bytes`, async () => {
    const prefix = freshPrefix();
    const store = redisStore(clients[kind], { prefix });
    const limiter = createLimiter({ store, policies: ['a=9/1h', 'b=token-bucket 1000/30d'], timeout: '10s' });
    const first = await limiter.consume('k', { id: 'a' });
    const [key] = (await clients[kind].keys(`${prefix}:*Q2:*`)) as [string];
    const { length } = (await clients[kind].getBuffer(key))!;
    expect(length + key.length - key.indexOf('}') - 1).to.be.at.most(44);
    const again = await limiter.consume('k', { id: 'a' });
    expect(again.policies).to.deep.equal(first.policies);
    await limiter.close();
  });
}

describe('request ids', () => {
  it('a charge whose reply came too late stays, because the repetition relies on it', async () => {
    const inner = stores.memory();
    let answers = Promise.resolve();
    const slow = around(inner, {
      remembersIds: true,
      decide: async (query) => {
        const reply = await inner.decide(query);
        await answers;
        return reply;
      },
    });
    const options = { limit: 5, window: '1h', onStoreError: 'deny', timeout: '20ms' } as const;
    const limiter = createLimiter({ ...options, store: slow, warnings: false });
    await limiter.consume('k');
    let answer!: () => void;
    answers = new Promise((resolve) => (answer = resolve));
    expect(await limiter.consume('k', { id: 'a' })).to.include({ allowed: false, degraded: true });
    answer();
    await answers;
    await new Promise(setImmediate);
    while (limiter.health.state !== 'up') await new Promise((resolve) => setTimeout(resolve, 5));
    expect(await limiter.consume('k', { id: 'a' })).to.include({
      allowed: true,
      repeated: true,
      remaining: 3,
    });
    expect((await limiter.usage('k')).policies[0]).to.include({ used: 2 });
    await limiter.close();
  });

  it('the types of consume take an id, those of peek do not', async () => {
    const limiter = createLimiter('5/1m');
    const { repeated }: { repeated: boolean } = await limiter.consume('k', { id: 'a', cost: 2 });
    expect(repeated).to.equal(false);
    // @ts-expect-error A look has no id.
    expect(await codeOf(limiter.peek('k', { id: 'a' }))).to.equal('HEADGATE_UNKNOWN_OPTION');
    await limiter.close();
  });

  it('are refused by a store that does not remember them', async () => {
    const limiter = limiterOn(around(stores.memory()), { limit: 5, window: '1h' });
    expect(await codeOf(limiter.consume('k', { id: 'a' }))).to.equal('HEADGATE_INVALID_OPTION');
    const alone = stateStore({ update: (_, change) => void change(undefined, 1e12) });
    expect(alone.remembersIds).to.equal(false);
  });
});
