// Answers to requests whose handler throws: they keep the limiters' fields, in every framework.
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import express5 from 'express';
import express4 from 'express4';
import Fastify from 'fastify';
import { expect } from 'chai';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { rateLimit as overHono } from 'headgate/hono';
import { rateLimit as overKoa } from 'headgate/koa';
import { Hono } from 'hono';
import Koa from 'koa';
import { ask } from './client.js';

const options = { algorithm: 'fixed-window', limit: 1, window: '1h' } as const;
const broken = (): never => {
  throw Object.assign(new Error('broken'), { headers: { 'X-Error': 'yes' } });
};

function withExpress(express: typeof express5): RequestListener {
  const app = express();
  app.set('env', 'test');
  app.use(rateLimit({ ...options, handler: broken }), broken);
  return app;
}

function withKoa(...outer: Koa.Middleware[]): RequestListener {
  const app = new Koa();
  app.silent = true;
  for (const middleware of outer) app.use(middleware);
  app.use(overKoa({ ...options, handler: broken }));
  app.use(overKoa({ limit: 5, window: '1m', name: 'second' }));
  app.use(broken);
  const listener = app.callback();
  return (req, res) => void listener(req, res);
}

function withHono(): RequestListener {
  const app = new Hono();
  app.use(overHono({ ...options, handler: broken }));
  app.get('/', broken);
  app.onError((_error, c) => c.text('failed', 500));
  const listener = getRequestListener(app.fetch, { overrideGlobalObjects: false });
  return (req, res) => void listener(req, res);
}

async function withFastify(): Promise<RequestListener> {
  const app = Fastify();
  await app.register(rateLimitPlugin, { ...options, handler: broken });
  app.get('/', broken);
  await app.ready();
  return (req, res) => app.routing(req, res);
}

/** The answers to an admitted request whose handler throws, and to a denied request whose option `handler` throws. */
async function answers(listener: RequestListener) {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const made = [await ask(`http://127.0.0.1:${port}/`), await ask(`http://127.0.0.1:${port}/`)];
  server.close();
  server.closeAllConnections();
  return made;
}

describe('an answer to an error', () => {
  const frameworks: Readonly<Record<string, () => RequestListener | Promise<RequestListener>>> = {
    'Express 4': () => withExpress(express4 as unknown as typeof express5),
    'Express 5': () => withExpress(express5),
    'Fastify 5': withFastify,
    'Koa 3': () => withKoa(),
    Hono: withHono,
  };
  for (const [name, make] of Object.entries(frameworks))
    it(`keeps the limiter’s fields, on ${name}`, async () => {
      const [admitted, denied] = await answers(await make());
      expect([admitted!.status, denied!.status >= 400]).to.deep.equal([500, true]);
      expect(admitted!.headers).to.have.property('ratelimit-remaining', '0');
      expect(admitted!.headers.ratelimit).to.match(/;r=0;t=/);
      expect(denied!.headers.ratelimit).to.match(/;r=0;t=/);
      expect(denied!.headers).to.have.property('retry-after');
    });

  it('has the fields of all limiters and of the error, on Koa', async () => {
    const [admitted] = await answers(withKoa());
    expect(admitted!.headers['ratelimit-policy']).to.equal('"default";q=1;w=3600, "second";q=5;w=60');
    expect(admitted!.headers).to.have.property('x-error', 'yes');
  });

  it('is left alone if an outer middleware answers, on Koa', async () => {
    const recover: Koa.Middleware = async (ctx, next) => {
      await next().catch(() => {
        ctx.remove('RateLimit');
        ctx.body = 'recovered';
      });
    };
    const [admitted] = await answers(withKoa(recover));
    expect([admitted!.status, admitted!.text, admitted!.headers.ratelimit]).to.deep.equal([
      200,
      'recovered',
      undefined,
    ]);
  });
});
