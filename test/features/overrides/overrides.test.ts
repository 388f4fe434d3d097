import { expect } from 'chai';
import {
  type HeadgateError,
  type Key,
  type OverrideChange,
  type OverrideNote,
  type Policy,
  createLimiter,
  memoryStore,
  type Limiter,
} from 'headgate';
import { rateLimit } from 'headgate/express';
import { changeRecord } from '../../../src/features/overrides/contract/records.js';
import { limiterOn, stores, TestClock } from '../../support/stores.js';

const HOUR = 3_600_000;

/** A policy of each algorithm that counts over time. */
const policies: Policy[] = [
  { algorithm: 'sliding-window', limit: 10, window: '1h' },
  { algorithm: 'fixed-window', limit: 10, window: '1h' },
  { algorithm: 'sliding-log', limit: 10, window: '1h' },
  { algorithm: 'token-bucket', limit: 10, window: '1h' },
  { algorithm: 'leaky-bucket', limit: 10, window: '1h' },
  { algorithm: 'gcra', limit: 10, window: '1h', burst: 10 },
  { algorithm: 'calendar', limit: 10, period: 'day' },
];

const spend = async (limiter: ReturnType<typeof limiterOn>, key: Key, times: number) => {
  for (let i = 0; i < times; i++) await limiter.consume(key);
};

