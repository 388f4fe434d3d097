// A plan without a limit: 'unlimited' as policies, as a tier, in an override, and for operators.
import { expect } from 'chai';
import Fastify from 'fastify';
import { Redis } from 'ioredis';
import {
  createLimiter,
  memoryStore,
  parsePolicy,
  policyText,
  type CreateLimiterOptions,
  type Decision,
} from 'headgate';
import { createAdmin } from 'headgate/admin';
import { rateLimitPlugin } from 'headgate/fastify';
import { limitFetch } from 'headgate/fetch';
import { redisStore } from 'headgate/redis';
import { clients, freshPrefix, limiterOn, stores, TestClock } from '../support/stores.js';

const isUnlimited = ({ allowed, policies }: Decision): boolean => allowed && policies.length === 0;

async function errorOf(action: () => unknown): Promise<Error | undefined> {
  try {
    await action();
  } catch (error) {
    return error as Error;
  }
  return undefined;
}

for (const [name, createStore] of Object.entries(stores)) {
  describe(`unlimited on ${name}`, () => {
    const open = (options: CreateLimiterOptions) =>
      limiterOn(createStore(new TestClock().read), { overrides: true, ...options });

    for (const policies of ['unlimited', ['unlimited'], ['plan=unlimited'], ' Unlimited '])
      it(`policies: ${JSON.stringify(policies)} admit every request and charge nothing`, async () => {
        const limiter = open({ policies });
        const decision = await limiter.consume('k', { cost: 1e6 });
        expect(decision).to.satisfy(isUnlimited);
        await decision.refund();
        await decision.settle(5);
        await limiter.refund('k', 1);
        await limiter.reset('k');
        expect(await limiter.peek('k')).to.satisfy(isUnlimited);
        expect(await limiter.wait('k')).to.satisfy(isUnlimited);
        expect(await limiter.usage('k'))
          .to.include({ bannedUntil: undefined })
          .and.deep.include({ policies: [] });
      });

    it('one of several policies can be unlimited', async () => {
      const limiter = open({ policies: ['minute=unlimited', 'day=fixed-window 2/1d'] });
      expect(await limiter.consume('k', { cost: 2 })).to.include({ allowed: true, limit: 2 });
      expect(await limiter.consume('k')).to.include({ allowed: false, policy: 'day' });
    });

    it('a tier is unlimited, beside tiers with limits, and with a limiter without tiers', async () => {
      const tiers = { free: '1/1h', enterprise: 'unlimited' };
      const limiter = open({ tiers });
      for (let i = 0; i < 5; i++)
        expect(await limiter.consume('k', { tier: 'enterprise' })).to.satisfy(isUnlimited);
      expect(await limiter.consume('k', { tier: 'free' })).to.include({ allowed: true, remaining: 0 });
      expect(await limiter.consume('k', { tier: 'free' })).to.include({ allowed: false });
      expect(await errorOf(() => limiter.peek('k'))).to.match(/tier: missing/);
      const both = open({ policies: 'unlimited', tiers });
      expect(await both.consume('k')).to.satisfy(isUnlimited);
      expect(await both.consume('k', { tier: 'free' })).to.include({ allowed: true, limit: 1 });
    });

    it('an override lifts a limit, by text and by name, and ends', async () => {
      const sole = open({ policies: '1/1h' });
      await sole.consume('k');
      expect(await sole.consume('k')).to.include({ allowed: false });
      await sole.override('k', 'unlimited', { by: 'ada' });
      expect(await sole.consume('k')).to.satisfy(isUnlimited);
      expect((await sole.overrideOf('k'))!.change).to.equal('unlimited');
      expect((await sole.usage('k')).override).to.include({ change: 'unlimited', by: 'ada' });
      expect(await sole.removeOverride('k')).to.be.true;
      expect(await sole.consume('k')).to.include({ allowed: false });

      const several = open({ policies: ['minute=1/1m', 'day=fixed-window 3/1d'] });
      await several.override('k', { minute: 'unlimited' });
      expect(await several.consume('k', { cost: 3 })).to.include({ allowed: true, policy: 'day' });
      expect(await several.consume('k')).to.include({ allowed: false, policy: 'day' });
      await several.override('k', 'unlimited');
      expect(await several.consume('k')).to.satisfy(isUnlimited);
      await several.overrideAll('unlimited');
      expect(await several.consume('other', { cost: 9 })).to.satisfy(isUnlimited);
    });

    it('a key moves into and out of an unlimited tier by an override', async () => {
      const limiter = open({ tiers: { free: 'fixed-window 1/1h', enterprise: 'unlimited' } });
      await limiter.override('k', { tier: 'enterprise' });
      for (let i = 0; i < 3; i++)
        expect(await limiter.consume('k', { tier: 'free' })).to.satisfy(isUnlimited);
      await limiter.override('big', { tier: 'free' });
      expect(await limiter.consume('big', { tier: 'enterprise' })).to.include({ allowed: true, limit: 1 });
      expect(await limiter.consume('big', { tier: 'enterprise' })).to.include({ allowed: false });
      await limiter.removeOverride('big');
      expect(await limiter.consume('big', { tier: 'enterprise' })).to.satisfy(isUnlimited);
    });

    it('bans hold', async () => {
      const limiter = open({ policies: 'unlimited', ban: {} });
      await limiter.ban('k', '1m');
      expect(await limiter.consume('k')).to.include({ allowed: false, reason: 'banned' });
      await limiter.unban('k');
      expect(await limiter.consume('k')).to.satisfy(isUnlimited);
    });
  });
}

