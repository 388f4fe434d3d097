// The charges of requests with ids: a repetition answers, refunds and settles exactly what the first request charged.
import { expect } from 'chai';
import type { Store } from 'headgate';
import { redisStore } from 'headgate/redis';
import { serverKinds } from '../../support/shared-servers.js';
import { clients, freshPrefix, limiterOn, stores, TestClock } from '../../support/stores.js';
import { ofLimiter } from '../../../src/limiter/decision.js';

const MINUTE = 60_000;
const fixed = { algorithm: 'fixed-window', window: '1h' } as const;

for (const [name, createStore] of Object.entries(stores)) {
  describe(`charges of requests with ids, on ${name}`, () => {
    const make = (options: object) => {
      const clock = new TestClock();
      const store = createStore(clock.read);
      const [one, other] = [1, 2].map(() => limiterOn(store, { name: 'shared', ...options } as never));
      return { clock, one: one!, other: other! };
    };

    it('a repetition with a greater cost returns what the first request charged, not units of others', async () => {
      const { one, other } = make({ limit: 20, ...fixed });
      await one.consume('k', { cost: 1, id: 'x' });
      await one.consume('k', { cost: 9 });
      const again = await other.consume('k', { cost: 10, id: 'x' });
      expect(again).to.include({ repeated: true, cost: 1, charged: 1 });
      await again.refund();
      expect((await one.usage('k')).policies[0]).to.include({ remaining: 11 });
    });

    it('a repetition with a smaller cost settles from the first cost', async () => {
      const { one } = make({ limit: 20, ...fixed });
      await one.consume('k', { cost: 10, id: 'x' });
      await (await one.consume('k', { cost: 1, id: 'x' })).settle(1);
      expect((await one.usage('k')).policies[0]).to.include({ remaining: 19 });
    });

    it('the return of a charge begins no further free repetitions', async () => {
      const { one, other } = make({ limit: 5, ...fixed });
      let repeated = 0;
      for (let round = 0; round < 4; round++) {
        const first = await one.consume('k', { id: 'x' });
        for (let i = 0; i < 5; i++) if ((await other.consume('k', { id: 'x' })).repeated) repeated++;
        await first.refund();
      }
      expect(repeated).to.equal(5);
      // The first request was returned, then the limit of 5 was charged, of which the rounds' first requests returned one.
      expect((await one.consume('k', { id: 'x' })).allowed).to.equal(true);
      expect((await one.consume('k', { id: 'x' })).allowed).to.equal(false);
    });

    for (const way of ['takeBack', 'abandon', 'withdraw'] as const) {
      it(`${way}: the limiter returns the charge of a request by itself only if the request was not repeated`, async () => {
        const { clock, one, other } = make({ limit: 20, ...fixed, repeats: 1 });
        const used = async () => (await one.usage('k')).policies[0]!.used;
        const alone = ofLimiter(await one.consume('k', { cost: 3, id: 'alone' }));
        await alone[way]();
        expect(await used()).to.equal(0);
        expect(await one.consume('k', { cost: 3, id: 'alone' })).to.include({ repeated: false });

        const first = ofLimiter(await one.consume('k', { cost: 4, id: 'x' }));
        const again = ofLimiter(await other.consume('k', { cost: 4, id: 'x' }));
        expect(again.repeated).to.equal(true);
        await first[way]();
        await again[way]();
        expect(await used()).to.equal(7);
        // The repetition was the only free one.
        expect(await one.consume('k', { id: 'x' })).to.include({ repeated: false });
        expect(await used()).to.equal(8);
        await again.refund();
        expect(await used()).to.equal(4);

        // After the id's life, the store does not know whether the request was repeated.
        const slow = ofLimiter(await one.consume('k', { cost: 5, id: 'slow' }));
        await other.consume('k', { cost: 5, id: 'slow' });
        clock.now += 10 * MINUTE;
        await slow[way]();
        expect(await used()).to.equal(9);
      });
    }

    it('costs by policy are remembered by policy', async () => {
      const { one } = make({ policies: ['calls=fixed-window 9/1h', 'tokens=fixed-window 900/1h'] });
      await one.consume('k', { cost: { tokens: 70 }, id: 'x' });
      await one.consume('k', { cost: { calls: 2, tokens: 800 } });
      const again = await one.consume('k', { cost: 9, id: 'x' });
      expect(again.costs).to.deep.equal({ calls: 1, tokens: 70 });
      await again.settle({ tokens: 10 });
      expect((await one.usage('k')).policies.map(({ used }) => used)).to.deep.equal([3, 810]);
      await again.cancel();
      expect((await one.usage('k')).policies.map(({ used }) => used)).to.deep.equal([2, 800]);
    });

    it('an id belongs to its keys: with any other key, a request is charged as its own', async () => {
      const policies = ['address=fixed-window 9/1h', 'org=fixed-window 5/1h by org'];
      const { one } = make({ policies });
      await one.consume({ key: 'a', org: 'acme' }, { cost: 3, id: 'x' });
      for (const keys of [{ key: 'a', org: 'other' }, { key: 'a' }, { key: 'b', org: 'acme' }]) {
        const decision = await one.consume(keys, { id: 'x' });
        expect(decision, JSON.stringify(keys)).to.include({ allowed: true, repeated: false });
        await decision.refund();
      }
      expect((await one.usage({ key: 'a', org: 'acme' })).policies.map(({ used }) => used)).to.deep.equal([
        3, 3,
      ]);
      expect((await one.usage({ key: 'b', org: 'other' })).policies.map(({ used }) => used)).to.deep.equal([
        0, 0,
      ]);
      // The account was not charged by the first request, so an id must not lead around its limit.
      await one.consume({ org: 'victim' }, { cost: 5 });
      await one.consume({ key: 'a' }, { id: 'y' });
      expect(await one.consume({ key: 'a', org: 'victim' }, { id: 'y' })).to.include({ allowed: false });
      // The order of the keys does not matter.
      expect(await one.consume({ org: 'acme', key: 'a' }, { id: 'x' })).to.include({ repeated: true });
      expect(await one.consume({ key: 'a', org: undefined }, { id: 'y' })).to.include({ repeated: true });
    });

    it('of one id, five repetitions are free, and later ones are charged like new requests', async () => {
      const { one, other } = make({ limit: 5, ...fixed });
      const admitted = [];
      for (let i = 0; i < 100; i++) {
        const { allowed, repeated } = await [one, other][i % 2]!.consume('k', { id: 'x' });
        if (allowed) admitted.push(repeated);
      }
      const [T, F] = [true, false];
      expect(admitted).to.deep.equal([F, T, T, T, T, T, F, F, F, F]);
    });

    it('many simultaneous requests with one id are bounded, too', async () => {
      const { one, other } = make({ limit: 5, ...fixed, repeats: 2 });
      const asked = Array.from({ length: 100 }, (_, i) => [one, other][i % 2]!.consume('k', { id: 'x' }));
      const decisions = await Promise.all(asked);
      expect(decisions.filter(({ repeated }) => repeated)).to.have.length(2);
      expect(decisions.filter(({ allowed }) => allowed)).to.have.length(7);
    });

    it('a request beyond the repetitions returns only its own charge, and leaves the first one', async () => {
      const { one } = make({ limit: 20, ...fixed, repeats: 1 });
      const first = await one.consume('k', { cost: 5, id: 'x' });
      await one.consume('k', { cost: 5, id: 'x' });
      const beyond = await one.consume('k', { cost: 2, id: 'x' });
      expect(beyond).to.include({ allowed: true, repeated: false, charged: 2 });
      await beyond.refund();
      await beyond.refund();
      expect((await one.usage('k')).policies[0]).to.include({ used: 5 });
      expect(await one.consume('k', { id: 'x' })).to.include({ repeated: false });
      await first.refund();
      expect((await one.usage('k')).policies[0]).to.include({ used: 1 });
      for (let i = 0; i < 2; i++)
        expect(await one.consume('k', { id: 'x' })).to.include({ repeated: false, charged: 1 });
    });

    it('an id used again after idsFor is a new request, and each decision changes its own charge', async () => {
      const { clock, one } = make({ limit: 100, ...fixed });
      const first = await one.consume('k', { cost: 20, id: 'x' });
      clock.now += 10 * MINUTE;
      const second = await one.consume('k', { cost: 10, id: 'x' });
      expect(second.repeated).to.equal(false);
      await first.settle(3);
      expect((await one.usage('k')).policies[0]).to.include({ remaining: 87 });
      const again = await one.consume('k', { id: 'x' });
      expect(again).to.include({ repeated: true, cost: 10 });
      await first.refund();
      await again.refund();
      await second.refund();
      expect((await one.usage('k')).policies[0]).to.include({ remaining: 100 });
    });

    it('after a repetition has returned the charge, the first decision never returns it again', async () => {
      const { clock, one, other } = make({ limit: 100, ...fixed });
      await one.consume('k', { cost: 50 });
      const first = await one.consume('k', { cost: 20, id: 'x' });
      const again = await other.consume('k', { id: 'x' });
      await again.refund();
      for (const wait of [0, 1000, 10 * MINUTE, 20 * MINUTE]) {
        clock.now += wait;
        await first.refund();
        await first.settle(1);
        await first.settle(0);
      }
      expect((await one.usage('k')).policies[0]).to.include({ used: 50 });
      await (await one.consume('k', { cost: 7, id: 'x' })).refund();
      await first.cancel();
      await again.cancel();
      expect((await one.usage('k')).policies[0]).to.include({ used: 50 });
    });

    it('a repetition that has begun to change the charge may go on as long as a unit of it counts', async () => {
      const { clock, one, other } = make({ limit: 100, algorithm: 'sliding-log', window: '1h' });
      const first = await one.consume('k', { cost: 20, id: 'x' });
      const again = await other.consume('k', { id: 'x' });
      await again.settle(21);
      clock.now += 59 * MINUTE;
      await again.settle(30);
      clock.now += 2 * MINUTE;
      // Stores forget ended states when they write others.
      for (const key of ['a', 'b', 'c'])
        for (let i = 0; i < 2; i++) await (await one.consume(key, { id: 'y' })).settle(2);
      expect((await one.usage('k')).policies[0]).to.include({ used: 9 });
      await first.refund();
      expect((await one.usage('k')).policies[0]).to.include({ used: 9 });
      await again.refund();
      expect((await one.usage('k')).policies[0]).to.include({ used: 0 });
    });

    it('a repetition that comes after the first decision has settled changes nothing', async () => {
      const { clock, one, other } = make({ limit: 100, ...fixed });
      const first = await one.consume('k', { cost: 20, id: 'x' });
      await first.settle(5);
      const again = await other.consume('k', { id: 'x' });
      await again.refund();
      clock.now += 10 * MINUTE;
      await again.settle(7);
      expect((await one.usage('k')).policies[0]).to.include({ used: 5 });
      await first.refund();
      expect((await one.usage('k')).policies[0]).to.include({ used: 0 });
    });

    it('a repetition is admitted beside a shared policy without room, under another tier or a ban', async () => {
      const calls = 'calls=4/1h by provider share tenant';
      const tiers = { free: ['requests=fixed-window 9/1h'], pro: ['requests=fixed-window 9/1h', calls] };
      const { one, other } = make({ tiers, ban: {} });
      const keys = { key: 'k', provider: 'p', tenant: 't' };
      await one.consume(keys, { tier: 'free', id: 'x' });
      await one.consume({ provider: 'p', tenant: 't' }, { tier: 'pro', cost: 4 });
      await one.ban('k', '1h');
      const again = await other.consume(keys, { tier: 'pro', id: 'x' });
      expect(again).to.include({ allowed: true, repeated: true, limit: 9, remaining: 8 });
      await again.refund();
      const { policies } = await one.usage(keys, { tier: 'pro' });
      expect(policies.map(({ used }) => used)).to.deep.equal([0, 4]);
    });

    it('a charge to a shared policy is returned once, to its tenant', async () => {
      const { one, other } = make({
        policies: ['requests=fixed-window 9/1h', 'calls=8/1h by provider share tenant'],
      });
      const keys = { key: 'k', provider: 'p', tenant: 't' };
      const first = await one.consume(keys, { cost: 2, id: 'x' });
      await one.consume(keys, { cost: 3 });
      const again = await other.consume(keys, { cost: 6, id: 'x' });
      expect(again.policies).to.deep.equal(first.policies);
      await again.refund();
      await first.refund();
      const used = async () => (await one.usage(keys)).policies.map((each) => each.used);
      expect(await used()).to.deep.equal([3, 3]);
      const stranger = await other.consume({ ...keys, tenant: 'u' }, { id: 'x' });
      expect(stranger).to.include({ repeated: false });
      await stranger.refund();
      expect(await used()).to.deep.equal([3, 3]);
    });

    it('under an override, a repetition shows the first limit beside the first remaining', async () => {
      const tiers = { small: 'quota=fixed-window 1/1h', large: 'quota=fixed-window 4/1h' };
      const { one, other } = make({ overrides: true, tiers });
      for (const tier of ['small', 'large']) {
        await one.override(`of ${tier}`, { tier });
        await one.consume(`of ${tier}`, { id: 'x', tier: 'small' });
      }
      await one.override('of large', { tier: 'small' });
      const [small, large] = [
        await other.consume('of small', { id: 'x', tier: 'large' }),
        await other.consume('of large', { id: 'x', tier: 'large' }),
      ];
      expect(small).to.include({ repeated: true, limit: 1, remaining: 0 });
      expect(large).to.include({ repeated: true, limit: 4, remaining: 3 });
      // Without an override, tiers that share a count.
      await one.consume('k', { id: 'x', tier: 'large' });
      expect(await other.consume('k', { id: 'x', tier: 'small' })).to.include({ limit: 4, remaining: 3 });
    });

    it('a process that does not know the first policies any more admits a repetition, and returns nothing', async () => {
      const { one, other } = make({ overrides: true, limit: 5, ...fixed });
      await one.override('k', '7/2d');
      await one.consume('k', { cost: 3, id: 'x' });
      expect(await one.consume('k', { id: 'x' })).to.include({ repeated: true, limit: 7, remaining: 4 });
      await one.removeOverride('k');
      await one.consume('k', { cost: 5 });
      const again = await other.consume('k', { id: 'x' });
      expect(again).to.include({ allowed: true, repeated: true, limit: 5, remaining: 0 });
      await again.refund();
      expect((await one.usage('k')).policies[0]).to.include({ used: 5 });
    });

    it('a shadow that would deny was not charged, so a repetition returns nothing to it', async () => {
      const { one } = make({ policies: ['watch=fixed-window 2/1h shadow', 'limit=fixed-window 9/1h'] });
      await one.consume('k', { cost: { watch: 1, limit: 1 } });
      await one.consume('k', { cost: 2, id: 'x' });
      await (await one.consume('k', { cost: 2, id: 'x' })).refund();
      expect((await one.usage('k')).policies.map(({ used }) => used)).to.deep.equal([1, 1]);
    });

    it('a request that only a shadow of a shared limit denied returns nothing, so its id stays', async () => {
      const { one } = make({ policies: '2/1h by provider share tenant shadow' });
      const keys = { provider: 'p', tenant: 't' };
      for (let i = 0; i < 2; i++) await one.consume(keys);
      const decision = await one.consume(keys, { id: 'x' });
      expect(decision.policies[0]).to.include({ allowed: false });
      await decision.refund();
      expect(await one.consume(keys, { id: 'x' })).to.include({ repeated: true, charged: 0 });
    });

    it('eight policies with costs of their own, most of them not equal: as by one', async () => {
      const policies = Array.from({ length: 8 }, (_, i) => ({
        ...{ name: `p${i}`, limit: 1000 * (i + 1), algorithm: 'fixed-window', window: '1h' },
        ...(i % 3 === 0 && { by: 'org' }),
      }));
      const { one, other } = make({ policies, ban: {}, overrides: true });
      const keys = { key: 'k', org: 'acme' };
      await one.override('k', { p1: { limit: 50 } });
      const cost = Object.fromEntries(policies.map((each, i) => [each.name, i * 3]));
      const used = async () => (await one.usage(keys)).policies.map((each) => each.used);
      const asked = ['x', 'y', 'x', 'z', 'y', 'x'].map((id, i) => {
        return [one, other][i % 2]!.consume(keys, { id, cost: i < 2 || id === 'z' ? cost : i });
      });
      const decisions = await Promise.all(asked);
      expect(decisions.map(({ repeated }) => repeated)).to.deep.equal([
        false,
        false,
        true,
        false,
        true,
        true,
      ]);
      for (const [i, of] of [
        [2, 0],
        [4, 1],
        [5, 0],
      ] as const) {
        expect(decisions[i]!.policies).to.deep.equal(decisions[of]!.policies);
        expect(decisions[i]!.costs).to.deep.equal(cost);
        expect(decisions[i]!.policies[1]).to.include({ limit: 50 });
      }
      expect(await used()).to.deep.equal(policies.map((_, i) => 9 * i));
      await Promise.all(decisions.map((each) => each.settle(1)));
      expect(await used()).to.deep.equal(policies.map(() => 3));
      await Promise.all(decisions.map((each) => each.refund()));
      expect(await used()).to.deep.equal(policies.map(() => 0));
    });

    it('thresholds: a repetition reports nothing, a settlement above one does', async () => {
      const events: number[] = [];
      const onThreshold = ({ threshold }: { threshold: number }) => void events.push(threshold);
      const { one } = make({ limit: 10, ...fixed, thresholds: [0.5, 1], onThreshold });
      await one.consume('k', { cost: 6, id: 'x' });
      const again = await one.consume('k', { cost: 10, id: 'x' });
      expect(events).to.deep.equal([0.5]);
      await again.settle(10);
      expect(events).to.deep.equal([0.5, 1]);
    });
  });
}

