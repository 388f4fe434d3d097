// Named tiers with policies by several keys: each tier has its own dimensions.
import { expect } from 'chai';
import { createLimiter, memoryStore, type HeadgateError, type LimiterOptions } from 'headgate';
import { limiterOn, stores, TestClock } from '../../support/stores.js';
import { codeThrownBy } from '../../support/errors.js';

const TIERS = {
  free: ['ip=2/1m'],
  team: ['ip=4/1m', 'account=3/1m by account', 'org=5/1h by org'],
  bot: ['account=1/1m by account'],
} as const;

const all = { key: '::1', account: 'ada', org: 'acme' };

for (const [name, createStore] of Object.entries(stores)) {
  describe(`tiers by several keys, on ${name}`, () => {
    const open = (options: Omit<LimiterOptions, 'tiers'> = {}) => {
      const clock = new TestClock();
      return limiterOn(createStore(clock.read), { tiers: TIERS, ...options });
    };

    it('each tier decides by its own keys, and ignores the others', async () => {
      const limiter = open();
      const namesOf = async (tier: string) =>
        (await limiter.consume(all, { tier })).policies.map((each) => `${each.name} ${each.key}`);
      expect(await namesOf('free')).to.deep.equal(['ip ::1']);
      expect(await namesOf('team')).to.deep.equal(['ip ::1', 'account ada', 'org acme']);
      expect(await namesOf('bot')).to.deep.equal(['account ada']);
      // The account's quota has one name in both tiers, and therefore one state.
      expect(await limiter.peek(all, { tier: 'bot' })).to.include({ allowed: false, remaining: 0 });
      const { policies } = await limiter.peek(all, { tier: 'team' });
      expect(policies.map(({ remaining }) => remaining)).to.deep.equal([2, 2, 4]);
    });

    it('a key of another tier’s dimension is known, one of no tier is not', async () => {
      const limiter = open();
      expect(await limiter.consume({ key: 'x', org: 'acme' }, { tier: 'free' })).to.include({
        allowed: true,
      });
      const unknown = await limiter
        .consume({ key: 'x', planet: 'mars' }, { tier: 'free' })
        .catch((error: HeadgateError) => error);
      expect(unknown).to.have.property('code', 'HEADGATE_UNKNOWN_DIMENSION');
    });

    it('a refund and a reset concern the keys of one tier, or of all', async () => {
      const limiter = open();
      await limiter.consume(all, { tier: 'team', cost: 2 });
      await limiter.refund({ account: 'ada' }, 1, { tier: 'bot' });
      const remainingUnits = async () =>
        (await limiter.peek(all, { tier: 'team' })).policies.map(({ remaining }) => remaining);
      expect(await remainingUnits()).to.deep.equal([2, 2, 3]);
      await limiter.reset(all, { tier: 'bot' });
      expect(await remainingUnits()).to.deep.equal([2, 3, 3]);
      await limiter.reset({ org: 'acme' });
      expect(await remainingUnits()).to.deep.equal([2, 3, 5]);
      await limiter.reset(all);
      expect(await remainingUnits()).to.deep.equal([4, 3, 5]);
    });

    it('a ban by a dimension holds in every tier', async () => {
      const limiter = open({ ban: { after: 1, for: '1h', by: 'account' } });
      await limiter.consume(all, { tier: 'bot' });
      expect(await limiter.consume(all, { tier: 'bot' })).to.include({ allowed: false });
      expect(await limiter.consume(all, { tier: 'free' })).to.include({ allowed: false, reason: 'banned' });
      expect(await limiter.consume('::1', { tier: 'free' })).to.include({ allowed: true });
      await limiter.unban({ account: 'ada' });
      expect(await limiter.peek(all, { tier: 'free' })).to.include({ allowed: true });
    });

    it('a waiting request is decided by its own keys and its own tier', async () => {
      const limiter = open();
      await limiter.consume('::1', { tier: 'free', cost: 2 });
      const first = limiter.wait({ key: '::1', account: 'ada' }, { tier: 'free' });
      const second = limiter.wait('::1', { tier: 'team' });
      await limiter.reset('::1');
      expect((await first).policies.map((each) => each.name)).to.deep.equal(['ip']);
      expect((await second).policies.map((each) => each.name)).to.deep.equal(['ip']);
      expect(await limiter.peek({ account: 'ada' }, { tier: 'team' })).to.include({ remaining: 3 });
    });
  });
}

describe('tiers by several keys', () => {
  const codeOf = (options: Omit<LimiterOptions, 'tiers'>) =>
    codeThrownBy(() => createLimiter({ tiers: TIERS, ...options }));

  it('a ban and slotBy may be by a dimension of any tier, and by no other', () => {
    expect(codeOf({ ban: { by: 'org' } })).to.equal('none');
    expect(codeOf({ slotBy: 'org' })).to.equal('none');
    expect(codeOf({ ban: { by: 'planet' } })).to.equal('HEADGATE_UNKNOWN_DIMENSION');
    expect(codeOf({ slotBy: 'planet' })).to.equal('HEADGATE_UNKNOWN_DIMENSION');
  });

  it('limiters of one name must have equal dimensions in their tiers', () => {
    const store = memoryStore();
    const make = (by: string) =>
      createLimiter({ name: 'api', store, tiers: { free: [{ limit: 1, window: '1m', by }] } });
    make('account');
    expect(() => make('account')).not.to.throw();
    expect(() => make('org'))
      .to.throw()
      .with.property('code', 'HEADGATE_POLICY_MISMATCH');
  });

  it('what was charged to several keys before `clear` is not given back', async () => {
    const store = memoryStore();
    const limiter = createLimiter({ store, tiers: TIERS });
    const decision = await limiter.consume(all, { tier: 'team' });
    store.clear();
    await limiter.consume(all, { tier: 'team' });
    await decision.refund();
    const { policies } = await limiter.peek(all, { tier: 'team' });
    expect(policies.map(({ remaining }) => remaining)).to.deep.equal([3, 2, 4]);
  });

  it('a limiter that is off reports it even if no policy applies', async () => {
    const limiter = createLimiter({ tiers: TIERS, enabled: false });
    for (const key of [all, { org: 'acme' }])
      expect(await limiter.consume(key, { tier: 'bot' })).to.include({ allowed: true, reason: 'disabled' });
  });
});
