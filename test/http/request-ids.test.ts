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

  it('a request with an id cannot wait in line', () => {
    const options = { limit: 5, window: '1m', wait: '1s', requestId: () => 'a' };
    expect(() => rateLimit(options)).to.throw(/^requestId: .*wait/);
  });
});
