import { expect } from 'chai';
import express from 'express';
import Fastify from 'fastify';
import request from 'supertest';
import { createLimiter, memoryStore } from 'headgate';
import { rateLimit, type RateLimitOptions } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';

const key = (): string => 'k';
const fixed = { algorithm: 'fixed-window', window: '1h' } as const;

describe('request ids over HTTP', () => {
  it('express and fastify: a request with the same Idempotency-Key has the same fields, and is charged once', async () => {
    const limiter = createLimiter({ name: 'pay', store: memoryStore(), limit: 2, ...fixed });
    const app = express();
    app.use(rateLimit({ limiter, keyGenerator: key, requestId: (req) => req.get('Idempotency-Key') }));
    app.get('/', (req, res) => void res.json(req.rateLimit?.repeated));
    const fastify = Fastify();
    await fastify.register(rateLimitPlugin, {
      ...{ limiter, keyGenerator: key },
      requestId: async (req) => (req.headers['idempotency-key'] as string | undefined) ?? null,
    });
    fastify.get('/', (req) => JSON.stringify(req.rateLimit?.repeated));
    await fastify.ready();
    const ask = (server: Parameters<typeof request>[0], id?: string) =>
      request(server)
        .get('/')
        .set(id === undefined ? {} : { 'Idempotency-Key': id });
    const first = await ask(app, 'a').expect(200);
    expect(first.text).to.equal('false');
    for (const server of [app, fastify.server, app]) {
      const { headers, text } = await ask(server, 'a').expect(200);
      expect([text, headers['ratelimit']]).to.deep.equal(['true', first.headers['ratelimit']]);
    }
    await ask(app).expect(200);
    await ask(app, 'b').expect(429);
    await ask(fastify.server, 'b').expect(429);
    await ask(fastify.server, 'a').expect(200);
    expect((await limiter.usage('k')).policies[0]).to.include({ used: 2 });
    await fastify.close();
    await limiter.close();
  });

  it('a request that a stacked limiter denies gives its charge back, and is charged when it comes again', async () => {
    const store = memoryStore();
    const [outer, inner] = [
      createLimiter({ name: 'outer', store, limit: 10, ...fixed }),
      createLimiter({ name: 'inner', store, limit: 1, ...fixed }),
    ];
    const options: Omit<RateLimitOptions, 'limiter'> = {
      keyGenerator: key,
      requestId: (req) => req.get('Idempotency-Key'),
    };
    const app = express();
    app.use(rateLimit({ ...options, limiter: outer }), rateLimit({ ...options, limiter: inner }));
    app.get('/', (_, res) => void res.sendStatus(204));
    const ask = (id: string) => request(app).get('/').set({ 'Idempotency-Key': id });
    await ask('a').expect(204);
    await ask('b').expect(429);
    await ask('b').expect(429);
    await inner.reset('k');
    await ask('b').expect(204);
    await ask('b').expect(204);
    expect((await outer.usage('k')).policies[0]).to.include({ used: 2 });
  });

  it('a repetition that fails does not return the cost of a request that was served', async () => {
    const app = express();
    const limiter = createLimiter({ name: 'work', store: memoryStore(), limit: 100, ...fixed });
    const cost = (req: express.Request) => Number(req.query['cost']);
    const requestId = (req: express.Request) => req.get('Idempotency-Key');
    app.use(rateLimit({ limiter, keyGenerator: key, cost, requestId, skipFailedRequests: true }));
    let served = 0;
    app.get('/', (req, res) => {
      const fails = req.query['fails'] === '1';
      if (!fails) served += req.rateLimit!.cost;
      res.sendStatus(fails ? 422 : 204);
    });
    const ask = (query: object, id: string) => request(app).get('/').query(query).set('Idempotency-Key', id);
    for (let i = 0; i < 20; i++) {
      await ask({ cost: 10 }, `id${i}`);
      await ask({ cost: 10, fails: 1 }, `id${i}`);
      await ask({ cost: 1 }, `small${i}`);
      await ask({ cost: 10, fails: 1 }, `small${i}`);
    }
    expect(served).to.be.at.most(100);
    expect((await limiter.usage('k')).policies[0]).to.include({ used: served });
    // The first request of an id that fails is not charged, and its id is free.
    await limiter.reset('k');
    await ask({ cost: 10, fails: 1 }, 'new').expect(422);
    expect((await limiter.usage('k')).policies[0]).to.include({ used: 0 });
    await ask({ cost: 10 }, 'new').expect(204);
    expect((await limiter.usage('k')).policies[0]).to.include({ used: 10 });
    await limiter.close();
  });

  it('a request that fails after its repetition was served does not return the cost', async () => {
    const app = express();
    const limiter = createLimiter({ name: 'slow', store: memoryStore(), limit: 10, ...fixed, repeats: 1 });
    const requestId = (req: express.Request) => req.get('Idempotency-Key');
    app.use(rateLimit({ limiter, keyGenerator: key, requestId, skipFailedRequests: true }));
    let served = 0;
    let fail = (): void => {};
    let begun = (): void => {};
    app.get('/ok', (_, res) => {
      served++;
      res.sendStatus(204);
    });
    app.get('/fails', (_, res) => {
      fail = () => res.sendStatus(404);
      begun();
    });
    const server = app.listen(0, '127.0.0.1');
    const ask = (path: string, id: string) => request(server).get(path).set('Idempotency-Key', id);
    for (let i = 0; i < 30; i++) {
      const begins = new Promise<void>((resolve) => (begun = resolve));
      const slow = ask('/fails', `id${i}`).then(({ status }) => status);
      const isHandled = await Promise.race([begins.then(() => true), slow.then(() => false)]);
      await ask('/ok', `id${i}`);
      if (isHandled) fail();
      await slow;
    }
    expect(served).to.equal(10);
    expect((await limiter.usage('k')).policies[0]).to.include({ used: 10 });
    server.close();
    await limiter.close();
  });

  it('a request that a stacked limiter denies after its repetition was served keeps its charge', async () => {
    const store = memoryStore();
    const outer = createLimiter({ name: 'outer', store, limit: 10, ...fixed, repeats: 1 });
    const inner = createLimiter({ name: 'inner', store, limit: 1, ...fixed });
    await inner.consume('k');
    const requestId = (req: express.Request) => req.get('Idempotency-Key');
    const app = express();
    let goOn = (): void => {};
    let begun = (): void => {};
    const lateKey = () =>
      new Promise<string>((resolve) => {
        goOn = () => resolve('k');
        begun();
      });
    app.use(rateLimit({ keyGenerator: key, requestId, limiter: outer }));
    app.get('/limited', rateLimit({ keyGenerator: lateKey, limiter: inner }));
    app.get('/', (_, res) => void res.sendStatus(204));
    const server = app.listen(0, '127.0.0.1');
    const ask = (path: string) => request(server).get(path).set('Idempotency-Key', 'a');
    const begins = new Promise<void>((resolve) => (begun = resolve));
    const denied = ask('/limited').then(({ status }) => status);
    await begins;
    await ask('/').expect(204);
    goOn();
    expect(await denied).to.equal(429);
    expect((await outer.usage('k')).policies[0]).to.include({ used: 1 });
    server.close();
  });

  it('a repetition that a stacked limiter denies does not return the charge of the first request', async () => {
    const store = memoryStore();
    const outer = createLimiter({ name: 'outer', store, limit: 10, ...fixed });
    const inner = createLimiter({ name: 'inner', store, limit: 1, ...fixed });
    const app = express();
    const requestId = (req: express.Request) => req.get('Idempotency-Key');
    app.use(rateLimit({ keyGenerator: key, requestId, limiter: outer }));
    app.use(rateLimit({ keyGenerator: key, limiter: inner }));
    app.get('/', (_, res) => void res.sendStatus(204));
    const ask = (id: string) => request(app).get('/').set({ 'Idempotency-Key': id });
    await ask('a').expect(204);
    await ask('a').expect(429);
    await ask('b').expect(429);
    expect((await outer.usage('k')).policies[0]).to.include({ used: 1 });
  });

  it('an id that is not valid is ignored on every adapter: the request is charged as one without an id', async () => {
    const ids: unknown[] = ['', 'x'.repeat(256), 7, ['a'], { a: 1 }, null, undefined];
    let id: unknown;
    const requestId = (): string => id as string;
    const limiter = createLimiter({ name: 'any', store: memoryStore(), limit: 100, ...fixed });
    const app = express();
    app.use(rateLimit({ limiter, keyGenerator: key, requestId }));
    app.get('/', (_, res) => void res.sendStatus(204));
    const fastify = Fastify();
    await fastify.register(rateLimitPlugin, { limiter, keyGenerator: key, requestId });
    fastify.get('/', (_, reply) => reply.status(204).send());
    await fastify.ready();
    for (id of ids)
      for (const server of [app, fastify.server])
        for (let i = 0; i < 2; i++) await request(server).get('/').expect(204);
    expect((await limiter.usage('k')).policies[0]).to.include({ used: 4 * ids.length });
    id = 'x'.repeat(255);
    for (const server of [app, fastify.server]) await request(server).get('/').expect(204);
    expect((await limiter.usage('k')).policies[0]).to.include({ used: 4 * ids.length + 1 });
    await fastify.close();
    await limiter.close();
  });

  it('a client with one id is let in `repeats` times more than the limit, and no more', async () => {
    for (const [option, admitted] of [
      [{}, 10],
      [{ repeats: 1 }, 6],
      [{ repeats: 12 }, 17],
    ] as const) {
      const app = express();
      app.use(rateLimit({ limit: 5, ...fixed, keyGenerator: key, requestId: () => 'a', ...option }));
      app.get('/', (_, res) => void res.sendStatus(204));
      let served = 0;
      for (let i = 0; i < 100; i++) if ((await request(app).get('/')).status === 204) served++;
      expect(served).to.equal(admitted);
    }
    for (const repeats of [0, 1.5, '5', 1e7])
      expect(() => rateLimit({ limit: 5, window: '1m', repeats: repeats as number })).to.throw(/^repeats: /);
  });

  it('a request with an id cannot wait in line', () => {
    const options = { limit: 5, window: '1m', wait: '1s', requestId: () => 'a' };
    expect(() => rateLimit(options)).to.throw(/^requestId: .*wait/);
  });
});
