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

  it('have their use at once, and their trend and end from the second list on', async () => {
    let time = now();
    Date.now = () => time;
    const store = memoryStore();
    const limiter = createLimiter({
      store,
      name: 'api',
      policies: [{ algorithm: 'fixed-window', limit: 100, window: '1d' }],
    });
    const near = new Near(new Searches(createAdmin(store), shown), shown);
    await limiter.consume('few', { cost: 79 });
    await limiter.consume('many', { cost: 80 });
    await limiter.consume('all', { cost: 100 });
    const first = await near.of('api');
    expect(first).to.deep.include({ isCut: false, isUnknown: false });
    expect(first.rows).to.deep.equal([
      { key: 'all', policy: 'default', used: 100, limit: 100, trend: null, fullInMs: null },
      { key: 'many', policy: 'default', used: 80, limit: 100, trend: null, fullInMs: null },
    ]);
    await limiter.consume('many', { cost: 10 });
    expect(await near.of('api')).to.equal(first);
    time += 20_000;
    const second = await near.of('api');
    expect(second.rows[0]).to.include({ key: 'all', trend: 0, fullInMs: 0 });
    expect(second.rows[1]).to.include({ key: 'many', used: 90, trend: 0.5, fullInMs: 20_000 });
    await limiter.close();
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

  it('are unknown if the limits depend on the request', async () => {
    const store = memoryStore();
    const near = new Near(new Searches(createAdmin(store), shown), shown);
    expect(await near.of('unknown')).to.deep.equal({ rows: [], isCut: false, isUnknown: true });
  });
});
