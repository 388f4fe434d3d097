// A user's program for Node, Bun and Deno: each adapter that is documented there, each store, and outbound calls. Prints the failures.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import connect from 'connect';
import express from 'express';
import fastify from 'fastify';
import { createLimiter, memoryStore } from 'headgate';
import { rateLimit as standIn } from 'headgate/compat/express-rate-limit';
import { rateLimited } from 'headgate/decorators';
import { rateLimit as expressLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { limitFetch } from 'headgate/fetch';
import { rateLimit as honoLimit } from 'headgate/hono';
import { rateLimit as koaLimit } from 'headgate/koa';
import { redisStore } from 'headgate/redis';
import { sqliteStore } from 'headgate/sqlite';
import { rateLimit as webLimit } from 'headgate/web';
import { Hono } from 'hono';
import { Redis } from 'ioredis';
import Koa from 'koa';
import { createClient } from 'redis';

const { REDIS_URL } = process.env;
const quota = { algorithm: 'fixed-window', limit: 2, window: '1m' };
const prefix = `runtimes-${process.pid}`;

/** Asks three times with one key. */
async function decide(store, options = {}) {
  const limiter = createLimiter({
    name: 'api',
    store,
    ...quota,
    timeout: '10s',
    onStoreError: 'throw',
    ...options,
  });
  const decisions = [];
  for (let i = 0; i < 3; i++) decisions.push(await limiter.consume('ada'));
  assert.deepEqual(
    decisions.map(({ allowed }) => allowed),
    [true, true, false],
  );
  assert.ok(decisions[2].retryAfterMs > 50_000);
  await limiter.close();
}

/** Asks a server three times, whatever address the client claims. */
async function ask(url) {
  const statuses = [];
  let denied;
  for (let i = 0; i < 3; i++) {
    denied = await fetch(url, { headers: { 'x-forwarded-for': `198.51.100.${i}` } });
    statuses.push(denied.status);
    await denied.text();
  }
  assert.deepEqual(statuses, [200, 200, 429]);
  assert.equal(denied.headers.get('retry-after'), '60');
  assert.match(denied.headers.get('content-type'), /^application\/problem\+json/);
}

/** A server of node:http, as long as `use` runs. */
async function onNode(listener, use) {
  const server = createServer(listener);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  try {
    await use(`http://127.0.0.1:${server.address().port}/`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** The runtime's own server. It passes the handler the argument of Bun or Deno: the server, or the data of the connection. */
async function onRuntime(handler, use) {
  if (globalThis.Bun) {
    const server = globalThis.Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: handler });
    await use(`http://127.0.0.1:${server.port}/`);
    return server.stop(true);
  }
  const stop = new AbortController();
  const options = { port: 0, hostname: '127.0.0.1', signal: stop.signal, onListen: () => {} };
  const server = globalThis.Deno.serve(options, handler);
  await use(`http://127.0.0.1:${server.addr.port}/`);
  stop.abort();
  await server.finished;
}

const limits = { ...quota, warnings: false };
const jobs = {
  'memory store': () => decide(memoryStore()),
  'Redis by ioredis': async () => {
    const client = new Redis(REDIS_URL);
    await decide(redisStore(client, { prefix }));
    client.disconnect();
  },
  'Redis by node-redis': async () => {
    const client = createClient({ url: REDIS_URL });
    await client.connect();
    await decide(redisStore(client, { prefix: `${prefix}-2` }));
    await client.close();
  },
  'Redis, many at once': async () => {
    const client = new Redis(REDIS_URL);
    const store = redisStore(client, { prefix: `${prefix}-3` });
    const limiter = createLimiter({ store, limit: 50, window: '1m', timeout: '10s', onStoreError: 'throw' });
    const decisions = await Promise.all(Array.from({ length: 80 }, () => limiter.consume('ada')));
    assert.equal(decisions.filter(({ allowed }) => allowed).length, 50);
    await limiter.close();
    client.disconnect();
  },
  'Redis that is away': async () => {
    const client = new Redis(1, { maxRetriesPerRequest: 1 });
    client.on('error', () => {});
    const limiter = createLimiter({
      store: redisStore(client),
      ...quota,
      warnings: false,
      connectTimeout: 100,
    });
    const decisions = [];
    for (let i = 0; i < 3; i++) decisions.push(await limiter.consume('ada'));
    assert.deepEqual(
      decisions.map(({ allowed, degraded }) => [allowed, degraded]),
      [
        [true, true],
        [true, true],
        [false, true],
      ],
    );
    await limiter.close();
    client.disconnect();
  },
  Express: () => {
    const app = express();
    app.use(expressLimit(limits));
    app.get('/', (_req, res) => void res.send('ok'));
    return onNode(app, ask);
  },
  'the stand-in for express-rate-limit': () => {
    const app = express();
    app.use(standIn({ windowMs: 60_000, limit: 2, validate: false }));
    app.get('/', (_req, res) => void res.send('ok'));
    return onNode(app, async (url) => {
      const statuses = [];
      for (let i = 0; i < 3; i++) statuses.push((await fetch(url)).status);
      assert.deepEqual(statuses, [200, 200, 429]);
    });
  },
  connect: () => {
    const app = connect();
    app.use(expressLimit(limits));
    app.use((_req, res) => void res.end('ok'));
    return onNode(app, ask);
  },
  Fastify: async () => {
    const app = fastify();
    await app.register(rateLimitPlugin, limits);
    app.get('/', () => 'ok');
    await ask(await app.listen({ port: 0, host: '127.0.0.1' }));
    await app.close();
  },
  Koa: () => {
    const app = new Koa();
    app.use(koaLimit(limits));
    app.use((ctx) => void (ctx.body = 'ok'));
    return onNode(app.callback(), ask);
  },
  'a line of waiting calls': async () => {
    const limiter = createLimiter({ algorithm: 'token-bucket', limit: 100, window: '1s', burst: 1 });
    const decisions = await Promise.all([1, 2, 3].map(() => limiter.wait('ada', { timeout: '10s' })));
    assert.ok(decisions.every(({ allowed }) => allowed));
    await limiter.close();
  },
  'slots of a function': async () => {
    const run = rateLimited(async () => 'done', { algorithm: 'concurrency', limit: 1, lease: '1m' });
    assert.deepEqual([await run(), await run()], ['done', 'done']);
  },
  'calls to others': () =>
    onNode(
      (_req, res) => void res.end('ok'),
      async (url) => {
        const call = limitFetch(fetch, { ...quota, key: () => 'partner', timeout: 50 });
        assert.equal(await (await call(url)).text(), 'ok');
        await (await call(url)).text();
        await assert.rejects(call(url), { code: 'HEADGATE_WAIT_TIMEOUT' });
      },
    ),
};

// Node 20 has no SQLite of its own.
if (!process.versions.node.startsWith('20.')) {
  jobs.SQLite = async () => {
    const folder = mkdtempSync(join(tmpdir(), 'headgate-runtime-'));
    await decide(sqliteStore(join(folder, 'limits.db')));
    rmSync(folder, { recursive: true, force: true });
  };
}

if (globalThis.Bun || globalThis.Deno)
  Object.assign(jobs, {
    'Hono on the server of the runtime': () => {
      const app = new Hono();
      app.use(honoLimit(limits));
      app.get('/', (c) => c.text(c.get('rateLimit').key));
      return onRuntime(app.fetch, ask);
    },
    'a handler on the server of the runtime': () =>
      onRuntime(
        webLimit(limits)(() => new Response('ok')),
        ask,
      ),
  });

let passed = 0;
for (const [name, run] of Object.entries(jobs)) {
  try {
    await run();
    passed++;
  } catch (error) {
    console.log(`${name}: ${error.stack}`);
  }
}
console.log(passed === Object.keys(jobs).length ? 'works' : `${passed} passed`);
process.exit();
