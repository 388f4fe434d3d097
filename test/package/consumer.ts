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
import expressDefault, { rateLimit } from 'headgate/express';
import fastifyDefault, { rateLimitPlugin } from 'headgate/fastify';
import { redisStore } from 'headgate/redis';
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

async function answers(url: string) {
  for (const remaining of [1, 0]) {
    const response = await fetch(url);
    assert.equal(response.status, 200);
    assert.deepEqual(await response.json(), { remaining });
  }
  const denied = await fetch(url);
  assert.equal(denied.status, 429);
  assert.equal(denied.headers.get('retry-after'), '1800');
}

async function main() {
  const redis = new Redis(process.env['REDIS_URL'] ?? '');
  await decidesInMemory();
  await limitsExpress(redis);
  await limitsExpressByItsOldOptions();
  await limitsFastify(redis);
  await redis.quit();
  console.log('works');
}

void main();
