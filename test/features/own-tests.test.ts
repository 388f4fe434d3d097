// The promises of docs/testing-your-app.md for tests and reloads of an app.
import { expect } from 'chai';
import express from 'express';
import fastify from 'fastify';
import request from 'supertest';
import { createLimiter, memoryStore, type Limiter, type Store } from 'headgate';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { redisStore } from 'headgate/redis';
import { serverKinds } from '../support/shared-servers.js';
import { clients, freshPrefix } from '../support/stores.js';

const minute = { algorithm: 'fixed-window', window: '1m' } as const;

describe('memoryStore().clear', () => {
  it('forgets charges and bans of all limiters', async () => {
    const store = memoryStore();
    const a = createLimiter({ ...minute, name: 'a', store, limit: 1, ban: {} });
    const b = createLimiter({ ...minute, name: 'b', store, limit: 1 });
    for (const limiter of [a, b]) await limiter.consume('ada');
    await a.ban('ada', '1h');
    expect(store.size).to.equal(2);
    store.clear();
    expect(store.size).to.equal(0);
    for (const limiter of [a, b]) {
      expect((await limiter.consume('ada')).allowed).to.be.true;
      expect((await limiter.consume('ada')).allowed).to.be.false;
    }
  });

  it('makes earlier charges impossible to give back', async () => {
    let now = 1_000_000;
    const store = memoryStore({ clock: () => now });
    const limiter = createLimiter({ ...minute, store, limit: 3 });
    const before = await limiter.consume('ada', { cost: 2 });
    store.clear();
    const after = await limiter.consume('ada', { cost: 2 });
    await before.refund();
    expect((await limiter.peek('ada')).remaining).to.equal(1);
    now -= 10_000;
    store.clear();
    const later = await limiter.consume('ada', { cost: 2 });
    await after.refund();
    expect((await limiter.peek('ada')).remaining).to.equal(1);
    await later.refund();
    expect((await limiter.peek('ada')).remaining).to.equal(3);
  });

  it('removes held slots', async () => {
    const store = memoryStore();
    const limiter = createLimiter({ store, algorithm: 'concurrency', limit: 1, lease: '1m' });
    const held = await limiter.acquire('ada');
    store.clear();
    const other = await limiter.acquire('ada');
    expect(other.allowed).to.be.true;
    await held.release();
    expect((await limiter.acquire('ada')).allowed).to.be.false;
  });
});

describe('the limiter of a middleware', () => {
  it('is available in Express', async () => {
    const limit = rateLimit({ ...minute, limit: 1, keyGenerator: () => 'ada' });
    const app = express().use(limit, (_req, res) => void res.send('ok'));
    await request(app).get('/').expect(200);
    await request(app).get('/').expect(429);
    await limit.limiter.reset('ada');
    await request(app).get('/').expect(200);
    await limit.limiter.close();
  });

  it('is available in Fastify', async () => {
    const app = fastify();
    await app.register(rateLimitPlugin, { ...minute, limit: 1, keyGenerator: () => 'ada' });
    app.get('/', () => 'ok');
    const status = async () => (await app.inject('/')).statusCode;
    expect([await status(), await status()]).to.deep.equal([200, 429]);
    const { limiter } = app.rateLimit() as unknown as { limiter: Limiter };
    await limiter.reset('ada');
    expect(await status()).to.equal(200);
    await app.close();
  });
});

describe('an app that is created twice', () => {
  const make = (store: Store, limit = 1, name?: string) =>
    rateLimit({ ...minute, store, limit, ...(name !== undefined && { name }) });

  it('has separate stores, or gives its names back', async () => {
    const store = memoryStore();
    const first = make(store);
    expect(() => make(store))
      .to.throw()
      .with.property('code', 'HEADGATE_NAME_REQUIRED');
    await first.limiter.close();
    const second = make(store);
    await second.limiter.close();
    make(memoryStore());
    make(memoryStore());
  });

  it('shares its quota on a common store, if the limiters are named', async () => {
    const store = memoryStore();
    const [one, other] = [make(store, 1, 'api'), make(store, 1, 'api')];
    expect((await one.limiter.consume('ada')).allowed).to.be.true;
    expect((await other.limiter.consume('ada')).allowed).to.be.false;
  });

  it('has another limit after a reload once the old limiter is closed', async () => {
    const store = memoryStore();
    const old = make(store, 1, 'api');
    await old.limiter.consume('ada');
    expect(() => make(store, 2, 'api'))
      .to.throw()
      .with.property('code', 'HEADGATE_POLICY_MISMATCH');
    await old.limiter.close();
    const reloaded = make(store, 2, 'api');
    expect((await reloaded.limiter.consume('ada')).remaining).to.equal(0);
  });

  for (const kind of serverKinds) {
    it(`has another limit after a reload that makes a new store on the old client (${kind})`, async () => {
      const prefix = freshPrefix();
      const reload = (limit: number) => make(redisStore(clients[kind], { prefix }), limit, 'api').limiter;
      const [old, reloaded] = [reload(1), reload(2)];
      await old.consume('ada');
      expect((await reloaded.consume('ada')).remaining).to.equal(0);
      await Promise.all([old.close(), reloaded.close()]);
    });
  }
});
