// A user's program: type-checked, compiled and run against the packed package, as an ES module and as CommonJS.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express from 'express';
import fastify from 'fastify';
import { createLimiter, HeadgateError, memoryStore, type Decision, type Policy } from 'headgate';
import standInDefault, {
  rateLimit as standIn,
  type AugmentedRequest,
  type Options,
} from 'headgate/compat/express-rate-limit';
import fastifyStandIn, {
  normalizeIP,
  type FastifyRateLimitStore,
  type RateLimitPluginOptions,
} from 'headgate/compat/fastify-rate-limit';
import expressDefault, { rateLimit } from 'headgate/express';
import fastifyDefault, { rateLimitPlugin } from 'headgate/fastify';
import { redisStore } from 'headgate/redis';
import { TestClock } from 'headgate/testing';
import { storeChecks, type Check } from 'headgate-testing';
import { Redis } from 'ioredis';

const policy: Policy = { algorithm: 'token-bucket', limit: 2, window: '1h' };

async function decidesInMemory() {
  const limiter = createLimiter({ store: memoryStore(), policies: [policy] });
  const decisions: Decision[] = [];
  for (let i = 0; i < 3; i += 1) decisions.push(await limiter.consume('user:42', { cost: 1 }));
  assert.deepEqual(
    decisions.map(({ allowed, remaining }) => [allowed, remaining]),
    [
      [true, 1],
      [true, 0],
      [false, 0],
    ],
  );
  assert.throws(() => createLimiter({ limit: -1, window: '1m' }), HeadgateError);
  await limiter.close();
}

async function testsAStore() {
  const clock = new TestClock();
  const limiter = createLimiter({ store: memoryStore({ clock: clock.read }), ...policy });
  await limiter.consume('key', { cost: 2 });
  clock.advance('1h');
  assert.equal((await limiter.peek('key')).remaining, 2);
  const checks: Check[] = storeChecks({ createStore: (clock) => memoryStore({ clock }), runs: 1 });
  for (const { run } of checks) await run();
}

async function limitsExpress(redis: Redis) {
  assert.equal(expressDefault, rateLimit);
  const app = express();
  app.use(rateLimit({ name: `express ${process.pid}`, store: redisStore(redis), ...policy }));
  app.get('/', (req, res) => {
    const remaining: number | undefined = req.rateLimit?.remaining;
    res.json({ remaining });
  });
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  await answers(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  server.closeAllConnections();
  server.close();
}

async function limitsExpressByItsOldOptions() {
  assert.equal(standInDefault, standIn);
  const options: Partial<Options> = { windowMs: 1800 * 1000, limit: 2, requestPropertyName: 'quota' };
  const app = express();
  app.use(standIn(options));
  app.get('/', (req, res) => {
    res.json({ remaining: (req as unknown as AugmentedRequest)['quota']?.remaining });
  });
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  await answers(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  server.closeAllConnections();
  server.close();
}

async function limitsFastify(redis: Redis) {
  assert.equal(fastifyDefault, rateLimitPlugin);
  const app = fastify();
  await app.register(rateLimitPlugin, {
    name: `fastify ${process.pid}`,
    store: redisStore(redis),
    ...policy,
  });
  app.get('/', (request) => ({ remaining: request.rateLimit?.remaining }));
  app.get('/free', { config: { rateLimit: false } }, () => ({}));
  await answers(await app.listen({ port: 0, host: '127.0.0.1' }));
  await app.close();
}

async function limitsFastifyByItsOldOptions(redis: Redis) {
  const app = fastify();
  const options: RateLimitPluginOptions = {
    global: false,
    redis,
    nameSpace: `stand-in-${process.pid}-`,
    keyGenerator: (request) => normalizeIP(request.ip),
  };
  await app.register(fastifyStandIn, options);
  const config = { rateLimit: { max: 2, timeWindow: '30 minutes' } };
  app.get('/', { config }, (_request, reply) => ({
    remaining: Number(reply.getHeader('x-ratelimit-remaining')),
  }));
  app.get('/free', { config: { rateLimit: false }, preHandler: app.rateLimit() }, () => ({}));
  const check = app.createRateLimit({ max: 2 });
  app.get('/checked', async (request) => {
    const result = await check(request, { increment: false });
    return result.isAllowed ? 'not limited' : result.remaining;
  });
  await answers(await app.listen({ port: 0, host: '127.0.0.1' }));
  await app.close();
}

/** A store of @fastify/rate-limit. */
export class CountingStore implements FastifyRateLimitStore {
  incr(_key: string, done: (error: Error | null, result?: { current: number; ttl: number }) => void) {
    done(null, { current: 1, ttl: 1000 });
  }
  child() {
    return this;
  }
}

async function answers(url: string) {
  const start = Date.now();
  for (const remaining of [1, 0]) {
    const response = await fetch(url);
    assert.equal(response.status, 200);
    assert.deepEqual(await response.json(), { remaining });
  }
  const denied = await fetch(url);
  assert.equal(denied.status, 429);
  // A busy machine may take seconds for the three requests.
  const passed = Math.floor((Date.now() - start) / 1000);
  const retryAfter = Number(denied.headers.get('retry-after'));
  assert.ok(retryAfter <= 1800 && retryAfter >= 1800 - passed, `${retryAfter} after ${passed} s`);
}

async function main() {
  await decidesInMemory();
  await testsAStore();
  // On a busy machine these requests took longer than a connection may. Decisions without a connection are different.
  const redis = new Redis(process.env['REDIS_URL'] ?? '');
  await redis.ping();
  await limitsExpress(redis);
  await limitsExpressByItsOldOptions();
  await limitsFastify(redis);
  await limitsFastifyByItsOldOptions(redis);
  await redis.quit();
  console.log('works');
}

void main();
