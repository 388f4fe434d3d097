import { expect } from 'chai';
import type { Key, Limiter } from 'headgate';
import { limiterOn, stores, TestClock } from '../../support/stores.js';

for (const [name, createStore] of Object.entries(stores)) {
  describe(`retryAfterMs and the ends of overrides, on ${name}`, () => {
    const make = (options: object) => {
      const clock = new TestClock();
      return { clock, limiter: limiterOn(createStore(clock.read), { overrides: true, ...options } as never) };
    };
    /** Law 2: denied a millisecond before the time, and admitted then. */
    const expectExact = async (
      limiter: Limiter,
      clock: TestClock,
      key: Key,
      options: { cost?: number } = {},
    ) => {
      const { allowed, retryAfterMs = 0, policies } = await limiter.peek(key, options);
      expect(allowed).to.be.false;
      expect(retryAfterMs).to.be.above(0);
      expect(Math.max(...policies.map((policy) => policy.retryAfterMs ?? Infinity))).to.equal(retryAfterMs);
      const { now } = clock;
      clock.now = now + retryAfterMs - 1;
      expect((await limiter.peek(key, options)).allowed, `a ms before ${retryAfterMs}`).to.be.false;
      clock.now = now + retryAfterMs;
      expect((await limiter.peek(key, options)).allowed, `after ${retryAfterMs}`).to.be.true;
      clock.now = now;
      return retryAfterMs;
    };

    it('counts the end of another window', async () => {
      const { clock, limiter } = make({ policies: 'fixed-window 10/10s' });
      await limiter.override('k', { limit: 1, window: '1h' }, { for: '1s' });
      await limiter.consume('k');
      expect(await limiter.consume('k')).to.include({ retryAfterMs: 1000, reason: 'quota-exceeded' });
      expect(await expectExact(limiter, clock, 'k')).to.equal(1000);
    });

    it("counts by the store's clock if a plan without a limit follows, also beside a process that is ahead", async () => {
      const { clock, limiter } = make({ tiers: { free: 'fixed-window 2/1m', ent: 'unlimited' } });
      await limiter.override('k', { tier: 'free' }, { for: '5s' });
      for (let i = 0; i < 2; i++) await limiter.consume('k', { tier: 'ent' });
      const { now } = Date;
      Date.now = () => clock.now + 60_000;
      const denial = await limiter.consume('k', { tier: 'ent' }).finally(() => (Date.now = now));
      expect(denial).to.include({ allowed: false, retryAfterMs: 5000 });
      clock.advance('5s');
      expect((await limiter.consume('k', { tier: 'ent' })).allowed).to.equal(true);
    });

    it('counts what was charged to the configured policy before', async () => {
      const { clock, limiter } = make({ policies: 'fixed-window 2/10s' });
      await limiter.consume('k', { cost: 2 });
      await limiter.override('k', { limit: 1, window: '1h' }, { for: '1s' });
      await limiter.consume('k');
      expect(await expectExact(limiter, clock, 'k')).to.equal(10_000);
    });

    it('counts an attempt that denies the next request beyond the end of a tier', async () => {
      const { limiter } = make({
        policies: ['p=fixed-window 1/1s attempts', 'q=fixed-window 1/1s'],
        tiers: { pro: ['p=fixed-window 10/1m attempts', 'q=fixed-window 5/1s'] },
      });
      await limiter.override('k', { tier: 'pro' }, { for: '12s' });
      await limiter.consume('k');
      expect(await limiter.consume('k', { cost: 5 })).to.include({
        allowed: false,
        retryAfterMs: undefined,
        reason: 'cost-exceeds-capacity',
      });
    });

    it('an attempt that an override denies next waits no longer than the override', async () => {
      const { clock, limiter } = make({ policies: ['p=fixed-window 2/10s attempts', 'q=fixed-window 1/2s'] });
      await limiter.override('k', { p: { limit: 1 } }, { for: '5s' });
      await limiter.consume('k', { cost: { p: 0 } });
      expect(await limiter.consume('k')).to.include({ allowed: false, policy: 'q', retryAfterMs: 5000 });
      expect(await expectExact(limiter, clock, 'k')).to.equal(5000);
    });

    it('an attempt that a tier denies next waits no longer than the tier', async () => {
      const policies = ['p=fixed-window 10/1h', 'q=fixed-window 3/10s attempts', 'r=fixed-window 1/1s'];
      const pro = ['p=fixed-window 1/1h', 'q=fixed-window 2/10s attempts', 'r=fixed-window 1/1s'];
      const { clock, limiter } = make({ policies, tiers: { pro } });
      for (const cost of [1, { p: 0 }]) {
        const key = `k${typeof cost}`;
        await limiter.override(key, { tier: 'pro' }, { for: '5s' });
        await limiter.consume(key, { cost });
        expect(await limiter.consume(key, { cost: { r: 1 } })).to.include({
          allowed: false,
          retryAfterMs: 5000,
        });
        expect(await expectExact(limiter, clock, key)).to.equal(5000);
      }
    });

    it('is undefined for a cost that the policy of an attempt never admits after its override', async () => {
      const { limiter } = make({ policies: ['p=fixed-window 1/10s attempts', 'q=fixed-window 1/20s'] });
      await limiter.override('k', { p: { limit: 2 } }, { for: '5s' });
      await limiter.consume('k', { cost: { p: 0 } });
      expect(await limiter.consume('k', { cost: { p: 2 } })).to.include({
        allowed: false,
        retryAfterMs: undefined,
        reason: 'cost-exceeds-capacity',
      });
    });

    for (const policies of [['fixed-window 6/10s'], ['token-bucket 6/10s'], ['6/10s', 'token-bucket 8/20s']])
      it(`counts the change of all keys that another tier hides: ${policies.join(' and ')}`, async () => {
        const names = policies.map((text, i) => `pq`[i]! + `=${text}`);
        const tiers = { max: names.map((text) => text.replace(/\d\//, '1/')) };
        const { clock, limiter } = make({ policies: names, tiers });
        await limiter.consume('k', { cost: 5 });
        await limiter.overrideAll({ p: { limit: 2 } });
        await limiter.override('k', { tier: 'max' }, { for: '1s' });
        await limiter.consume('k');
        expect(await expectExact(limiter, clock, 'k')).to.be.above(1000);
      });

    it('counts the end of a tier, also for a cost that the tier never admits', async () => {
      const { clock, limiter } = make({
        policies: 'fixed-window 10/10s',
        tiers: { pro: 'fixed-window 1/10s' },
      });
      await limiter.override('k', { tier: 'pro' }, { for: '1s' });
      expect(await limiter.consume('k', { cost: 10 })).to.include({
        allowed: false,
        retryAfterMs: 1000,
        reason: 'quota-exceeded',
      });
      expect(await expectExact(limiter, clock, 'k', { cost: 10 })).to.equal(1000);
      expect(await limiter.consume('k', { cost: 11 })).to.include({
        allowed: false,
        retryAfterMs: undefined,
        reason: 'cost-exceeds-capacity',
      });
    });

    it('counts the return of a policy that was left out', async () => {
      const { clock, limiter } = make({ policies: ['p=fixed-window 1/10s', 'q=fixed-window 1/1s'] });
      await limiter.consume('k');
      clock.now += 500;
      await limiter.override('k', { p: false }, { for: 400 });
      expect(await expectExact(limiter, clock, 'k')).to.equal(9500);
    });

    it('counts several ends in turn, and a change of limits behind them', async () => {
      const { clock, limiter } = make({
        policies: ['p=fixed-window 5/10s by account', 'q=fixed-window 5/10s'],
      });
      const key = { account: 'a', key: 'k' };
      await limiter.consume(key, { cost: 3 });
      await limiter.override({ account: 'a' }, { p: { limit: 1, window: '1h' } }, { for: '1s' });
      await limiter.override({ key: 'k' }, { q: { limit: 1, window: '1d' } }, { for: '2s' });
      await limiter.consume(key);
      expect(await expectExact(limiter, clock, key)).to.equal(2000);
      await limiter.overrideAll({ q: { limit: 3 } }, { for: '3s' });
      expect(await expectExact(limiter, clock, key)).to.equal(3000);
    });

    it('does not change when the same override is set again with another end', async () => {
      const { clock, limiter } = make({ policies: 'fixed-window 10/10s' });
      const change = { limit: 1, window: '1h' };
      await limiter.override('k', change, { for: '1s' });
      await limiter.consume('k');
      expect((await limiter.peek('k')).retryAfterMs).to.equal(1000);
      await limiter.override('k', change, { for: '5s' });
      expect(await expectExact(limiter, clock, 'k')).to.equal(5000);
    });

    it('counts a policy that admits only until its override ends', async () => {
      const { clock, limiter } = make({
        policies: ['p=fixed-window 3/1200ms by account', 'q=fixed-window 5/5s'],
      });
      await limiter.consume({ account: 'x', key: 'b' }, { cost: 3 });
      clock.now += 100;
      await limiter.override({ key: 'b' }, { q: { limit: 6 } }, { for: 1 });
      expect(await expectExact(limiter, clock, { account: 'x', key: 'b' }, { cost: 3 })).to.equal(4900);
      expect((await limiter.peek({ account: 'x', key: 'c' }, { cost: 3 })).retryAfterMs).to.equal(1100);
    });

    for (const policy of ['sliding-window 4/10s share tenant', 'concurrency 4/10s share tenant'])
      it(`counts the end of an override of a shared limit that is too small: ${policy}`, async () => {
        const { clock, limiter } = make({ policies: policy });
        await limiter.override({ key: 'a' }, { limit: 1 }, { for: 1000 });
        expect(await expectExact(limiter, clock, { key: 'a', tenant: 't' }, { cost: 2 })).to.equal(1000);
        expect(await limiter.consume({ key: 'a', tenant: 't' }, { cost: 2 })).to.include({
          ...{ retryAfterMs: 1000, reason: 'quota-exceeded' },
        });
        await limiter.removeOverride({ key: 'a' });
        expect((await limiter.peek({ key: 'a', tenant: 't' }, { cost: 5 })).retryAfterMs).to.be.undefined;
      });

    it('an attempt that another policy denies lengthens no verdict but its own', async () => {
      const { limiter } = make({
        policies: ['p=fixed-window 3/6s attempts', 'q=fixed-window 2/1200ms'],
      });
      for (const isOverridden of [false, true]) {
        const key = `k${isOverridden}`;
        if (isOverridden) await limiter.override(key, { q: { limit: 1 } }, { for: '1h' });
        await limiter.consume(key, { cost: isOverridden ? 1 : 2 });
        const { retryAfterMs, policies } = await limiter.consume(key, { cost: { p: isOverridden ? 2 : 1 } });
        expect(policies.map((policy) => policy.retryAfterMs)).to.deep.equal([0, 1200]);
        expect(retryAfterMs).to.equal(6000);
      }
    });

    it('is undefined for a cost that such a policy never admits afterwards', async () => {
      const { limiter } = make({
        policies: ['p=fixed-window 3/1200ms by account', 'q=fixed-window 1/1200ms'],
      });
      await limiter.override({ key: 'b' }, { q: { limit: 6 } }, { for: 1 });
      await limiter.consume({ account: 'x', key: 'a' });
      expect(await limiter.peek({ account: 'x', key: 'b' }, { cost: 3 })).to.include({
        allowed: false,
        retryAfterMs: undefined,
        reason: 'cost-exceeds-capacity',
      });
    });

    it('counts that policy on one key, too, and for a banned key', async () => {
      const { clock, limiter } = make({
        policies: ['p=fixed-window 3/1200ms', 'q=token-bucket 1/5s'],
        ban: {},
      });
      await limiter.override('k', { q: { limit: 5 } }, { for: 1000 });
      await limiter.consume('k', { cost: 3 });
      clock.now += 500;
      const exact = await expectExact(limiter, clock, 'k');
      await limiter.ban('k', '1s');
      expect((await limiter.consume('k')).retryAfterMs).to.equal(exact);
    });
  });
}