for (const [name, createStore] of Object.entries(stores)) {
  describe(`overrides, on ${name}`, () => {
    const make = (options: object) => {
      const clock = new TestClock();
      return { clock, limiter: limiterOn(createStore(clock.read), { overrides: true, ...options } as never) };
    };

    it('a reset forgets the charges under an override of another window that this limiter has never read', async () => {
      const clock = new TestClock();
      const store = createStore(clock.read);
      const options = { name: 'shared', overrides: true, limit: 5, window: '1m' } as const;
      const [one, other] = [limiterOn(store, options), limiterOn(store, options)];
      await one.override('k', '2/1h');
      await spend(one, 'k', 3);
      await other.reset('k');
      expect(await one.peek('k')).to.include({ limit: 2, remaining: 2 });
      await one.removeOverride('k');
      await one.overrideAll('3/2h');
      await spend(one, 'k', 3);
      await other.reset('k');
      expect(await one.peek('k')).to.include({ limit: 3, remaining: 3 });
    });

    for (const policy of policies) {
      const { algorithm } = policy;

      it(`${algorithm}: spent units stay, whether the limit is raised, lowered, removed or expired`, async () => {
        const { clock, limiter } = make(policy);
        await spend(limiter, 'k', 5);
        await limiter.override('k', { limit: 50 });
        expect(await limiter.peek('k')).to.include({ allowed: true, limit: 50, remaining: 45 });
        expect((await limiter.peek('k')).policies[0]).to.include({ limit: 50, remaining: 45 });
        await limiter.override('k', { limit: 6 }, { for: '10s' });
        expect(await limiter.peek('k')).to.include({ limit: 6, remaining: 1 });
        await limiter.override('k', { limit: 3 }, { for: '10s' });
        expect(await limiter.consume('k')).to.include({ allowed: false, limit: 3, remaining: 0 });
        expect(await limiter.peek('other')).to.include({ limit: 10, remaining: 10 });
        clock.now += 9_999;
        expect((await limiter.consume('k')).allowed).to.be.false;
        clock.now += 1;
        expect(await limiter.consume('k')).to.include({ allowed: true, limit: 10, remaining: 4 });
        await limiter.override('k', { limit: 100 });
        expect(await limiter.removeOverride('k')).to.be.true;
        expect(await limiter.removeOverride('k')).to.be.false;
        expect(await limiter.peek('k')).to.include({ limit: 10, remaining: 4 });
      });

      it(`${algorithm}: charges before, under and after an override are given back completely`, async () => {
        const { limiter } = make(policy);
        const before = await limiter.consume('k', { cost: 4 });
        await limiter.override('k', { limit: 100 });
        const under = await limiter.consume('k', { cost: 50 });
        expect(await limiter.peek('k')).to.include({ remaining: 46 });
        await before.refund();
        expect(await limiter.peek('k')).to.include({ remaining: 50 });
        await limiter.removeOverride('k');
        await under.settle(5);
        expect(await limiter.peek('k')).to.include({ limit: 10, remaining: 5 });
        const after = await limiter.consume('k', { cost: 3 });
        await limiter.override('k', { limit: 20 });
        await after.refund();
        expect(await limiter.peek('k')).to.include({ limit: 20, remaining: 15 });
        await limiter.refund('k', 5);
        expect(await limiter.peek('k')).to.include({ remaining: 20 });
      });

      it(`${algorithm}: a waiting call may have a cost that only the override admits`, async () => {
        const { clock, limiter } = make(policy);
        await limiter.override('k', { limit: 50 });
        await limiter.consume('k', { cost: 50 });
        const waited = limiter.wait('k', { cost: 20, timeout: '1d' });
        await new Promise(setImmediate);
        clock.now += 86_400_000;
        await limiter.refund('k', 50);
        expect(await waited).to.include({ allowed: true, limit: 50 });
        const never = await limiter.wait('k', { cost: 51 }).catch(({ code }: HeadgateError) => code);
        expect(never).to.equal('HEADGATE_DENIED');
      });

      it(`${algorithm}: a denial under an override ends at its announced time`, async () => {
        const { clock, limiter } = make(policy);
        await limiter.override('k', { limit: 4 });
        await spend(limiter, 'k', 4);
        const { allowed, retryAfterMs } = await limiter.consume('k');
        expect(allowed).to.be.false;
        clock.now += retryAfterMs! - 1;
        expect((await limiter.consume('k')).allowed).to.be.false;
        clock.now += 1;
        expect((await limiter.consume('k')).allowed).to.be.true;
      });

      it(`${algorithm}: an override of all keys is weaker than a key's own`, async () => {
        const { limiter } = make(policy);
        await spend(limiter, 'k', 5);
        await spend(limiter, 'own', 5);
        await limiter.override('own', { limit: 8 });
        await limiter.overrideAll({ limit: 50 });
        expect(await limiter.peek('k')).to.include({ limit: 50, remaining: 45 });
        expect(await limiter.peek('own')).to.include({ limit: 8, remaining: 3 });
        await limiter.removeOverride('own');
        expect(await limiter.peek('own')).to.include({ limit: 50, remaining: 45 });
        expect(await limiter.removeOverride()).to.be.true;
        expect(await limiter.peek('k')).to.include({ limit: 10, remaining: 5 });
        expect(await limiter.overrideOf()).to.be.undefined;
      });
    }

    for (const policy of policies) {
      it(`${policy.algorithm}: a key's own override of another policy leaves this policy to the override of all keys`, async () => {
        const { clock, limiter } = make({ policies: [{ ...policy, name: 'a' }, 'b=20/1h'] });
        await limiter.overrideAll({ a: { limit: 2 } }, { for: '20s' });
        await limiter.override('k', { b: { limit: 7 } }, { for: '1h' });
        const limits = async () => (await limiter.peek('k')).policies.map(({ limit }) => limit);
        expect(await limits()).to.deep.equal([2, 7]);
        await spend(limiter, 'k', 2);
        const denied = await limiter.consume('k');
        expect(denied).to.include({ allowed: false, policy: 'a', limit: 2 });
        expect(denied.retryAfterMs).to.equal(20_000);
        await limiter.override('k', { a: { limit: 4 } });
        expect(await limits()).to.deep.equal([4, 20]);
        await limiter.removeOverride('k');
        expect(await limits()).to.deep.equal([2, 20]);
        clock.now += 30_000;
        await limiter.removeOverride();
        expect(await limits()).to.deep.equal([10, 20]);
      });
    }

    for (const policy of policies) {
      it(`${policy.algorithm}: a denial lasts no longer than the override that denies`, async () => {
        const { clock, limiter } = make(policy);
        await spend(limiter, 'k', 2);
        await limiter.override('k', { limit: 1 }, { for: 10_000 });
        clock.now += 4_000;
        expect((await limiter.consume('k')).retryAfterMs).to.equal(6_000);
        expect((await limiter.consume('k', { cost: 2 })).retryAfterMs).to.equal(6_000);
        clock.now += 5_999;
        expect((await limiter.consume('k')).retryAfterMs).to.equal(1);
        clock.now += 1;
        expect((await limiter.consume('k', { cost: 2 })).allowed).to.equal(true);
        await limiter.consume('k', { cost: 6 });
        await limiter.override('k', { limit: 1 }, { for: 10_000 });
        const { retryAfterMs } = await limiter.consume('k');
        clock.now += retryAfterMs! - 1;
        expect((await limiter.consume('k')).allowed).to.equal(false);
        clock.now += 1;
        expect((await limiter.consume('k')).allowed).to.equal(true);
      });

      it(`${policy.algorithm}: a cost above the override waits for its end, however many periods it lasts`, async () => {
        const { limiter } = make(policy);
        await limiter.override('k', { limit: 5 }, { for: '30d' });
        expect((await limiter.consume('k', { cost: 6 })).retryAfterMs).to.equal(30 * 24 * HOUR);
        expect((await limiter.consume('k', { cost: 11 })).reason).to.equal('cost-exceeds-capacity');
        const one: Policy = { ...policy, name: 'one' };
        const several = make({ policies: [one, { name: 'other', limit: 100, window: '1h' }] }).limiter;
        await several.override('k', { one: { limit: 5 } }, { for: '30d' });
        expect((await several.consume('k', { cost: 6 })).retryAfterMs).to.equal(30 * 24 * HOUR);
      });
    }

    it('an unreadable record leaves the configured limits in force', async () => {
      const clock = new TestClock();
      const store = createStore(clock.read);
      const limiter = limiterOn(store, {
        name: 'garbage',
        ...policies[0]!,
        overrides: true,
        warnings: false,
      } as never);
      await limiter.override('k', { limit: 99 });
      const { id } = limiter.policies[0]!;
      const place = { subject: { set: limiter.set, key: 'k' }, by: 'key' };
      for (const field of ['0', '9'.repeat(30), 'nan', '1.5', '', '-1', '5 x']) {
        await store.overrides!.change(place, {
          entry: `\t${id}\t${field}\t{"change":"1/1h"}`,
          duration: 0,
          life: 0,
        });
        expect(await limiter.consume('k'), field).to.include({ allowed: true, limit: 10 });
        clock.now += 2 * HOUR;
      }
      await store.overrides!.change(place, { entry: `\t*\tabc\t{"change":`, duration: 0, life: 0 });
      expect(await limiter.consume('k')).to.include({ allowed: true, limit: 10 });
      const error = await limiter.overrideOf('k').catch((thrown: HeadgateError) => thrown.code);
      expect(error).to.equal('HEADGATE_OVERRIDES');
      expect(await limiter.removeOverride('k')).to.equal(true);
    });

    it('a record of which not even the times can be read is reported, and gives way to the next override', async () => {
      const store = createStore();
      const records = { read: () => ['garbage', Date.now()], change: () => ['garbage', Date.now()] };
      const damaged = { ...store, overrides: records };
      for (const method of ['decide', 'adjust', 'lease', 'reset', 'ban', 'close'] as const)
        Object.assign(damaged, { [method]: store[method]?.bind(store) });
      const limiter = limiterOn(damaged as never, {
        name: `times ${name}`,
        policies: '1/1h',
        overrides: true,
      });
      for (const key of ['k', undefined]) {
        const error = await limiter.overrideOf(key).catch((thrown: HeadgateError) => thrown);
        expect(error).to.include({ code: 'HEADGATE_OVERRIDES' });
        expect((error as HeadgateError).message).to.match(/garbage/);
      }
      expect((await limiter.consume('k')).limit).to.equal(1);
      await limiter.close();
      const change = { entry: '\tid\t5\t{"change":"5/1h"}', duration: 0, life: 0 };
      expect(changeRecord('garbage\nx 1 2', change, 7).record).to.equal('7 0\tid\t5\t{"change":"5/1h"}');
    });

    it('an override stays in force if the clock goes back', async () => {
      const { clock, limiter } = make(policies[0]!);
      await limiter.override('k', { limit: 99 });
      clock.now -= HOUR;
      expect((await limiter.consume('k')).limit).to.equal(99);
      expect((await limiter.overrideOf('k'))!.change).to.deep.equal({ limit: 99 });
      expect(await limiter.removeOverride('k')).to.equal(true);
      expect((await limiter.consume('k')).limit).to.equal(10);
    });

    for (const policy of policies) {
      it(`${policy.algorithm}: an override of all keys stays in force if the clock goes back`, async () => {
        const { clock, limiter } = make(policy);
        await limiter.overrideAll({ limit: 99 });
        clock.now -= HOUR;
        expect((await limiter.consume('k')).limit).to.equal(99);
        const other = { name: 'other', algorithm: 'fixed-window', limit: 200, window: '1h' } as const;
        const several = make({ policies: [{ ...policy, name: 'one' }, other] });
        await several.limiter.overrideAll({ one: { limit: 99 } });
        several.clock.now -= HOUR;
        const { policies: verdicts } = await several.limiter.consume('k', { cost: 3 });
        expect(verdicts[0]).to.include({ limit: 99, remaining: 96 });
        await several.limiter.refund('k', 1);
        expect((await several.limiter.peek('k')).policies[0]).to.include({ limit: 99, remaining: 97 });
      });
    }

    it('a raise by another limiter of the name wakes waiting calls, for a key and for all', async () => {
      const store = createStore();
      const options = {
        name: 'woken',
        algorithm: 'fixed-window',
        limit: 1,
        window: '1h',
        overrides: true,
      } as const;
      const [waiting, raising] = [limiterOn(store, options), limiterOn(store, options)];
      for (const raise of [
        () => raising.override('k', { limit: 2 }),
        () => raising.override('k', { limit: 3 }),
      ]) {
        await waiting.consume('k');
        const waited = waiting.wait('k', { timeout: '2h' });
        await new Promise((resolve) => setTimeout(resolve, 20));
        await raise();
        expect((await waited).allowed).to.equal(true);
        await raising.removeOverride('k');
        await raising.reset('k');
      }
      await waiting.consume('all');
      const waited = waiting.wait('all', { timeout: '2h' });
      await raising.overrideAll({ limit: 5 });
      expect((await waited).allowed).to.equal(true);
      await waiting.close();
      await raising.close();
    }).timeout(10_000);

    it('a key whose policies are all switched off obeys the next override at once, in each process', async () => {
      const store = createStore();
      const policies = ['minute=5/1m', 'org=7/1m by org'];
      const limiters = [1, 2].map(() => limiterOn(store, { name: 'left out', policies, overrides: true }));
      const [first, second] = limiters as [Limiter, Limiter];
      const remaining = async (limiter: Limiter) => {
        const decision = await limiter.peek({ key: 'k', org: 'o' });
        return decision.policies.map(({ name: its, limit }) => `${its} ${limit}`).join();
      };
      for (const [change, expected] of [
        [false, 'org 7'],
        ['3/1m', 'minute 3,org 7'],
        [false, 'org 7'],
        [undefined, 'minute 5,org 7'],
      ] as const) {
        if (change === undefined) await first.removeOverride('k');
        else await first.override('k', { minute: change });
        expect([await remaining(second), await remaining(first)]).to.deep.equal([expected, expected]);
      }
      const alone = [1, 2].map(() =>
        limiterOn(store, { name: 'alone', policies: ['minute=1/1m'], overrides: true }),
      );
      await alone[0]!.override('k', { minute: false });
      for (let i = 0; i < 3; i++) expect((await alone[1]!.consume('k')).allowed).to.equal(true);
      await alone[0]!.override('k', '2/1m');
      const admitted = await Promise.all([1, 2, 3].map(() => alone[1]!.consume('k')));
      expect(admitted.filter(({ allowed }) => allowed)).to.have.length(2);
    });

    it('concurrency: a raised limit has more slots, a lowered limit has none until some are released', async () => {
      const { limiter } = make({ algorithm: 'concurrency', limit: 2, lease: '1m' });
      const held = [await limiter.acquire('k'), await limiter.acquire('k')];
      await limiter.override('k', { limit: 3 });
      expect(await limiter.acquire('k')).to.include({ allowed: true, limit: 3 });
      await limiter.override('k', { limit: 1 });
      expect(await limiter.acquire('k')).to.include({ allowed: false, limit: 1 });
      for (const slot of held) expect(await slot.release()).to.be.true;
      expect((await limiter.acquire('k')).allowed).to.be.false;
    });

    it('a larger burst that ends: the debt beyond the smaller burst causes no wait, and is given back first', async () => {
      const bucket = { algorithm: 'token-bucket', limit: 10, window: '1s' };
      for (const wait of [0, 500]) {
        const { clock, limiter } = make(bucket);
        await limiter.override('k', { burst: 600 });
        const charge = await limiter.consume('k', { cost: 600 });
        clock.now += wait;
        await limiter.removeOverride('k');
        expect((await limiter.peek('k')).retryAfterMs).to.equal(1000);
        clock.now += 1000;
        await limiter.override('k', { burst: 600 });
        expect((await limiter.peek('k')).remaining).to.equal((1000 + wait) / 100);
        await limiter.removeOverride('k');
        clock.now += 5000;
        expect(await limiter.consume('k', { cost: 10 })).to.include({ allowed: true, remaining: 0 });
        await charge.refund();
        expect((await limiter.peek('k')).remaining).to.equal(0);
      }
    });

    it('a larger burst: a charge that was moved forward, and has drained, is not given back', async () => {
      const bucket = { algorithm: 'token-bucket', limit: 10, window: '20ms' } as const;
      const limiter = limiterOn(createStore(), { ...bucket, overrides: true, warnings: false });
      await limiter.override('k', { burst: 600 });
      const first = await limiter.consume('k', { cost: 300 });
      const second = await limiter.consume('k', { cost: 300 });
      await first.refund();
      await new Promise((resolve) => setTimeout(resolve, 650));
      expect((await limiter.consume('k', { cost: 600 })).allowed).to.equal(true);
      const at = performance.now();
      const { remaining } = await limiter.peek('k');
      await second.refund();
      const added = (await limiter.peek('k')).remaining - remaining;
      // Meanwhile, the bucket takes in half a unit in each millisecond.
      expect(added - (performance.now() - at) / 2).to.be.below(100);
      await limiter.close();
    });

    it('leaky-bucket with maxDelay: requests wait as long as before, at another pace', async () => {
      const { limiter } = make({ policies: 'leaky-bucket 10/1s burst 1 max-delay 1s' });
      await limiter.override('k', { limit: 100, burst: 1 });
      await limiter.consume('k');
      expect(await limiter.consume('k')).to.include({ allowed: true, delayMs: 10 });
      await limiter.override('k', { limit: 5, burst: 1 });
      expect((await limiter.consume('k')).delayMs).to.be.within(200, 400);
    });

    it('several policies: by name, switched off, another window', async () => {
      const { limiter } = make({
        policies: [
          { name: 'minute', limit: 2, window: '1m' },
          { name: 'day', algorithm: 'token-bucket', limit: 5, window: '1d' },
        ],
      });
      await limiter.override('k', { minute: { limit: 20 }, day: false });
      let decision = await limiter.consume('k', { cost: 10 });
      expect(decision.policies.map(({ name: policy, limit }) => [policy, limit])).to.deep.equal([
        ['minute', 20],
      ]);
      await limiter.override('k', { day: '50/1d', minute: { limit: 20 } });
      decision = await limiter.consume('k', { cost: 5 });
      expect(decision.policies.map(({ limit, remaining }) => [limit, remaining])).to.deep.equal([
        [20, 5],
        [50, 45],
      ]);
      await limiter.override('k', { minute: '30/2m' });
      decision = await limiter.consume('k');
      expect(decision.policies.map(({ limit, remaining }) => [limit, remaining])).to.deep.equal([
        [30, 30],
        [5, 0],
      ]);
      expect(await limiter.consume('k')).to.include({ allowed: false, policy: 'day' });
    });

    it('a policy that is switched off is back when the override ends, even without requests', async () => {
      const { clock, limiter } = make({ policies: [{ name: 'minute', limit: 1, window: '1m' }] });
      await limiter.override('k', { minute: false }, { for: '2s' });
      for (let i = 0; i < 5; i++) expect((await limiter.consume('k')).allowed).to.be.true;
      clock.now += 2000;
      await new Promise((resolve) => setTimeout(resolve, 1050));
      expect((await limiter.consume('k')).allowed).to.be.true;
      expect((await limiter.consume('k')).allowed).to.be.false;
    });

    it('tiers: another one, and a limit in each', async () => {
      const { limiter } = make({ tiers: { free: '2/1m', pro: '50/1m' } });
      await limiter.consume('k', { tier: 'free' });
      await limiter.override('k', { tier: 'pro' });
      expect(await limiter.consume('k', { tier: 'free' })).to.include({
        allowed: true,
        limit: 50,
        remaining: 48,
      });
      await limiter.override('k', { limit: 5 });
      for (const tier of ['free', 'pro'])
        expect(await limiter.peek('k', { tier })).to.include({ limit: 5, remaining: 3 });
    });

    it('tiers: a change by name, if a tier has only some of the policies', async () => {
      const tiers = { free: ['minute=2/1m'], pro: ['minute=50/1m', 'day=90/1d'] };
      const { limiter } = make({ tiers, warnings: false });
      await limiter.override('k', { minute: '7/2m', day: '8/1d' });
      const limits = async (tier: string) =>
        (await limiter.peek('k', { tier })).policies.map(({ limit }) => limit);
      expect(await limits('free')).to.deep.equal([7]);
      expect(await limits('pro')).to.deep.equal([7, 8]);
    });

    it('a cost that only the override admits is waited for', async () => {
      const limiter = limiterOn(createStore(), { limit: 5, window: '200ms', overrides: true });
      await limiter.override('k', { limit: 100 });
      await limiter.consume('k', { cost: 80 });
      expect((await limiter.wait('k', { cost: 50, timeout: '5s' })).limit).to.equal(100);
      const error = await limiter.wait('k', { cost: 101 }).catch((thrown: HeadgateError) => thrown.code);
      expect(error).to.equal('HEADGATE_DENIED');
      await limiter.close();
    });

    it('buckets give waiting calls their turns at the pace of the override', async () => {
      const bucket = {
        algorithm: 'token-bucket',
        limit: 10,
        window: '1s',
        burst: 1,
        unit: 'tokens',
      } as const;
      for (const all of [false, true]) {
        const limiter = limiterOn(createStore(), { ...bucket, overrides: true });
        const change = { limit: 20, burst: 1 };
        await (all ? limiter.overrideAll(change) : limiter.override('k', change));
        const began = performance.now();
        const decisions = await Promise.all(Array.from({ length: 7 }, () => limiter.wait('k')));
        // A call at once, and then a call every 50 ms.
        expect(performance.now() - began).to.be.at.least(6 * 50 - 20);
        expect(decisions.map(({ limit }) => limit)).to.deep.equal(Array(7).fill(20));
        await limiter.close();
      }
    });

    it('a request that waits is not an attempt, whatever the override', async () => {
      const policies = ['a=fixed-window 1000/1h attempts', 'b=fixed-window 1/200ms'];
      const limiter = limiterOn(createStore(), { policies, overrides: true });
      await limiter.override('k', { a: 'fixed-window 900/2h' });
      await limiter.consume('k');
      await limiter.wait('k', { timeout: '5s' });
      expect((await limiter.peek('k')).policies[0]).to.include({ limit: 900, remaining: 898 });
      await limiter.close();
      const other = limiterOn(createStore(), {
        policies: policies.slice(1),
        tiers: { pro: policies },
        overrides: true,
      });
      await other.override('k', { tier: 'pro' });
      await other.consume('k');
      await other.wait('k', { timeout: '5s' });
      expect((await other.peek('k')).policies[0]).to.include({ name: 'a', remaining: 998 });
      await other.close();
    });

    it('policies of each request: a new dimension, and a name that some requests lack', async () => {
      const store = createStore();
      const options = {
        name: 'dynamic',
        store,
        overrides: true,
        keys: { org: () => 'acme' },
        warnings: false,
      };
      const { limiter } = rateLimit({ ...options, policies: () => '1/1m' } as never);
      const limits = async (...policies: string[]) => {
        const decision = await limiter.decide({ key: 'k', org: 'acme' }, 1, limiter.compile(policies));
        return decision.policies.map(({ limit }) => limit);
      };
      await limiter.override({ org: 'acme' }, { limit: 50 });
      expect(await limits('org=5/1m by org')).to.deep.equal([50]);
      await limiter.override('k', { minute: { limit: 20 }, day: { limit: 30 } });
      expect(await limits('minute=5/1m')).to.deep.equal([20]);
      expect(await limits('minute=5/1m', 'day=5/1d')).to.deep.equal([20, 30]);
      await limiter.close();
    });

    it('dimensions: the policies of the key that is overridden', async () => {
      const { limiter } = make({ policies: ['10/1m', { name: 'org', limit: 20, window: '1m', by: 'org' }] });
      const key = { key: 'ada', org: 'acme' };
      await limiter.consume(key);
      await limiter.override({ org: 'acme' }, { limit: 200 });
      expect(
        (await limiter.consume(key)).policies.map(({ limit, remaining }) => [limit, remaining]),
      ).to.deep.equal([
        [10, 8],
        [200, 198],
      ]);
      await limiter.override('ada', { limit: 3 });
      expect((await limiter.consume(key)).policies.map(({ limit }) => limit)).to.deep.equal([3, 200]);
      expect(
        (await limiter.peek({ key: 'bob', org: 'acme' })).policies.map(({ limit }) => limit),
      ).to.deep.equal([10, 200]);
      expect(await limiter.overrideOf({ org: 'acme' })).to.deep.include({ change: { limit: 200 } });
    });

    it('dimensions: a cost that another key can never pay is denied for good, while an override of one ends', async () => {
      const { limiter } = make({ policies: ['10/1m', { name: 'org', limit: 20, window: '1m', by: 'org' }] });
      await limiter.override({ org: 'acme' }, { limit: 15 }, { for: '1h' });
      expect(await limiter.consume({ key: 'ada', org: 'acme' }, { cost: 18 })).to.include({
        allowed: false,
        reason: 'cost-exceeds-capacity',
      });
    });

    it('policies by a key within another one, and a ban', async () => {
      const { limiter } = make({
        policies: ['10/1m', { name: 'org', limit: 20, window: '1m', by: 'org' }],
        slotBy: 'org',
        ban: { after: 2, for: '1m' },
      });
      const key = { key: 'ada', org: 'acme' };
      await limiter.override(key, { limit: 1 });
      expect((await limiter.consume(key)).policies.map(({ limit }) => limit)).to.deep.equal([1, 20]);
      await limiter.consume(key);
      expect(await limiter.consume(key)).to.include({ allowed: false });
      expect(await limiter.consume(key)).to.include({ reason: 'banned' });
    });

    it('is obeyed by another limiter of the name', async () => {
      const store = createStore(new TestClock().read);
      const [first, second] = [1, 2].map(() =>
        createLimiter({ name: 'shared', store, limit: 1, window: '1m', overrides: true }),
      ) as [ReturnType<typeof createLimiter>, ReturnType<typeof createLimiter>];
      await spend(second, 'k', 2);
      await first.override('k', '3/1m');
      expect(await second.consume('k')).to.include({ allowed: true, limit: 3, remaining: 1 });
      await first.override('k', { limit: 9, window: '1h' });
      expect(await second.consume('k')).to.include({ allowed: true, limit: 9 });
      await first.removeOverride('k');
      expect(await second.consume('k')).to.include({ allowed: false, limit: 1 });
      await Promise.all([first.close(), second.close()]);
    });

    it('a reset and a refund by a limiter that has not decided by the override', async () => {
      const store = createStore(new TestClock().read);
      const options = { name: 'by hand', limit: 5, window: '1m', overrides: true } as const;
      const [deciding, other] = [limiterOn(store, options), limiterOn(store, options)];
      await deciding.override('k', '10/2m');
      await deciding.consume('k', { cost: 10 });
      await other.refund('k', 4);
      expect((await deciding.peek('k')).remaining).to.equal(4);
      await limiterOn(store, options).reset('k');
      expect((await deciding.peek('k')).remaining).to.equal(10);
    });

    it('returns its author, reason, start and end', async () => {
      const { clock, limiter } = make({ limit: 10, window: '1h' });
      expect(await limiter.overrideOf('k')).to.be.undefined;
      await limiter.override('k', '1000/1h', { for: '1d', by: 'ada', reason: 'launch' });
      expect(await limiter.overrideOf('k')).to.deep.equal({
        change: '1000/1h',
        since: new Date(clock.now),
        until: new Date(clock.now + 24 * HOUR),
        by: 'ada',
        reason: 'launch',
      });
      await limiter.override('k', { limit: 7 });
      const until = undefined;
      const nobody = { by: undefined, reason: undefined };
      expect(await limiter.overrideOf('k')).to.deep.equal({
        change: { limit: 7 },
        since: new Date(clock.now),
        until,
        ...nobody,
      });
    });

    it('any key: empty, of 10 kB, with braces and line ends', async () => {
      const { limiter } = make({ limit: 10, window: '1h' });
      for (const [i, key] of ['', 'x'.repeat(10_000), '{a}:b\n\t\0', '%@org=x', '💥'].entries()) {
        await limiter.override(key, { limit: 20 + i });
        expect(await limiter.peek(key)).to.include({ limit: 20 + i });
        expect((await limiter.overrideOf(key))?.change).to.deep.equal({ limit: 20 + i });
      }
    });
  });
}

