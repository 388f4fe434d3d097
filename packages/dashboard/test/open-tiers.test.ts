// The tiers that a key may have after its limits were changed.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { clients, freshPrefix } from '../../../test/support/stores.js';
import { SeenTiers, withoutAdmitting } from '../src/open-tiers.js';
import { callerOf } from './caller.js';

const view = (tier: string, fields: object) => ({
  ...{ name: 'api', key: 'a90', dimension: 'account', tier, likely: true },
  ...fields,
});

describe('a denial since the limits of a key were changed', () => {
  const policy = { name: 'account', allowed: false, shadow: false, windowMs: 60_000 };
  const views = [
    view('free', { allowed: false, policies: [policy] }),
    view('pro', { allowed: true, policies: [{ ...policy, allowed: true }] }),
    view('pro', { dimension: 'key', allowed: true, policies: [] }),
  ] as never[];
  const likely = (lastMs: number, fields: object = {}) => {
    const changes = [{ name: 'api', action: 'remove', at: new Date(70_000) }] as never[];
    const minutes = [
      { minute: 60_000, count: 4, policy: 'account' },
      { minute: 0, count: 4, policy: 'other' },
    ];
    const denial = { name: 'api', dimension: 'account', last: new Date(lastMs), minutes, ...fields };
    return withoutAdmitting(views, changes, [denial as never]).map((each) => each.likely);
  };

  it('shows that the tier is one that denies', () => {
    expect(likely(75_000)).to.deep.equal([true, false, true]);
    expect(likely(71_000), 'before every process has the change').to.deep.equal([true, true, true]);
    expect(likely(75_000, { dimension: 'key' })).to.deep.equal([true, true, true]);
    const other = [{ minute: 60_000, count: 4, policy: 'address' }];
    expect(likely(75_000, { minutes: other })).to.deep.equal([true, true, true]);
  });
});

describe('the tier that a key had', () => {
  it('is remembered for an hour if only one was likely', () => {
    const tiers = new SeenTiers();
    const [free, pro] = [view('free', {}), view('pro', {})];
    const had = (now: number) => tiers.marked([free, pro], now).map(({ hadTier = false }) => hadTier);
    tiers.note([free, pro], 0);
    tiers.note([free], 0);
    expect(had(0), 'both were likely, or there is only one').to.deep.equal([false, false]);
    tiers.note([free, { ...pro, likely: false }], 0);
    tiers.note([free, pro], 1000);
    expect(had(1000)).to.deep.equal([true, false]);
    expect(had(3_600_001)).to.deep.equal([false, false]);
    tiers.note([{ ...free, likely: false }, pro], 2000);
    expect(had(2000)).to.deep.equal([false, true]);
    for (let i = 0; i < 1000; i++)
      tiers.note(
        [
          { ...free, key: `k${i}` },
          { ...pro, key: `k${i}`, likely: false },
        ],
        2000,
      );
    expect(had(2000), 'too many keys since').to.deep.equal([false, false]);
  });
});

describe('a key that is denied when an override ends', function () {
  this.timeout(20_000);

  it('has the tier that it had before, at once, and the one that its denials show', async () => {
    const store = redisStore(clients.redis, { prefix: freshPrefix(), counts: true, publish: '50ms' });
    const tiers = { free: ['account=60/1m by account'], pro: ['account=1000/1m by account'] };
    const limiter = createLimiter({ store, name: 'api', tiers, overrides: true });
    const page = await callerOf({ store, auth: 'none' });
    const consume = async (times: number) => {
      for (let i = 0; i < times; i++) await limiter.consume({ account: 'a90' }, { tier: 'free' });
    };
    const answers = async () => {
      const { body } = await page.post('api/key', { key: 'a90' });
      return (body['views'] as { dimension: string; likely: boolean; hadTier?: true }[])
        .filter(({ dimension }) => dimension === 'account')
        .map(({ likely, hadTier = false }) => ({ likely, hadTier }));
    };
    const free = { likely: true, hadTier: true };
    const until = async (done: () => Promise<boolean>) => {
      while (!(await done())) await sleep(200);
    };
    await consume(61);
    // The limiter is published a moment after it is made.
    await until(async () => {
      await consume(1);
      return (await answers())[1]?.likely === false;
    });
    const change = { name: 'api', key: 'a90', dimension: 'account', reason: 'launch' };
    await page.post('api/change', { ...change, action: 'override', change: { account: '600/1m' } });
    await consume(24);
    await page.post('api/change', { ...change, action: 'remove' });
    // Whether the other tier is likely depends on the second in which the denials before were counted.
    expect((await answers())[0]).to.deep.equal(free);
    await until(async () => {
      await consume(1);
      await sleep(500);
      return (await answers())[1]?.likely === false;
    });
    expect(await answers()).to.deep.equal([free, { likely: false, hadTier: false }]);
    await limiter.close();
  });
});
