// No visitor can load the application by questions for which keys are searched.
import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { createLimiter, memoryStore } from 'headgate';
import { createAdmin, type Admin, type KeysOptions } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { clients, freshPrefix } from '../../../test/support/stores.js';
import { Searches, type Sample } from '../src/searches.js';
import { usersAbove } from '../src/page/use.js';
import { startPage, tokenFields } from './servers.js';

describe('searches of the dashboard', () => {
  const shown = (key: unknown) => key as never;

  /** An administration that records its searches. */
  const counting = (admin: Admin) => {
    const seen = { running: 0, most: 0, searches: [] as KeysOptions[] };
    const keys: Admin['keys'] = async (options) => {
      seen.searches.push(options!);
      seen.most = Math.max(seen.most, ++seen.running);
      const search = await admin.keys(options);
      const finds = search[Symbol.asyncIterator].bind(search);
      return Object.defineProperty(search, Symbol.asyncIterator, {
        value: async function* () {
          try {
            yield* { [Symbol.asyncIterator]: finds };
          } finally {
            seen.running--;
          }
        },
      });
    };
    return { seen, admin: { ...admin, keys } };
  };

  it('run one at a time, once for all policies and viewers, in small steps', async () => {
    const store = memoryStore();
    const limiter = createLimiter({ store, name: 'api', policies: ['minute=10/1m', 'day=50/1d'] });
    const { seen, admin } = counting(createAdmin(store));
    for (let i = 0; i < 300; i++) await limiter.consume(`user:${i}`, { cost: (i % 9) + 1 });
    const searches = new Searches(admin, shown);
    const invented = Array.from({ length: 100 }, (_, i) => `invented ${i}`);
    const answers = await Promise.all(
      ['minute', 'day', ...invented].map((policy) => searches.sample({ name: 'api' }, policy)),
    );
    expect(seen.searches).to.have.lengthOf(1);
    expect(seen.searches[0]!.count).to.be.at.most(100);
    expect(answers[0]).to.include({ count: 300, isCut: false });
    expect(answers[0]!.keys[0]).to.include({ remaining: 1, limit: 10 });
    expect(answers[1]!.keys[0]).to.include({ remaining: 41, limit: 50 });
    expect(answers[2]).to.deep.include({ keys: [], count: 0, isCut: false, use: [] });
    await Promise.all(Array.from({ length: 10 }, () => searches.denied('api')));
    expect(seen.most).to.equal(1);
    await limiter.close();
  });

  it('are whole if all keys were read, although judging the last ones takes longer than the time of a search', async () => {
    const searchOf = (shares: readonly number[]) => {
      const keys: Admin['keys'] = ({ progress, signal } = {}) => {
        const facts = { checked: 0, unjudged: [], unnamed: 0, warnings: [], wanted: {} as never };
        const next = async (): Promise<IteratorReturnResult<undefined>> => {
          for (const share of shares) await progress?.(share);
          if (!signal!.aborted) await once(signal!, 'abort');
          return { done: true, value: undefined };
        };
        return Promise.resolve({ ...facts, [Symbol.asyncIterator]: () => ({ next }) });
      };
      return new Searches({ keys } as Admin, shown).search({ name: 'api' }, 5, () => false);
    };
    const [, isCut] = await searchOf([0.5, 1]);
    expect(isCut).to.equal(false);
    const [, isOther] = await searchOf([0.5]);
    expect(isOther).to.equal(true);
  });

  it('list no more banned keys than denied ones', async () => {
    const store = memoryStore();
    const limiter = createLimiter({ store, name: 'api', policies: ['5/1m'], ban: {} });
    // In memory, keys have names from the first administration on.
    const admin = createAdmin(store);
    for (let i = 0; i < 60; i++) await limiter.ban(`user:${i}`, '1h');
    const found = await new Searches(admin, shown).denied('api');
    expect(found.bans).to.have.length(50);
    await limiter.close();
  });

  it('judge a sample by the policies of its tier', async () => {
    const store = memoryStore();
    const limiter = createLimiter({ store, name: 'api', tiers: { free: '5/1m', pro: '100/1h' } });
    const searches = new Searches(createAdmin(store), shown);
    await limiter.consume('ada', { tier: 'pro' });
    await limiter.consume('bob', { tier: 'free' });
    const { keys } = await searches.sample({ name: 'api', tier: 'pro' }, 'default');
    expect(keys).to.deep.equal([{ key: 'ada', remaining: 99, limit: 100 }]);
    await limiter.close();
  });

  it('leave a key out of the sample of a tier that it does not have, judging by its use', async () => {
    const store = memoryStore();
    const tiers = { free: ['minute=60/1h', 'day=9/1d'], pro: ['minute=600/1h', 'day=900/1d'] };
    const limiter = createLimiter({ store, name: 'api', tiers });
    const searches = new Searches(createAdmin(store), shown);
    await limiter.consume('acme', { tier: 'pro', cost: 530 });
    await limiter.consume('ada', { tier: 'free', cost: 7 });
    const [free, pro] = await Promise.all(
      ['free', 'pro'].map((tier) => searches.sample({ name: 'api', tier }, 'minute')),
    );
    expect(free!.keys).to.deep.equal([{ key: 'ada', remaining: 53, limit: 60 }]);
    expect(free).to.include({ count: 1, others: 1, used: 7 });
    // Nothing shows that ada is not in tier pro, too.
    expect(pro!.keys).to.deep.equal([
      { key: 'acme', remaining: 70, limit: 600 },
      { key: 'ada', remaining: 593, limit: 600 },
    ]);
    expect(pro).to.include({ count: 2, others: 0, used: 537 });
    // Any use, from 71 % on, and nothing left.
    expect([0, 14, 16].map((i) => pro!.use[i])).to.deep.equal([2, 1, 0]);
    await limiter.close();
  });

  for (const kind of ['memory', 'redis'] as const)
    it(`keep a key in the samples of all tiers that it may have, in ${kind}`, async () => {
      const store = kind === 'memory' ? memoryStore() : redisStore(clients.redis, { prefix: freshPrefix() });
      const tiers = {
        free: ['minute=90/1h by account', 'address=10/1h by address'],
        pro: ['minute=300/1h by account', 'address=10/1h by address'],
      };
      const limiter = createLimiter({ store, name: 'api', tiers, overrides: true });
      const admin = createAdmin(store);
      const consume = (account: string, tier: string, cost: number) =>
        limiter.consume({ account, address: '10.0.0.1' }, { tier, cost: { minute: cost, address: 1 } });
      await limiter.override({ account: 'pro-2' }, { minute: { limit: 600 } });
      await consume('pro-2', 'pro', 181);
      await consume('free-hot', 'free', 87);
      await consume('pro-big', 'pro', 272);
      while ((await admin.limiters()).limiters.length === 0) await setImmediate();
      const keysOf = async (tier: string, policy: string) => {
        const searches = new Searches(admin, shown);
        const { keys, others } = await searches.sample({ name: 'api', tier }, policy);
        return { keys: keys.map(({ key }) => key), others };
      };
      expect(await keysOf('free', 'minute')).to.deep.equal({ keys: ['free-hot', 'pro-2'], others: 1 });
      const all = ['pro-big', 'pro-2', 'free-hot'];
      expect(await keysOf('pro', 'minute')).to.deep.equal({ keys: all, others: 0 });
      // An address has the same limit in both tiers.
      for (const tier of ['free', 'pro'])
        expect((await keysOf(tier, 'address')).keys, tier).to.deep.equal(['10.0.0.1']);
      // What if lists by the part of its own limit that a key uses.
      const { keys } = await new Searches(admin, shown).sample({ name: 'api', tier: 'free' }, 'minute');
      const policy = { capacity: 90, limit: 90 };
      const above = (limit: number) =>
        (usersAbove(keys, policy, limit) as { key: string; used: number }[]).map(({ key, used }) => [
          key,
          used,
        ]);
      expect(above(60)).to.deep.equal([['free-hot', 87]]);
      expect(above(20)).to.deep.equal([
        ['free-hot', 87],
        ['pro-2', 181],
      ]);
      await limiter.close();
    });

  it('judge all keys of a limiter with tiers by the tier of the question, and no invented one', async () => {
    const store = memoryStore();
    const limiter = createLimiter({
      ...{ store, name: 'api', policies: ['day=10/1d'] },
      tiers: { pro: ['day=100/1d'] },
    });
    const site = await startPage({ store });
    const headers = await tokenFields(site.url);
    const ask = async (tier: string) => {
      const body = JSON.stringify({ name: 'api', tier, policy: 'day' });
      const response = await fetch(`${site.url}api/sample`, { method: 'POST', headers, body });
      return { status: response.status, sample: (await response.json()) as Partial<Sample> };
    };
    await fetch(`${site.url}api/now`);
    await limiter.consume('low', { cost: 4 });
    await limiter.consume('high', { tier: 'pro', cost: 50 });
    const [none, pro] = [await ask(''), await ask('pro')];
    expect(none.sample.keys).to.deep.equal([{ key: 'low', remaining: 6, limit: 10 }]);
    expect(none.sample.others).to.equal(1);
    expect(pro.sample.keys!.map(({ remaining }) => remaining)).to.deep.equal([50, 96]);
    expect((await ask('invented')).status).to.equal(404);
    await site.close();
    await limiter.close();
  });

  it('list no denials by a tier that a key does not have, and count them', async () => {
    const store = memoryStore();
    const limiter = createLimiter({ store, name: 'api', tiers: { free: '5/1h', pro: '100/1h' } });
    const searches = new Searches(createAdmin(store), shown);
    await limiter.consume('pro', { tier: 'pro', cost: 20 });
    await limiter.consume('open', { tier: 'free', cost: 5 });
    const found = await searches.denied('api');
    expect(found.limited).to.include({ isCut: false, omitted: 1 });
    expect(found.limited!.rows).to.have.length(1);
    expect(found.limited!.rows[0]).to.include({ key: 'open', tier: 'free', certain: false });
    await limiter.close();
  });

  it('are refused for names of limiters that do not exist', async () => {
    const store = memoryStore();
    const limiter = createLimiter({ store, name: 'api', policies: ['5/1m'] });
    const site = await startPage({ store });
    const headers = await tokenFields(site.url);
    const sample = async (name: string) => {
      const body = JSON.stringify({ name, policy: 'default' });
      return (await fetch(`${site.url}api/sample`, { method: 'POST', headers, body })).status;
    };
    expect(await sample('api')).to.equal(200);
    expect(await sample('invented')).to.equal(404);
    for (const path of ['limiter', 'use'])
      expect((await fetch(`${site.url}api/${path}?name=invented`)).status, path).to.equal(404);
    await site.close();
    await limiter.close();
  });
});
