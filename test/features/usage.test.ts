import { expect } from 'chai';
import type { Policy, Store } from 'headgate';
import { join } from 'node:path';
import { limiterOn, stores, TestClock, type CreateStore } from '../support/stores.js';
import { describeSqlite, makeDirectory, storeOn } from '../support/sqlite.js';
import { codeOf } from '../support/errors.js';

const HOUR = 3_600_000;

/** One policy of each algorithm, with a full quota of 10. */
const policies: Policy[] = [
  { name: 'sliding', algorithm: 'sliding-window', limit: 10, window: '1h' },
  { name: 'fixed', algorithm: 'fixed-window', limit: 10, window: '1h' },
  { name: 'log', algorithm: 'sliding-log', limit: 10, window: '1h' },
  { name: 'bucket', algorithm: 'token-bucket', limit: 5, window: '1h', burst: 10 },
  { name: 'leaky', algorithm: 'leaky-bucket', limit: 10, window: '1h', maxDelay: '1h' },
  { name: 'day', algorithm: 'calendar', limit: 10, period: 'day', unit: 'tokens' },
  { name: 'slots', algorithm: 'concurrency', limit: 10, lease: '1h' },
];

function usageSuite(name: string, createStore: CreateStore): void {
  describe(`usage, on ${name}`, () => {
    const make = (options: object, wrap = (store: Store): Store => store) => {
      const clock = new TestClock();
      const limiter = limiterOn(wrap(createStore(clock.read)), options as never);
      return { clock, limiter };
    };
    const endOfDay = (now: number) => (Math.floor(now / (24 * HOUR)) + 1) * 24 * HOUR;

    it('an untouched key has its full quota, and a calendar ends with its period', async () => {
      const { clock, limiter } = make({ policies });
      const usage = await limiter.usage('k');
      expect(usage).to.include({ bannedUntil: undefined, override: undefined });
      expect(usage.policies).to.have.length(policies.length);
      for (const { name, algorithm, limit, unit } of policies as (Policy & { unit?: string })[]) {
        const own = usage.policies.find((each) => each.name === name)!;
        expect(own, name).to.deep.equal({
          ...{ name, key: 'k', limit, used: 0, remaining: 10 },
          unit: unit ?? (algorithm === 'concurrency' ? 'concurrent-requests' : 'requests'),
          resetsAt: algorithm === 'calendar' ? endOfDay(clock.now) : clock.now,
        });
      }
    });

    it('agrees with the verdicts of a decision, and charges nothing', async () => {
      const { clock, limiter } = make({ policies });
      const decision = await limiter.consume('k', { cost: 3 });
      for (let i = 0; i < 3; i++) {
        const usage = await limiter.usage('k');
        decision.policies.forEach(({ name, limit, remaining, resetAfterMs }, n) => {
          const resetsAt = name === 'day' ? endOfDay(clock.now) : clock.now + resetAfterMs;
          expect(usage.policies[n], name).to.include({ limit, remaining, used: 10 - remaining, resetsAt });
        });
      }
      const { resetsAt } = (await limiter.usage('k')).policies.find((each) => each.name === 'day')!;
      expect(resetsAt).to.equal(clock.now + decision.policies[5]!.resetAfterMs);
    });

    it('a banned key shows its quota and the end of the ban', async () => {
      const { clock, limiter } = make({ limit: 2, window: '1h', ban: { after: 1, for: '2h' } });
      for (let i = 0; i < 3; i++) await limiter.consume('k');
      const { policies, bannedUntil } = await limiter.usage('k');
      expect(policies[0]).to.include({ used: 2, remaining: 0 });
      expect(bannedUntil).to.equal(clock.now + 2 * HOUR);
      clock.now += 3 * HOUR;
      expect(await limiter.usage('k')).to.deep.include({ bannedUntil: undefined });
      await limiter.ban('other', '1h');
      expect((await limiter.usage('other')).policies[0]).to.include({ used: 0, remaining: 2 });
    });

    it('tiers and dimensions: the policies of the tier, for the keys that the caller passes', async () => {
      const tiers = {
        free: 'hour=5/1h',
        pro: ['hour=50/1h', { name: 'org', limit: 500, window: '1h', by: 'org' }],
      };
      const { limiter } = make({ tiers });
      await limiter.consume({ key: 'k', org: 'acme' }, { tier: 'pro', cost: 4 });
      const used = async (key: string | Record<string, string>, tier: string) =>
        (await limiter.usage(key as never, { tier })).policies.map((each) => [
          each.key,
          each.used,
          each.limit,
        ]);
      expect(await used('k', 'free')).to.deep.equal([['k', 4, 5]]);
      expect(await used({ key: 'k', org: 'acme' }, 'pro')).to.deep.equal([
        ['k', 4, 50],
        ['acme', 4, 500],
      ]);
      expect(await used({ org: 'acme' }, 'pro')).to.deep.equal([['acme', 4, 500]]);
      expect(await codeOf(limiter.usage('k', { tier: 'x' }))).to.equal('HEADGATE_UNKNOWN_TIER');
      expect(await codeOf(limiter.usage('k', { cost: 1 } as never))).to.equal('HEADGATE_UNKNOWN_OPTION');
    });

    it('overrides of several keys: the note of the first dimension in the policies', async () => {
      const { limiter } = make({ policies: ['org=5/1h by org', 'address=5/1h'], overrides: true });
      await limiter.override({ key: 'ada' }, { address: { limit: 4 } });
      await limiter.override({ org: 'acme' }, { org: { limit: 3 } });
      const { override } = await limiter.usage({ key: 'ada', org: 'acme' });
      expect(override?.change).to.deep.equal({ org: { limit: 3 } });
      // Also if another dimension comes first in the policies in force, because the override leaves one out.
      const policies = ['o=5/1h by org', 'address=5/1h', 'p=9/1h by org'];
      const { limiter: other } = make({ policies, overrides: true });
      await other.override({ key: 'ada' }, { address: { limit: 4 } });
      await other.override({ org: 'acme' }, { o: false });
      const usage = await other.usage({ key: 'ada', org: 'acme' });
      expect(usage.override?.change).to.deep.equal({ o: false });
    });

    it('overrides: the limits in force, the burst of an override, and its note', async () => {
      const { clock, limiter } = make({
        overrides: true,
        ban: {},
        policies: [policies[1], policies[3]],
        tiers: { pro: ['pro=100/1h'] },
      });
      await limiter.consume('k', { cost: 4 });
      await limiter.override(
        'k',
        { fixed: { limit: 100 }, bucket: { limit: 50, burst: 80 } },
        { for: '1h', by: 'ada', reason: 'launch' },
      );
      const { policies: own, override } = await limiter.usage('k');
      expect(own[0]).to.include({ limit: 100, used: 4, remaining: 96 });
      expect(own[1]).to.include({ limit: 50, used: 80 - own[1]!.remaining });
      expect(own[1]!.remaining).to.be.within(76, 80);
      expect(override).to.deep.include({ by: 'ada', reason: 'launch', until: new Date(clock.now + HOUR) });
      expect((await limiter.usage('other')).override).to.equal(undefined);
      await limiter.ban('k', '1h');
      expect(await limiter.usage('k')).to.deep.include({ policies: own, bannedUntil: clock.now + HOUR });
      await limiter.override('k', { tier: 'pro' });
      const pro = await limiter.usage('k');
      expect(pro.policies.map(({ name, limit }) => [name, limit])).to.deep.equal([['pro', 100]]);
      expect(pro.override?.change).to.deep.equal({ tier: 'pro' });
      await limiter.overrideAll({ fixed: { limit: 7 } });
      expect((await limiter.usage('other')).policies[0]).to.include({ limit: 7, used: 0, remaining: 7 });
    });

    it('a store around the store needs only the five methods', async () => {
      const wrap = (store: Store): Store => ({
        decide: (query) => store.decide(query),
        adjust: (change) => store.adjust(change),
        lease: (change) => store.lease(change),
        reset: (subject) => store.reset(subject),
        ban: (subject, duration) => store.ban(subject, duration),
        overrides: store.overrides,
      });
      const { clock, limiter } = make({ limit: 5, window: '1h', ban: {}, overrides: true }, wrap);
      await limiter.consume('k', { cost: 2 });
      await limiter.override('k', { limit: 50 });
      await limiter.ban('k', '1h');
      const { policies, bannedUntil, override } = await limiter.usage('k');
      expect(policies[0]).to.include({ limit: 50, used: 2, remaining: 48 });
      expect([bannedUntil, override?.change]).to.deep.equal([clock.now + HOUR, { limit: 50 }]);
    });
  });
}

for (const [name, createStore] of Object.entries(stores)) usageSuite(name, createStore);
describeSqlite('usage with SQLite', () => {
  usageSuite('sqlite', (clock) => storeOn(join(makeDirectory(), 'limits.db'), clock ? { clock } : {}));
});