const published = () =>
  redisStore(clients.redis, { prefix: freshPrefix(), publish: '10ms', localDenials: false });

describe('unlimited', () => {
  it('requests of a plan without a limit have no header fields, and a function may return it', async () => {
    const app = Fastify();
    await app.register(rateLimitPlugin, {
      tiers: { free: '1/1h', enterprise: 'unlimited' },
      tier: ({ headers }) => headers['x-plan'] as string,
    });
    app.get('/', () => 'ok');
    app.get('/open', { config: { rateLimit: { policies: () => 'unlimited' } } }, () => 'ok');
    const ask = (plan: string, url = '/') => app.inject({ url, headers: { 'x-plan': plan } });
    for (let i = 0; i < 3; i++) {
      const { statusCode, headers } = await ask('enterprise');
      expect(statusCode).to.equal(200);
      expect(Object.keys(headers).filter((field) => field.startsWith('ratelimit'))).to.deep.equal([]);
    }
    expect((await ask('free')).headers).to.have.property('ratelimit');
    expect((await ask('free')).statusCode).to.equal(429);
    await app.close();
  });

  it('bans are local while the store is down', async () => {
    const client = new Redis(1, { retryStrategy: () => 1000 });
    client.on('error', () => {});
    const limiter = createLimiter({
      ...{ store: redisStore(client), policies: 'unlimited', ban: { after: 1 }, connectTimeout: '100ms' },
      warnings: false,
    });
    expect(await limiter.consume('k')).to.include({ allowed: true, degraded: true });
    await limiter.close();
    client.disconnect();
  });

  it('limitFetch sends without a limit', async () => {
    let sent = 0;
    const call = limitFetch(() => Promise.resolve(new Response(String(++sent))), 'unlimited');
    await Promise.all(Array.from({ length: 200 }, () => call('http://127.0.0.1/')));
    expect(sent).to.equal(200);
    await call.limiter.close();
  });

  for (const [kind, store] of Object.entries({ memory: () => memoryStore(), redis: published })) {
    it(`is shown to operators, who set it, too (${kind})`, async () => {
      const own = store();
      const tiers = { free: '1/1h', enterprise: 'unlimited' };
      const limiter = createLimiter({ name: 'api', store: own, tiers, overrides: true });
      await limiter.consume('k', { tier: 'free' });
      const admin = createAdmin(own);
      let { limiters } = await admin.limiters();
      while (limiters.length === 0) ({ limiters } = await admin.limiters());
      expect(limiters[0]!.configurations[0]!.tiers).to.deep.equal({
        free: ['1/1h'],
        enterprise: ['unlimited'],
      });
      const of = { name: 'api', tier: 'enterprise' };
      expect((await admin.key('k', of))[0])
        .to.include({ allowed: true })
        .and.deep.include({ policies: [] });
      await admin.override('k', 'unlimited', { name: 'api' });
      expect((await admin.key('k', { name: 'api', tier: 'free' }))[0]).to.include({ allowed: true });
      expect(await limiter.consume('k', { tier: 'free' })).to.satisfy(isUnlimited);
      expect((await admin.reset('k', { name: 'api' })).policies).to.deep.equal(['default']);
      await limiter.close();
    });
  }

  it('takes the place of [], Infinity and false, whose messages name it', async () => {
    const limiter = createLimiter({ policies: ['minute=1/1m'], overrides: true });
    const values: (() => unknown)[] = [
      () => createLimiter({ policies: [] }),
      () => createLimiter({ policies: false as never }),
      () => createLimiter({ limit: Infinity, window: '1m' }),
      () => createLimiter({ limit: 'unlimited' as never, window: '1m' }),
      () => createLimiter({ tiers: { free: '1/1h', enterprise: [] } }),
      () => createLimiter({ tiers: { free: '1/1h', enterprise: false as never } }),
      () => createLimiter({ tiers: { free: '1/1h', enterprise: Infinity as never } }),
      () => createLimiter({ policies: [{ algorithm: 'unlimited' } as never] }),
      () => createLimiter({ policies: ['1/1m', { name: 'day', algorithm: 'unlimited' } as never] }),
      () => createLimiter({ algorithm: 'unlimited' } as never),
      () => createLimiter({ tiers: { enterprise: [{ algorithm: 'unlimited' } as never] } }),
      () => createLimiter({ policies: 'unlimited by org' }),
      () => createLimiter({ policies: 'day=unlimited shadow' }),
      () => createLimiter({ policies: 'unlimited/1m' }),
      () => parsePolicy('unlimited'),
      () => policyText({ algorithm: 'unlimited' } as never),
      () => limiter.override('k', { minute: { algorithm: 'unlimited' } } as never),
      () => limiter.override('k', { limit: Infinity }),
      () => limiter.override('k', [] as never),
      () => limiter.override('k', false as never),
    ];
    for (const make of values) {
      const error = await errorOf(make);
      expect(error, make.toString()).to.have.property('code', 'HEADGATE_INVALID_OPTION');
      expect(error!.message, make.toString()).to.match(/[Pp]ass .*'unlimited'/);
    }
  });
});
