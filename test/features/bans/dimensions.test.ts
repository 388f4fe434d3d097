// The denials that count towards a ban, in sets of policies by several dimensions, with tiers, shares, attempts and shadows.
import { expect } from 'chai';
import { createLimiter, type HeadgateError } from 'headgate';
import { limiterOn, stores, TestClock } from '../../support/stores.js';
import { codeThrownBy } from '../../support/errors.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

for (const [name, createStore] of Object.entries(stores)) {
  describe(`a ban of a dimension, on ${name}`, () => {
    const open = (options: object) => {
      const clock = new TestClock();
      return { clock, limiter: limiterOn(createStore(clock.read), options as never) };
    };

    it('does not count what an address has spent against the accounts that it names', async () => {
      const { limiter } = open({
        policies: ['address=fixed-window 2/15m', 'account=fixed-window 5/15m by account'],
        ban: { after: 3, for: '1h', by: 'account' },
      });
      for (let i = 0; i < 10; i++) await limiter.consume({ key: 'attacker', account: 'victim' });
      expect(await limiter.consume({ key: 'home', account: 'victim' })).to.include({ allowed: true });
      for (let i = 0; i < 9; i++) await limiter.consume({ key: `bot ${i}`, account: 'victim' });
      expect((await limiter.consume({ key: 'home', account: 'victim' })).reason).to.equal('banned');
    });

    it('without `by`, does not count what an account has spent against its addresses', async () => {
      const { limiter } = open({
        policies: ['address=fixed-window 20/15m', 'account=fixed-window 1/15m by account'],
        ban: { after: 3, for: '1h' },
      });
      for (let i = 0; i < 10; i++) await limiter.consume({ key: 'nat', account: 'ada' });
      expect(await limiter.consume({ key: 'nat', account: 'bob' })).to.include({ allowed: true });
    });

    it('does not count in a tier without a policy of the dimension', async () => {
      const { limiter } = open({
        tiers: { free: ['ip=fixed-window 1/1h'], pro: ['a=fixed-window 1/1h by account'] },
        ban: { after: 2, for: '1h', by: 'account' },
      });
      const keys = { key: 'x', account: 'ada' };
      for (let i = 0; i < 5; i++) await limiter.consume(keys, { tier: 'free' });
      expect(await limiter.peek(keys, { tier: 'pro' })).to.include({ allowed: true });
      for (let i = 0; i < 3; i++) await limiter.consume(keys, { tier: 'pro' });
      expect((await limiter.peek(keys, { tier: 'free' })).reason).to.equal('banned');
    });

    it('does not count when other tenants leave a tenant no share', async () => {
      const { clock, limiter } = open({
        policies: ['tokens=sliding-window 100/10s by provider share tenant'],
        ban: { after: 1, for: '1h', by: 'provider' },
      });
      let [shares, quotas] = [0, 0];
      for (let i = 0; i < 400; i++) {
        clock.now += 25;
        const tenant = i % 4 === 0 ? 'b' : 'a';
        const decision = await limiter.consume({ provider: 'p', tenant }, { cost: 2 });
        if (decision.reason === 'fair-share') shares++;
        if (decision.reason === 'banned') {
          quotas = decision.policies[0]?.remaining ?? -1;
          break;
        }
      }
      // The ban begins with the first denial by the limit itself.
      expect(shares).to.be.above(0);
      expect(quotas).to.be.below(2);
    });

    it('counts slots of its dimension, and shadows never', async () => {
      const { limiter } = open({
        policies: [
          { name: 'calls', algorithm: 'concurrency', limit: 1, lease: '1h', by: 'account' },
          { name: 'trial', algorithm: 'fixed-window', limit: 1, window: '1h', by: 'account', shadow: true },
        ],
        ban: { after: 2, for: '1h', by: 'account' },
      });
      for (let i = 0; i < 4; i++) await (await limiter.consume({ account: 'eve' })).release();
      expect((await limiter.consume({ account: 'eve' })).allowed).to.be.true;
      await limiter.consume({ account: 'eve' });
      expect((await limiter.consume({ account: 'eve' })).reason).to.equal('banned');
    });
  });

  describe(`the wait of a banned key, on ${name}`, () => {
    const open = (options: object) => {
      const clock = new TestClock();
      return { clock, limiter: limiterOn(createStore(clock.read), options as never) };
    };

    it('is the rest of the ban, or the longer wait of the quota', async () => {
      for (const algorithm of ['fixed-window', 'sliding-log', 'token-bucket'] as const) {
        for (const ban of ['1m', '3h']) {
          const { clock, limiter } = open({ algorithm, limit: 2, window: '1h', ban: { after: 1, for: ban } });
          await limiter.consume('k', { cost: 2 });
          const [denied, banned] = [
            await limiter.consume('k', { cost: 2 }),
            await limiter.consume('k', { cost: 2 }),
          ];
          expect([denied.reason, banned.reason]).to.deep.equal(['banned', 'banned']);
          expect(banned.retryAfterMs).to.equal(ban === '3h' ? 3 * HOUR : HOUR);
          expect(denied.retryAfterMs).to.equal(banned.retryAfterMs);
          expect(banned.resetAfterMs).to.be.at.least(banned.retryAfterMs!);
          clock.now += banned.retryAfterMs! - 1;
          expect((await limiter.peek('k', { cost: 2 })).allowed).to.be.false;
          clock.now += 1;
          expect((await limiter.consume('k', { cost: 2 })).allowed).to.be.true;
          await limiter.close();
        }
      }
    });

    it('depends on the other keys of the request, and on its cost', async () => {
      const { limiter } = open({
        policies: ['address=fixed-window 4/1h', 'account=fixed-window 9/1m by account'],
        ban: { after: 1, for: '2m', by: 'account' },
      });
      await limiter.ban({ account: 'ada' }, '2m');
      await limiter.consume({ key: 'x' }, { cost: 3 });
      const waits = [];
      for (const [key, cost] of [
        ['x', 1],
        ['x', 2],
        ['y', 2],
        ['x', 2],
      ] as const)
        waits.push((await limiter.consume({ key, account: 'ada' }, { cost })).retryAfterMs);
      expect(waits).to.deep.equal([2 * MINUTE, HOUR, 2 * MINUTE, HOUR]);
    });

    it('includes a shared limit and an override', async () => {
      const { clock, limiter } = open({
        policies: ['shared=sliding-window 10/1h by org share tenant', 'account=fixed-window 5/1m by account'],
        ban: { by: 'account' },
        overrides: true,
      });
      const keys = { org: 'o', tenant: 't', account: 'ada' };
      await limiter.consume({ org: 'o', tenant: 't' }, { cost: 10 });
      const wait = (await limiter.peek(keys)).retryAfterMs!;
      expect(wait).to.be.above(50 * MINUTE);
      await limiter.ban({ account: 'ada' }, '1m');
      expect(await limiter.consume(keys)).to.include({ reason: 'banned', retryAfterMs: wait });
      await limiter.override({ account: 'ada' }, { account: { limit: 7 } }, { for: '1h' });
      expect(await limiter.consume(keys)).to.include({ reason: 'banned', retryAfterMs: wait });
      clock.now += wait;
      expect((await limiter.consume(keys)).allowed).to.be.true;
    });
  });

  describe(`fresh bans beside slots, on ${name}`, () => {
    it('keep the slots of work that still runs', async () => {
      const clock = new TestClock();
      const limiter = createLimiter({
        ...{ name: 'slots', store: createStore(clock.read), timeout: '20s', warnings: false },
        policies: ['slots=concurrency 2/1h', 'calls=fixed-window 3/1h'],
        ban: { after: 1, for: '1s', fresh: true },
      });
      const held = [await limiter.consume('a'), await limiter.consume('a')];
      expect((await limiter.consume('a')).reason).to.equal('banned');
      clock.advance(1000);
      expect((await limiter.usage('a')).policies.map(({ used }) => used)).to.deep.equal([2, 0]);
      for (const decision of held) expect(await decision.release()).to.equal(true);
      expect((await limiter.consume('a')).allowed).to.equal(true);
      await limiter.close();
    });
  });

  describe(`fresh bans beside shared limits, on ${name}`, () => {
    it('forget the charges of the banned key', async () => {
      for (const [by, policies] of [
        ['account', ['shared=sliding-window 100/1h by org share tenant', 'own=fixed-window 2/1h by account']],
        ['key', ['shared=sliding-window 2/1h share tenant']],
      ] as const) {
        const clock = new TestClock();
        const limiter = limiterOn(createStore(clock.read), {
          policies,
          ban: { after: 1, for: '1m', by, fresh: true },
        });
        const keys = by === 'key' ? { key: 'k', tenant: 't' } : { org: 'o', tenant: 't', account: 'ada' };
        for (let i = 0; i < 2; i++) await limiter.consume(keys);
        expect(await limiter.consume(keys)).to.include({ reason: 'banned', retryAfterMs: MINUTE });
        expect(await limiter.consume(keys)).to.include({ reason: 'banned', retryAfterMs: MINUTE });
        clock.now += MINUTE;
        expect((await limiter.consume(keys)).allowed, by).to.be.true;
        await limiter.close();
      }
    });
  });

  describe(`unban, on ${name}`, () => {
    it('keeps the charges of the key, and forgets them with `fresh`', async () => {
      const clock = new TestClock();
      const limiter = limiterOn(createStore(clock.read), {
        policies: ['address=fixed-window 9/1h', 'account=fixed-window 1/1h by account'],
        ban: { after: 2, for: '1h', by: 'account' },
      });
      const keys = { key: 'x', account: 'ada' };
      for (let i = 0; i < 3; i++) await limiter.consume(keys);
      await limiter.unban({ account: 'ada' });
      expect(await limiter.consume(keys)).to.include({
        allowed: false,
        reason: 'quota-exceeded',
        policy: 'account',
      });
      await limiter.unban({ account: 'ada' }, { fresh: true, by: 'grace' });
      const { allowed, policies } = await limiter.consume(keys);
      expect([allowed, ...policies.map(({ remaining }) => remaining)]).to.deep.equal([true, 7, 0]);
      const refused = await limiter
        .unban({ account: 'ada' }, { fresh: 1 as never })
        .catch((error: HeadgateError) => error.code);
      expect(refused).to.equal('HEADGATE_INVALID_OPTION');
    });
  });
}

describe('a ban without a policy of its dimension', () => {
  const codeOf = (options: object) => codeThrownBy(() => createLimiter(options as never));

  it('is refused, because no denial would count', () => {
    const policies = ['account=5/1m by account', 'tokens=9/1m by org share tenant'];
    for (const by of [undefined, 'key', 'tenant', 'planet'])
      expect(codeOf({ policies, ban: { after: 3, ...(by && { by }) } }), by).to.equal(
        'HEADGATE_UNKNOWN_DIMENSION',
      );
    for (const by of ['account', 'org'])
      expect(codeOf({ policies, ban: { after: 3, by } }), by).to.equal('none');
    expect(() => createLimiter({ policies: policies as never, ban: { after: 3 } })).to.throw(
      'ban.by: no policy counts by "key", and only denials by such policies count towards the ban. Pass ban: { by: "account" or "org" }',
    );
  });

  it('may ban by hand', () => {
    expect(codeOf({ policies: ['account=5/1m by account'], ban: {} })).to.equal('none');
  });
});