describe('overrides: refused changes', () => {
  const one = () => createLimiter({ limit: 10, window: '1m', overrides: true, store: memoryStore() });
  const two = () =>
    createLimiter({
      policies: [
        { name: 'minute', limit: 10, window: '1m' },
        { name: 'org', limit: 10, window: '1m', by: 'org' },
        { name: 'other', limit: 10, window: '1h', by: 'org' },
      ],
      overrides: true,
      store: memoryStore(),
    });

  /** Limiter, change, note, key, code, and values in the message. */
  const refused: [() => ReturnType<typeof one>, unknown, unknown, unknown, string, RegExp][] = [
    [one, undefined, {}, 'k', 'HEADGATE_INVALID_OPTION', /1000\/1m/],
    [one, 10, {}, 'k', 'HEADGATE_INVALID_OPTION', /1000\/1m/],
    [one, {}, {}, 'k', 'HEADGATE_INVALID_OPTION', /1000\/1m/],
    [one, [], {}, 'k', 'HEADGATE_INVALID_OPTION', /1000\/1m/],
    [one, 'much', {}, 'k', 'HEADGATE_INVALID_OPTION', /much/],
    [one, '0/1m', {}, 'k', 'HEADGATE_INVALID_OPTION', /limit/],
    [one, { limit: -1 }, {}, 'k', 'HEADGATE_INVALID_OPTION', /limit/],
    [one, { limit: 1.5 }, {}, 'k', 'HEADGATE_INVALID_OPTION', /limit/],
    [one, { limit: undefined }, {}, 'k', 'HEADGATE_INVALID_OPTION', /1000\/1m/],
    [one, '5/1m shadow', {}, 'k', 'HEADGATE_INVALID_OPTION', /\bshadow\b.*\bshadow\b/],
    [one, '5/1m by org', {}, 'k', 'HEADGATE_INVALID_OPTION', /\bby\b.*\bby\b/],
    [one, '5/1m attempts', {}, 'k', 'HEADGATE_INVALID_OPTION', /\battempts\b.*\battempts\b/],
    [one, '5/1m unit tokens', {}, 'k', 'HEADGATE_INVALID_OPTION', /\bunit\b.*\bunit\b/],
    [one, '5/1m', { until: '2099-02-30' }, 'k', 'HEADGATE_INVALID_OPTION', /until/],
    [one, { limits: 1 }, {}, 'k', 'HEADGATE_UNKNOWN_OPTION', /limits/],
    [one, { burst: 1 }, {}, 'k', 'HEADGATE_UNKNOWN_OPTION', /burst/],
    [one, { name: 'x' }, {}, 'k', 'HEADGATE_UNKNOWN_OPTION', /name/],
    [one, { tier: 'pro' }, {}, 'k', 'HEADGATE_UNKNOWN_TIER', /tiers/],
    [one, { minute: { limit: 5 } }, {}, 'k', 'HEADGATE_UNKNOWN_OPTION', /default/],
    [one, '5/1m', { for: '1d', until: Date.now() + 1000 }, 'k', 'HEADGATE_INVALID_OPTION', /for.*until/],
    [one, '5/1m', { for: 0 }, 'k', 'HEADGATE_INVALID_OPTION', /for/],
    [one, '5/1m', { for: '2y' }, 'k', 'HEADGATE_INVALID_OPTION', /for/],
    [one, '5/1m', { until: '2001-01-01' }, 'k', 'HEADGATE_INVALID_OPTION', /until/],
    [one, '5/1m', { until: 'soon' }, 'k', 'HEADGATE_INVALID_OPTION', /until/],
    [one, '5/1m', { by: '' }, 'k', 'HEADGATE_INVALID_OPTION', /by/],
    [one, '5/1m', { who: 'ada' }, 'k', 'HEADGATE_UNKNOWN_OPTION', /who/],
    [one, '5/1m', {}, 7, 'HEADGATE_INVALID_KEY', /7/],
    [one, '5/1m', {}, undefined, 'HEADGATE_INVALID_KEY', /overrideAll/],
    [one, '5/1m', {}, { org: 'acme' }, 'HEADGATE_UNKNOWN_DIMENSION', /org/],
    [two, '5/1m', {}, { org: 'acme' }, 'HEADGATE_INVALID_OPTION', /org: '10\/1m', other: '10\/1h'/],
    [two, { limit: 5 }, {}, { org: 'acme' }, 'HEADGATE_INVALID_OPTION', /policies/],
    [two, { minute: { limit: 5 } }, {}, { org: 'acme' }, 'HEADGATE_UNKNOWN_OPTION', /minute/],
    [two, { org: { limit: 0 } }, {}, { org: 'acme' }, 'HEADGATE_INVALID_OPTION', /limit/],
    [two, { org: 5 }, {}, { org: 'acme' }, 'HEADGATE_INVALID_OPTION', /org/],
    [two, { limit: 5 }, {}, { key: 'ada', org: 'acme' }, 'HEADGATE_INVALID_KEY', /"ada".*"acme"/],
  ];

  for (const [make, change, note, key, code, message] of refused) {
    it(`${JSON.stringify(change)} ${JSON.stringify(note)} of ${JSON.stringify(key)}`, async () => {
      const limiter = make();
      const error = await limiter.override(key as Key, change as OverrideChange, note as OverrideNote).then(
        () => expect.fail('The override was accepted'),
        (thrown: HeadgateError) => thrown,
      );
      expect(error).to.include({ code });
      expect(error.message).to.match(message);
      await limiter.close();
    });
  }

  it('a bigint', async () => {
    const error = await one()
      .override('k', 5n as never)
      .catch((thrown: HeadgateError) => thrown);
    expect(error).to.include({ code: 'HEADGATE_INVALID_OPTION' });
  });

  it('without the option', async () => {
    const limiter = createLimiter('10/1m');
    for (const attempt of [
      () => limiter.override('k', '20/1m'),
      () => limiter.overrideAll('20/1m'),
      () => limiter.overrideOf('k'),
      () => limiter.removeOverride('k'),
    ])
      await attempt().then(
        () => expect.fail('The override was accepted'),
        (error: HeadgateError) => expect(error.code).to.equal('HEADGATE_OVERRIDES'),
      );
  });

  it('a limiter that is refused reads no overrides', async () => {
    const store = memoryStore();
    const one = createLimiter({ store, limit: 1, window: '1m' });
    let reads = 0;
    Object.assign(store, { overrides: { ...store.overrides, read: () => (reads++, ['', 0]) } });
    expect(() => createLimiter({ store, limit: 1, window: '1m', overrides: true }))
      .to.throw()
      .with.property('code', 'HEADGATE_NAME_REQUIRED');
    await new Promise(setImmediate);
    expect(reads).to.equal(0);
    await one.close();
  });

  it('on a store without overrides', () => {
    const { decide, adjust, lease, reset, ban } = memoryStore();
    const store = { decide, adjust, lease, reset, ban };
    expect(() => createLimiter({ store, limit: 1, window: '1s', overrides: true })).to.throw(/^overrides: /);
  });
});
