// A changed limit in the answers to clients, and for waiting requests.
import { expect } from 'chai';
import express from 'express';
import Fastify from 'fastify';
import { createLimiter, memoryStore, type Limiter } from 'headgate';
import { rateLimited } from 'headgate/decorators';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import request from 'supertest';

const options = {
  policies: [
    { name: 'minute', limit: 5, window: '1m' },
    { name: 'hour', algorithm: 'token-bucket', limit: 50, window: '1h' },
  ],
  keyGenerator: () => 'ada',
  overrides: true,
  headers: ['draft-6', 'draft-11', 'legacy'],
} as const;

/** The limiter of each framework, and a function that sends a request. */
const apps = {
  express: async () => {
    const app = express();
    const limit = rateLimit(options);
    app.get('/', limit, (_, res) => void res.send('ok'));
    return {
      limiter: limit.limiter,
      ask: () => request(app).get('/'),
      close: async () => limit.limiter.close(),
    };
  },
  fastify: async () => {
    const app = Fastify();
    await app.register(rateLimitPlugin, { ...options, global: true });
    app.get('/', () => 'ok');
    await app.ready();
    const close = async (): Promise<void> => void (await app.close());
    return {
      limiter: (app.rateLimit() as unknown as { limiter: Limiter }).limiter,
      ask: () => request(app.server).get('/'),
      close,
    };
  },
};

for (const [name, open] of Object.entries(apps)) {
  describe(`overrides over HTTP, with ${name}`, () => {
    it('headers and bodies show the limit in force', async () => {
      const { limiter, ask, close } = await open();
      await ask();
      await limiter.override('ada', { minute: { limit: 20 }, hour: { limit: 500 } });
      const raised = await ask();
      expect(raised.headers).to.include({
        'ratelimit-limit': '20',
        'ratelimit-remaining': '18',
        'x-ratelimit-limit': '20',
        'ratelimit-policy': '"minute";q=20;w=60, "hour";q=500;w=3600',
      });
      expect(raised.headers['ratelimit']).to.match(/^"minute";r=18;t=\d+, "hour";r=498;t=/);
      await limiter.override('ada', { minute: { limit: 1 } });
      const denied = await ask();
      expect(denied.status).to.equal(429);
      expect(denied.headers).to.include({ 'ratelimit-limit': '1' });
      expect(Number(denied.headers['retry-after'])).to.be.within(1, 67);
      expect(denied.body).to.deep.include({ 'violated-policies': ['minute'] });
      await limiter.override('ada', { minute: false });
      expect((await ask()).headers['ratelimit-policy']).to.equal('"hour";q=50;w=3600');
      await close();
    });
  });
}

describe('overrides', () => {
  it('of a waiting key: the request goes on', async () => {
    const limiter = createLimiter({ limit: 1, window: '1h', overrides: true });
    await limiter.consume('ada');
    const waiting = limiter.wait('ada', { timeout: '1d' });
    await new Promise((resolve) => setTimeout(resolve, 20));
    await limiter.override('ada', { limit: 2 });
    expect(await waiting).to.include({ allowed: true, limit: 2 });
    await limiter.close();
  });

  it('a cost that only the changed limit can admit', async () => {
    const limiter = createLimiter({ limit: 5, window: '1h', overrides: true, warnings: false });
    expect(await limiter.consume('ada', { cost: 10 })).to.include({ reason: 'cost-exceeds-capacity' });
    await limiter.override('ada', '50/1h');
    expect(await limiter.consume('ada', { cost: 10 })).to.include({ allowed: true });
    expect(await limiter.wait('ada', { cost: 10 })).to.include({ allowed: true });
    await limiter.override('ada', '20/1h');
    expect(await limiter.consume('ada', { cost: 21 })).to.include({ reason: 'cost-exceeds-capacity' });
    await limiter.close();
  });

  it('of a decorated function', async () => {
    const limiter = createLimiter({ limit: 1, window: '1h', overrides: true, store: memoryStore() });
    const work = rateLimited(async (who: string) => who, { limiter, key: (who: string) => who });
    await work('ada');
    await limiter.override('ada', { limit: 2 });
    expect(await work('ada')).to.equal('ada');
    await limiter.close();
  });

  it('of policies that each request brings', async () => {
    const app = express();
    const limit = rateLimit({
      name: 'x',
      overrides: true,
      keyGenerator: () => 'ada',
      policies: () => '5/1m',
    });
    app.get('/', limit, (_, res) => void res.send('ok'));
    await limit.limiter.override('ada', { limit: 70 });
    expect((await request(app).get('/')).headers['ratelimit-policy']).to.match(/q=70/);
    await limit.limiter.removeOverride('ada');
    expect((await request(app).get('/')).headers['ratelimit-policy']).to.match(/q=5/);
    await limit.limiter.close();
  });

  it('that a deployment has made unreadable leaves the configured limits in force', async () => {
    const store = memoryStore();
    const before = createLimiter({
      name: 'api',
      store,
      tiers: { pro: '9/1m' },
      limit: 5,
      window: '1m',
      overrides: true,
    });
    await before.override('ada', { tier: 'pro' });
    await before.close();
    const warned: string[] = [];
    const onWarning = ({ code }: { code?: string }): void => void warned.push(code ?? '');
    process.on('warning', onWarning as never);
    const after = createLimiter({ name: 'api', store, limit: 5, window: '1m', overrides: true });
    expect(await after.consume('ada')).to.include({ allowed: true, limit: 5 });
    expect(await after.consume('ada')).to.include({ remaining: 3 });
    await new Promise(setImmediate);
    process.off('warning', onWarning as never);
    expect(warned).to.deep.equal(['HEADGATE_OVERRIDE_UNREADABLE']);
    await after.close();
  });
});
