import { expect } from 'chai';
import type { Decision, Key } from 'headgate';
import { limiterOn, stores, TestClock } from '../../support/stores.js';

const verdicts = ({ policies }: Decision): unknown[] =>
  policies.map(({ name, limit, remaining, resetAfterMs }) => [name, limit, remaining, resetAfterMs]);

for (const [name, createStore] of Object.entries(stores)) {
  describe(`precedence of overrides, on ${name}`, () => {
    const make = (options: object) => {
      const clock = new TestClock();
      return { clock, limiter: limiterOn(createStore(clock.read), { overrides: true, ...options } as never) };
    };
    const two = { policies: ['p=fixed-window 10/10s by account', 'q=fixed-window 10/10s'] };
    const key: Key = { account: 'a', key: 'k' };

    for (const [what, change] of [
      ['without a policy', { p: false }],
      ['to another window', { p: { limit: 7, window: '1h' } }],
      ['of several policies', { p: { limit: 7, window: '1h' }, q: { limit: 5 } }],
    ] as const) {
      it(`a limit of a key's own is stronger than a change of all keys ${what}`, async () => {
        const { clock, limiter } = make(two);
        await limiter.overrideAll(change);
        await limiter.override({ account: 'a' }, { p: { limit: 3 } });
        const q = 'q' in change ? ['q', 5, 4, 10_000] : ['q', 10, 9, 10_000];
        expect(verdicts(await limiter.consume(key))).to.deep.equal([['p', 3, 2, 10_000], q]);
        expect((await limiter.usage(key)).policies[0]).to.include({ name: 'p', limit: 3, used: 1 });
        expect(verdicts(await limiter.peek({ account: 'other', key: 'k' }))[0]).to.not.include(3);
        await limiter.override({ account: 'a' }, { p: { limit: 4 } }, { for: '1s' });
        expect(verdicts(await limiter.consume(key))[0]).to.deep.equal(['p', 4, 2, 10_000]);
        clock.now += 1000;
        const p = change.p === false ? q : ['p', 7, 7, 0];
        expect(verdicts(await limiter.peek(key))[0]?.toString()).to.equal(
          change.p === false ? 'q,10,8,9000' : p.toString(),
        );
        await limiter.removeOverride();
        expect(verdicts(await limiter.peek(key))[0]).to.deep.equal(['p', 10, 8, 9000]);
      });
    }

    it("a limit of a key's own is stronger, whichever change comes first", async () => {
      const { limiter } = make(two);
      await limiter.override({ account: 'a' }, { p: { limit: 3 } });
      await limiter.consume(key);
      await limiter.overrideAll({ p: false });
      expect(verdicts(await limiter.consume(key))[0]).to.deep.equal(['p', 3, 1, 10_000]);
      await limiter.removeOverride({ account: 'a' });
      expect((await limiter.consume(key)).policies.map((each) => each.name)).to.deep.equal(['q']);
    });

    it("a window of a key's own is stronger than a change of all keys without the policy", async () => {
      const { limiter } = make(two);
      await limiter.overrideAll({ p: false });
      await limiter.override({ account: 'a' }, { p: { window: '1m' } });
      expect(verdicts(await limiter.consume(key))[0]).to.deep.equal(['p', 10, 9, 60_000]);
    });

    it('a limit in place of a window is in force at once, although the change of all keys leaves the policy out', async () => {
      const { limiter } = make(two);
      await limiter.overrideAll({ p: false });
      await limiter.override({ account: 'a' }, { p: { window: '1m' } });
      await limiter.consume(key);
      await limiter.override({ account: 'a' }, { p: { limit: 3 } });
      expect(verdicts(await limiter.consume(key))[0]).to.deep.equal(['p', 3, 2, 10_000]);
    });

    it('of a sole policy, too, and of a bucket', async () => {
      const { limiter } = make({ policies: 'token-bucket 10/10s' });
      await limiter.overrideAll({ limit: 7, window: '1h' });
      await limiter.override('a', { limit: 2 });
      expect(verdicts(await limiter.consume('a'))).to.deep.equal([['default', 2, 1, 5000]]);
      expect(verdicts(await limiter.consume('b'))[0]).to.include(7);
    });

    it('an override of another policy of the key does not keep all keys from changing', async () => {
      const { limiter } = make({ policies: ['p=fixed-window 10/10s', 'q=fixed-window 10/10s'] });
      await limiter.overrideAll({ p: false });
      await limiter.override('a', { q: { limit: 3 } });
      expect(verdicts(await limiter.consume('a'))).to.deep.equal([['q', 3, 2, 10_000]]);
    });

    it('usage shows the override of a dimension of which it leaves out all policies', async () => {
      const { limiter } = make({ policies: ['p=1/10s', 'q=1/10s by account'] });
      await limiter.override({ account: 'a' }, { q: false }, { by: 'ada' });
      const { override, policies } = await limiter.usage({ key: 'a', account: 'a' });
      expect(override).to.deep.include({ change: { q: false }, by: 'ada' });
      expect(policies.map((each) => each.name)).to.deep.equal(['p']);
      expect((await limiter.usage({ key: 'a', account: 'b' })).override).to.be.undefined;
    });

    it('a reset of a tier forgets the charges under an override with another window', async () => {
      const clock = new TestClock();
      const store = createStore(clock.read);
      const options = {
        ...{ name: 'shared', overrides: true, policies: 'fixed-window 1/1200ms' },
        tiers: { pro: 'fixed-window 1/1200ms', other: 'rest=fixed-window 1/1200ms' },
      };
      const [one, other] = [limiterOn(store, options), limiterOn(store, options)];
      await one.override('a', { default: { limit: 1, window: 6000 } });
      await one.consume('a');
      await other.reset('a', { tier: 'other' });
      expect((await one.peek('a')).allowed).to.be.false;
      await other.reset('a', { tier: 'pro' });
      expect((await one.peek('a')).allowed).to.be.true;
      await one.consume('a');
      await one.reset('a', { tier: 'pro' });
      expect((await one.peek('a')).allowed).to.be.true;
    });

    it('a dimension may have the name of a member of every object', async () => {
      const { limiter } = make({ policies: ['a=fixed-window 5/1m', 'c=fixed-window 5/1m by constructor'] });
      expect(await limiter.consume('k')).to.include({ allowed: true, remaining: 4 });
      await limiter.override({ constructor: 'x' }, { c: { limit: 1 } });
      const own = { key: 'k', constructor: 'x' } as never;
      expect((await limiter.consume(own)).policies[1]).to.include({ limit: 1, remaining: 0 });
      expect(await limiter.consume(own)).to.include({ allowed: false });
      expect((await limiter.usage(own)).policies).to.have.length(2);
      expect(await limiter.overrideOf({ constructor: 'x' })).to.have.property('change');
    });

    it("a banned key's decision shows the limit in force", async () => {
      const { limiter } = make({ limit: 1, window: '1m', ban: {} });
      await limiter.override('x', { limit: 10 });
      await limiter.ban('x', '1s');
      expect(await limiter.consume('x')).to.include({ reason: 'banned', limit: 10 });
      await limiter.override('x', { limit: 20, window: '1h' });
      expect(await limiter.consume('x')).to.include({ reason: 'banned', limit: 20 });
    });

    it('usage by a limiter without overrides shows no override of another limiter', async () => {
      const clock = new TestClock();
      const store = createStore(clock.read);
      const one = limiterOn(store, {
        name: 'one',
        policies: ['p=5/1m', 'q=5/1m by account'],
        overrides: true,
      });
      const other = limiterOn(store, { name: 'two', policies: ['p=5/1m by account', 'q=5/1m'] });
      await one.override('a', { p: { limit: 1 } }, { by: 'ada', reason: 'secret' });
      await one.consume({ key: 'a', account: 'a' });
      expect((await one.usage({ key: 'a', account: 'a' })).override).to.include({ by: 'ada' });
      expect((await other.usage({ key: 'a', account: 'a' })).override).to.be.undefined;
    });
  });
}
