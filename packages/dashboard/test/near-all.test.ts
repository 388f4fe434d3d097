// The keys of all limiters above 80 % of a limit, by rounds that are bounded in cost.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { createLimiter, memoryStore } from 'headgate';
import { createAdmin, type Admin, type JudgedKey } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { clients, freshPrefix } from '../../../test/support/stores.js';
import { showing } from '../src/hidden.js';
import { Judges } from '../src/judges.js';
import { Near } from '../src/near.js';
import { NearAll } from '../src/near-all.js';
import { NearRows } from '../src/near-rows.js';
import { Now } from '../src/now.js';
import { Reads } from '../src/reads.js';
import { Searches } from '../src/searches.js';

describe('keys of all limiters near their limit', () => {
  const shown = (key: unknown) => key as never;
  const { now } = Date;
  afterEach(() => {
    Date.now = now;
  });
  const listOf = (admin: Admin) => new NearAll(admin, new Searches(admin, shown), shown);

  for (const kind of ['memory', 'redis'] as const)
    it(`have the same tier as in the list of their limiter and on the first screen, in ${kind}`, async () => {
      const store =
        kind === 'memory'
          ? memoryStore({ counts: true })
          : redisStore(clients.redis, { prefix: freshPrefix(), counts: true, publish: '50ms' });
      const tiers = { free: ['minute=90/1h by account'], pro: ['minute=300/1h by account'] };
      const limiter = createLimiter({ store, name: 'api', tiers });
      const admin = createAdmin(store);
      const spend = (cost: number) => limiter.consume({ account: 'big' }, { tier: 'pro', cost });
      await spend(300);
      // All requests of a second are denied.
      await admin.traffic();
      await sleep(1200);
      const denied = async () => {
        await spend(1);
        const { limiters } = await admin.traffic({ keys: 20 });
        return limiters.some(({ keys }) => keys.some((each) => each.denied > 0));
      };
      while (!(await denied())) await sleep(100);
      const full = { tier: 'pro', policy: 'minute', used: 300, limit: 300 };
      const { rows } = await new Near(new Searches(admin, shown), shown).of('api');
      expect(rows).to.have.lengthOf(1);
      expect(rows[0]).to.include(full).and.not.to.have.property('certain');
      const all = await listOf(admin).read();
      expect(all.rows).to.have.lengthOf(1);
      expect(all.rows[0]).to.include(full);
      const judged = await new Judges(admin).of('api', { key: 'big', dimension: 'account' });
      expect(judged.tier).to.equal('pro');
      expect(judged.retryAfterMs).to.be.above(0);
      await limiter.close();
    });

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

  it('are found among the keys that others have in the same Redis', async () => {
    const client = clients.redis.duplicate({ db: 9 });
    try {
      await client.eval("for i = 1, 30000 do redis.call('SET', 'other:' .. i, 'x') end", 0);
      const store = redisStore(client, { publish: '50ms' });
      const limiter = createLimiter({ store, name: 'api', policies: ['10/1d'] });
      for (let i = 0; i < 20; i++) await limiter.consume(`key:${i}`, { cost: 9 });
      const near = listOf(createAdmin(store));
      let list = await near.read();
      while (list.checked === 0) {
        near.expire();
        list = await near.read();
      }
      expect(list).to.include({ checked: 20, isCut: false });
      expect(list.at).to.be.a('number');
      expect(list.rows).to.have.length(20);
      await limiter.close();
    } finally {
      await client.flushdb();
      client.disconnect();
    }
  });

  for (const kind of ['memory', 'redis'] as const)
    it(`are searched step by step, each after the promise of the last one, in ${kind}`, async () => {
      const store = kind === 'memory' ? memoryStore() : redisStore(clients.redis, { prefix: freshPrefix() });
      const limiter = createLimiter({ store, name: 'api', policies: ['10/1d'] });
      const admin = createAdmin(store);
      for (let i = 0; i < 50; i++) await limiter.consume(`key:${i}`);
      const goOn: (() => void)[] = [];
      const progress = () => new Promise<void>((resolve) => goOn.push(resolve));
      const search = await admin.keys({
        ...{ name: 'api', policies: '10/1d', kinds: ['limited'], count: 10, progress },
      });
      const end = search[Symbol.asyncIterator]().next();
      const others = async () => {
        for (let i = 0; i < 20; i++) await clients.redis.ping();
      };
      while (goOn.length === 0) await others();
      await others();
      expect(goOn).to.have.length(1);
      const isOver = end.then(() => true);
      for (let i = 0; !(await Promise.race([isOver, others()])); i++) goOn[i]?.();
      expect(goOn.length).to.be.above(4);
      expect(search.checked).to.equal(50);
      await limiter.close();
    });

  it('are searched at a bounded rate if no step finds a key', async () => {
    let time = now();
    Date.now = () => time;
    let steps = 0;
    const keys: Admin['keys'] = ({ progress } = {}) => {
      const search = { checked: 0, unjudged: [], unnamed: 0, warnings: [], wanted: {} as never };
      const next = async (): Promise<IteratorReturnResult<undefined>> => {
        for (let i = 0; i < 2_000; i++) {
          steps++;
          await progress?.(i / 2_000);
        }
        return { done: true, value: undefined };
      };
      return Promise.resolve({ ...search, [Symbol.asyncIterator]: () => ({ next }) });
    };
    const near = listOf({ keys } as Admin);
    expect(await near.read()).to.include({ at: null, isCut: false });
    expect(steps).to.equal(1_000);
    time += 20_000;
    expect(await near.read()).to.include({ at: null, isCut: false });
    expect(steps).to.be.within(1_200, 1_500);
    let list;
    do {
      time += 20_000;
      list = await near.read();
    } while (list.at === null);
    expect(steps).to.equal(2_000);
  });

  /** A list of 1500 keys at a time that the test sets. Rounds read `first` at once, and `last` in the end. */
  const many = async (policy: string) => {
    let time = now();
    Date.now = () => time;
    const store = memoryStore({ clock: () => time });
    const admin = createAdmin(store);
    const api = createLimiter({ store, name: 'api', policies: policy, overrides: true });
    const plan = createLimiter({ store, name: 'plan', policies: 'fixed-window 10/1d' });
    const web = createLimiter({ store, name: 'web', policies: policy });
    await api.consume('first', { cost: 9 });
    for (let i = 0; i < 1497; i++) await plan.consume(`key:${i}`);
    await plan.consume('plan', { cost: 9 });
    await web.consume('last', { cost: 9 });
    const near = listOf(admin);
    const read = async (afterMs: number) => {
      time += afterMs;
      const { rows } = await near.read();
      return rows.map(({ key, used, limit }) => `${key as string} ${used} of ${limit}`);
    };
    await read(0);
    for (let i = 0; i < 4; i++) await read(10_000);
    const close = () => Promise.all([api, plan, web].map((each) => each.close()));
    return { admin, near, read, close };
  };

  it('are dropped when the round reads them again and they are free, not at its end', async () => {
    const { near, read, close } = await many('token-bucket 10/1h');
    expect(await read(5_000)).to.have.members(['first 9 of 10', 'last 9 of 10', 'plan 9 of 10']);
    expect(await read(1_800_000)).to.have.members(['last 9 of 10', 'plan 9 of 10']);
    expect((await near.read()).checked).to.equal(1500);
    await close();
  });

  it('are dropped when their use ends', async () => {
    const { read, close } = await many('fixed-window 10/1m');
    expect(await read(5_000)).to.have.members(['first 9 of 10', 'last 9 of 10', 'plan 9 of 10']);
    expect(await read(61_000)).to.deep.equal(['plan 9 of 10']);
    await close();
  });

  it('are counted as too old until a round reads them again, after a time without a visitor', async () => {
    const { near, read, close } = await many('fixed-window 10/1m');
    expect(await read(5_000)).to.have.members(['first 9 of 10', 'last 9 of 10', 'plan 9 of 10']);
    expect(await near.read()).to.include({ old: 0 });
    // The new round ends later, so the rows of 'first' and 'last' are not known to be free.
    expect(await read(61_000)).to.deep.equal(['plan 9 of 10']);
    expect(await near.read()).to.include({ old: 2 });
    for (let i = 0; i < 4; i++) await read(10_000);
    expect(await near.read()).to.include({ old: 0 });
    await close();
  });

  it('are judged again after a change, if they are listed', async () => {
    const { admin, near, read, close } = await many('fixed-window 10/1d');
    expect(await read(5_000)).to.have.members(['first 9 of 10', 'last 9 of 10', 'plan 9 of 10']);
    await admin.reset('last', { name: 'web', by: 'ops', reason: 'paid' });
    near.expire();
    expect(await read(0)).to.have.members(['first 9 of 10', 'plan 9 of 10']);
    await admin.override('first', '11/1d', { name: 'api', by: 'ops', reason: 'paid' });
    near.expire();
    expect(await read(0)).to.have.members(['first 9 of 11', 'plan 9 of 10']);
    await admin.override('first', '100/1d', { name: 'api', by: 'ops', reason: 'paid' });
    near.expire();
    expect(await read(0)).to.deep.equal(['plan 9 of 10']);
    await close();
  });

  it('are judged again after a change on the command line, which only the log shows', async () => {
    const store = memoryStore();
    const admin = createAdmin(store);
    const options = { name: 'api', policies: '10/1d', ban: {} } as const;
    const limiter = createLimiter({ store, ...options });
    for (const key of ['ada', 'eve']) await limiter.consume(key, { cost: 9 });
    let time = now();
    const screen = new Now(admin, shown, () => time);
    const reads = new Reads(admin, screen, shown);
    const read = async () => {
      Date.now = () => (time += 5_001);
      await screen.read();
      return (await reads.nearAll()).rows.map(({ key }) => key);
    };
    expect(await read()).to.have.members(['ada', 'eve']);
    const before = screen.newestChange;
    await admin.ban('mallory', '1h', { name: 'api', by: 'ops', reason: 'no charge changes' });
    await read();
    expect(screen.newestChange).to.equal(before);
    await admin.reset('ada', { name: 'api', by: 'ops', reason: 'paid' });
    expect(await read()).to.deep.equal(['eve']);
    expect(screen.newestChange).to.not.equal(before);
    await limiter.close();
  });

  it('are kept in a bounded number, those that are soon full', () => {
    const rows = new NearRows(shown);
    rows.begin();
    const policy = { name: 'default', algorithm: 'fixed-window', limit: 10_000, resetAfterMs: 60_000 };
    const judged = (i: number) =>
      ({
        name: 'api',
        key: `key:${i}`,
        policies: [{ ...policy, remaining: i % 2000 }],
      }) as unknown as JudgedKey;
    for (let i = 0; i < 20_000; i++) rows.take(judged(i), 0);
    const list = rows.list();
    expect(list.length).to.be.within(300, 600);
    expect(list[0]).to.include({ key: 'key:1', used: 9_999 });
    expect(list.slice(0, 50).every(({ used }) => used >= 9_990)).to.equal(true);
    expect(rows.isCut).to.equal(true);
    rows.end();
    rows.begin();
    expect(rows.isCut).to.equal(false);
  });
});