describe('charges of requests with ids, while the store is down', () => {
  it('local decisions are repeated and returned as they were made, with a share of the limit', async () => {
    const down: Store = {
      ...{ remembersIds: true, decide: () => Promise.reject(new Error('down')) },
      adjust: () => Promise.reject(new Error('down')),
      lease: () => Promise.resolve(true),
      ...{ reset: () => {}, ban: () => {} },
    };
    const onStoreError = 'local' as const;
    const options = { limit: 20, ...fixed, repeats: 2, onStoreError, localShare: 0.5 };
    const limiter = limiterOn(down, { ...options, warnings: false });
    expect(await limiter.consume('k', { cost: 4, id: 'x' })).to.include({ degraded: true, remaining: 6 });
    await limiter.consume('k', { cost: 1 });
    const again = await limiter.consume('k', { cost: 9, id: 'x' });
    expect(again).to.include({ degraded: true, repeated: true, cost: 4, remaining: 6 });
    await again.refund();
    expect(await limiter.consume('k', { cost: 9, id: 'x' })).to.include({ repeated: false, remaining: 0 });
    await limiter.close();
  });
});

for (const kind of serverKinds) {
  it(`charges of requests with ids, on ${kind}: a record that cannot be read counts as none`, async () => {
    const client = clients[kind];
    for (const damage of [
      ...['', 'x', 'abcd;', 'abcd0;1234567', 'abcd0,3;123456', `abcd0;${'\0'.repeat(14)}`, 'abcdc0', 'list'],
      ...[`abcd9;${'a'.repeat(14)}`, `abcd0,x;${'a'.repeat(14)}`],
    ]) {
      const prefix = freshPrefix();
      const limiter = limiterOn(redisStore(client, { prefix }), { limit: 9, ...fixed, timeout: '10s' });
      const first = await limiter.consume('k', { cost: 2, id: 'x' });
      const [record] = (await client.keys(`${prefix}:*Q2:*`)) as [string];
      await client.del(record);
      if (damage === 'list') await client.lpush(record, 'x');
      else await client.set(record, Buffer.from(damage, 'latin1'));
      await client.pexpire(record, 60_000);
      const next = await limiter.consume('k', { cost: 3, id: 'x' });
      expect(next, damage).to.include({ allowed: true, repeated: false, degraded: false, remaining: 4 });
      expect(await limiter.consume('k', { id: 'x' })).to.include({ repeated: true, cost: 3 });
      await first.refund();
      await next.refund();
      expect((await limiter.usage('k')).policies[0], damage).to.include({ used: 0 });
      await limiter.close();
    }
  });
}

for (const kind of serverKinds) {
  it(`charges of requests with ids, on ${kind}: the name of the repetition that changes a charge lives as long as its units`, async () => {
    const client = clients[kind];
    const [prefix, clock] = [freshPrefix(), new TestClock()];
    const store = redisStore(client, { prefix, clock: clock.read });
    const limiter = limiterOn(store, { limit: 100, algorithm: 'sliding-log', window: '1h' });
    await limiter.consume('k', { cost: 20, id: 'x' });
    const again = await limiter.consume('k', { id: 'x' });
    await again.settle(21);
    const [name] = (await client.keys(`${prefix}:*Q2:*.*`)) as [string];
    const before = await client.pttl(name);
    clock.now += 59 * MINUTE;
    await again.settle(30);
    expect((await client.pttl(name)) - before).to.be.greaterThan(58 * MINUTE);
    await limiter.close();
  });
}
