// The keys of all limiters above 80 % of a limit, by rounds that are bounded in cost.
import { expect } from 'chai';
import { createLimiter, memoryStore } from 'headgate';
import { createAdmin, type Admin } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { clients, freshPrefix } from '../../../test/support/stores.js';
import { showing } from '../src/hidden.js';
import { NearAll } from '../src/near-all.js';
import { Searches } from '../src/searches.js';

describe('keys of all limiters near their limit', () => {
  const shown = (key: unknown) => key as never;
  const { now } = Date;
  afterEach(() => {
    Date.now = now;
  });
  const listOf = (admin: Admin) => new NearAll(admin, new Searches(admin, shown), shown);

  for (const kind of ['memory', 'redis'] as const)
    it(`have long windows, too, with their use, those that are soon full first, in ${kind}`, async () => {
      const store = kind === 'memory' ? memoryStore() : redisStore(clients.redis, { prefix: freshPrefix() });
      const made = [
        createLimiter({ store, name: 'plan', policies: ['month=calendar 1000/month by customer'] }),
        createLimiter({ store, name: 'api', tiers: { free: 'day=10/1d', pro: 'day=100/1d' } }),
        createLimiter({ store, name: 'llm', policies: 'q=800/1h by provider share tenant' }),
      ] as const;
      const near = listOf(createAdmin(store));
      await made[0].consume({ customer: 'acme' }, { cost: 850 });
      await made[0].consume({ customer: 'hooli' }, { cost: 100 });
      await made[1].consume('full', { tier: 'pro', cost: 100 });
      await made[2].consume({ provider: 'p', tenant: 'a' }, { cost: 790 });
      // Processes publish their limiters a moment after they make them.
      let list = await near.read();
      while (list.checked === 0) {
        near.expire();
        list = await near.read();
      }
      expect(list).to.include({ isCut: false, unnamed: 0 }).and.to.deep.include({ unjudged: [] });
      expect(list.at).to.be.a('number');
      expect(
        list.rows.map(({ name, key, dimension, within, used, limit }) => [
          name,
          key,
          dimension,
          within,
          used,
          limit,
        ]),
      ).to.have.deep.ordered.members([
        ['llm', 'p', 'provider', undefined, 790, 800],
        ['llm', 'a', 'tenant', 'provider p', 790, 800],
        ['plan', 'acme', 'customer', undefined, 850, 1000],
        ['api', 'full', undefined, undefined, 100, 100],
      ]);
      for (const limiter of made) await limiter.close();
    });

  it('have hashes in place of keys if keys are hidden, and the names of their limiters', async () => {
    const store = memoryStore();
    const limiter = createLimiter({ store, name: 'llm', policies: 'q=800/1h by provider share tenant' });
    const admin = createAdmin(store);
    const near = new NearAll(admin, new Searches(admin, shown), showing(true));
    await limiter.consume({ provider: 'openai', tenant: 'acme' }, { cost: 790 });
    const list = await near.read();
    expect(list.rows).to.have.length(2);
    expect(list.rows.map(({ name }) => name)).to.deep.equal(['llm', 'llm']);
    expect(JSON.stringify(list)).not.to.match(/openai|acme/);
    await limiter.close();
  });

  it('have their trend over rounds', async () => {
    let time = now();
    Date.now = () => time;
    const store = memoryStore({ clock: () => time });
    const limiter = createLimiter({ store, name: 'api', policies: ['fixed-window 1000/1d', 'hour=9000/1h'] });
    const near = listOf(createAdmin(store));
    await limiter.consume('rising', { cost: 800 });
    await limiter.consume('steady', { cost: 990 });
    for (let i = 0; i < 3; i++) {
      expect((await near.read()).rows[0]).to.include({ key: 'steady', trend: null });
      time += 10_000;
      await limiter.consume('rising', { cost: 20 });
    }
    const { rows } = await near.read();
    expect(rows[0]).to.include({ key: 'rising', used: 860, trend: 2, fullInMs: 70_000 });
    expect(rows[1]).to.include({ key: 'steady', used: 990, trend: 0, fullInMs: null });
    await limiter.close();
  });

  it('are read at a bounded rate, however many visitors ask, and the list grows meanwhile', async () => {
    let time = now();
    Date.now = () => time;
    const store = memoryStore({ clock: () => time });
    const limiter = createLimiter({ store, name: 'api', policies: ['10/1d'] });
    const admin = createAdmin(store);
    for (let i = 0; i < 1500; i++) await limiter.consume(`key:${i}`, { cost: i === 1499 ? 9 : 1 });
    const near = listOf(admin);
    const first = await near.read();
    expect(first).to.include({ at: null }).and.to.deep.include({ rows: [] });
    expect(first.checked).to.be.within(1000, 1100);
    for (let i = 0; i < 10; i++) expect(await near.read()).to.equal(first);
    time += 10_000;
    const second = await near.read();
    expect(second.checked - first.checked).to.be.within(100, 250);
    for (let i = 0; i < 3; i++) {
      time += 10_000;
      await near.read();
    }
    const last = await near.read();
    expect(last.rows.map(({ key }) => key)).to.deep.equal(['key:1499']);
    expect(last).to.include({ checked: 1500, isCut: false });
    await limiter.close();
  });

  it('are unknown of limiters that are not published', async () => {
    const prefix = freshPrefix();
    const store = redisStore(clients.redis, { prefix, publish: '50ms' });
    const fixed = createLimiter({ store, name: 'api', policies: ['10/1d'] });
    const hidden = redisStore(clients.redis, { prefix, publish: false });
    const other = createLimiter({ store: hidden, name: 'plans', policies: ['10/1d'] });
    await fixed.consume('a');
    await other.consume('b', { cost: 9 });
    const near = listOf(createAdmin(store));
    let list = await near.read();
    while (list.unjudged.length === 0) {
      near.expire();
      list = await near.read();
    }
    expect(list).to.deep.include({ rows: [], unjudged: ['plans'] });
    await fixed.close();
    await other.close();
  });
});
