// The keys above 80 % of a limit, with their trend and the time until they are full.
import { expect } from 'chai';
import { createLimiter, memoryStore } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { Near } from '../src/near.js';
import { Searches } from '../src/searches.js';

describe('keys near their limit', () => {
  const shown = (key: unknown) => key as never;
  const { now } = Date;
  afterEach(() => {
    Date.now = now;
  });

  it('have their use at once, and their trend and end if it rose from list to list', async () => {
    let time = now();
    Date.now = () => time;
    const store = memoryStore({ clock: () => time });
    const limiter = createLimiter({
      store,
      name: 'api',
      policies: [{ algorithm: 'fixed-window', limit: 1000, window: '1d' }],
    });
    const near = new Near(new Searches(createAdmin(store), shown), shown);
    await limiter.consume('few', { cost: 790 });
    await limiter.consume('many', { cost: 800 });
    await limiter.consume('all', { cost: 1000 });
    const first = await near.of('api');
    expect(first).to.deep.include({ isCut: false, isUnknown: false });
    expect(first.rows).to.deep.equal([
      { key: 'all', policy: 'default', used: 1000, limit: 1000, trend: null, fullInMs: 0 },
      { key: 'many', policy: 'default', used: 800, limit: 1000, trend: null, fullInMs: null },
    ]);
    await limiter.consume('many', { cost: 40 });
    expect(await near.of('api')).to.equal(first);
    time += 20_000;
    for (let i = 0; i < 2; i++) {
      expect((await near.of('api')).rows[1]).to.include({ key: 'many', trend: null, fullInMs: null });
      await limiter.consume('many', { cost: 40 });
      time += 20_000;
    }
    const { rows } = await near.of('api');
    expect(rows[0]).to.include({ key: 'all', trend: 0, fullInMs: 0 });
    expect(rows[1]).to.include({ key: 'many', used: 920, trend: 2, fullInMs: 40_000 });
    await limiter.close();
  });

  it('have no forecast while they are steady, and none after the end of the window', async () => {
    let time = now();
    Date.now = () => time;
    // The test decides the moment in the window.
    time -= time % 3_600_000;
    const store = memoryStore({ clock: () => time });
    const made = createLimiter({
      ...{ store, name: 'api' },
      tiers: {
        a: [{ name: 'window', algorithm: 'fixed-window', limit: 600, window: '2m' }],
      },
      policies: [{ name: 'sliding', limit: 600, window: '1m' }],
    });
    const near = new Near(new Searches(createAdmin(store), shown), shown);
    const seen = [];
    // 8.5 requests a second, sometimes a few more or less, as of a customer who is never denied.
    for (let second = 0; second < 300; second++) {
      await made.consume('steady', { cost: 8 + (second % 2) + (second % 20 < 10 ? 1 : -1) });
      await made.consume('ends', { tier: 'a', cost: second % 120 === 0 ? 480 : 0 });
      if (second % 120 > 30) await made.consume('ends', { tier: 'a' });
      time += 1000;
      if (second % 16 === 15) seen.push(...(await near.of('api')).rows);
    }
    expect(seen.filter(({ key }) => (key as unknown) === 'steady').length).to.be.greaterThan(8);
    expect(seen.filter(({ key }) => (key as unknown) === 'ends').length).to.be.greaterThan(8);
    expect(seen.filter(({ fullInMs }) => fullInMs !== null)).to.deep.equal([]);
    await made.close();
  });

  it('have a mark if units stay in the use for longer than the window', async () => {
    const store = memoryStore();
    const made = createLimiter({
      ...{ store, name: 'api' },
      policies: ['sliding=10/1h', 'fixed=fixed-window 10/1h'],
    });
    const near = new Near(new Searches(createAdmin(store), shown), shown);
    await made.consume('ada', { cost: 9 });
    const { rows } = await near.of('api');
    const marks = rows.map(({ policy, isSegmented = false }) => [policy, isSegmented]);
    expect(new Map(marks as [string, boolean][])).to.deep.equal(
      new Map([
        ['sliding', true],
        ['fixed', false],
      ]),
    );
    await made.close();
  });

  it('are judged by the tiers that they may have, and tenants by their share', async () => {
    const store = memoryStore();
    const made = [
      createLimiter({ store, name: 'api', tiers: { free: '120/1h', pro: '900/1h' } }),
      createLimiter({ store, name: 'llm', policies: 'q=800/1h by provider share tenant' }),
    ] as const;
    const near = new Near(new Searches(createAdmin(store), shown), shown);
    await made[0].consume('pro', { tier: 'pro', cost: 200 });
    await made[0].consume('busy', { tier: 'pro', cost: 880 });
    await made[0].consume('open', { tier: 'free', cost: 120 });
    const rows = async (name: string) =>
      (await near.of(name)).rows.map(({ key, tier, used, limit, certain }) => [
        key,
        tier,
        used,
        limit,
        certain,
      ]);
    expect(await rows('api')).to.deep.equal([
      ['busy', 'pro', 880, 900, undefined],
      ['open', 'free', 120, 120, false],
    ]);
    const spend = (tenant: string, weight: number) =>
      made[1].consume({ provider: 'p', tenant }, { weight, cost: 10 });
    for (let i = 0; i < 120; i++)
      for (const [tenant, weight] of [
        ['a', 3],
        ['b', 1],
      ] as const)
        await spend(tenant, weight);
    await spend('light', 1);
    const tenants = await rows('llm');
    const found = await createAdmin(store).tenants({ name: 'llm' });
    expect(found).to.have.length(3);
    expect(tenants).to.have.deep.members([
      ['p', undefined, 800, 800, undefined],
      ...found
        .filter(({ used, share }) => used! >= 0.8 * share)
        .map(({ key, used, share }) => [key, undefined, used, share, undefined]),
    ]);
    for (const limiter of made) await limiter.close();
  });

  it('come with the keys that hold slots', async () => {
    const store = memoryStore();
    const policies = ['slots=concurrency 5/1m', 'minute=100/1m'];
    const limiter = createLimiter({ store, name: 'reports', policies });
    // A process counts one slot of each key.
    const near = new Near(new Searches(createAdmin(store), shown), shown, () => Promise.resolve(() => 1));
    for (const key of ['pdf', 'csv', 'pdf']) await limiter.consume(key);
    const { slots } = await near.of('reports');
    expect(slots.map(({ freeAfterMs: _, ...each }) => each)).to.deep.equal([
      { key: 'pdf', policy: 'slots', used: 2, limit: 5, uncounted: 1 },
      { key: 'csv', policy: 'slots', used: 1, limit: 5, uncounted: 0 },
    ]);
    for (const { freeAfterMs } of slots) expect(freeAfterMs).to.be.within(1, 60_000);
    await limiter.close();
  });

  it('are unknown if the limits depend on the request', async () => {
    const store = memoryStore();
    const near = new Near(new Searches(createAdmin(store), shown), shown);
    const { at: _, ...found } = await near.of('unknown');
    expect(found).to.deep.equal({ rows: [], slots: [], isCut: false, isUnknown: true });
  });
});
