import assert from 'node:assert/strict';
import { afterEach, mock, test } from 'node:test';
import { createLimiter, memoryStore } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import request from 'supertest';
import { createApp } from './app.cjs';

const store = memoryStore();
const app = createApp(store);

afterEach(() => {
  mock.timers.reset();
  store.clear();
});

test('the third request of a minute is denied', async () => {
  // Sockets need Node's own timers: only the date is a fake.
  mock.timers.enable({ apis: ['Date'], now: Date.now() });
  await request(app).get('/').expect(200);
  await request(app).get('/').expect(200);
  await request(app).get('/').expect(429).expect('Retry-After', '60');
  mock.timers.tick(60_000);
  await request(app).get('/').expect(200);
});

test('each test finds the store empty', async () => {
  await request(app).get('/').expect(200).expect('RateLimit-Remaining', '1');
});

test('who waits is admitted when the time comes', async () => {
  mock.timers.enable({ apis: ['Date', 'setTimeout'], now: Date.now() });
  const limiter = createLimiter({ limit: 1, window: '1m', algorithm: 'fixed-window' });
  await limiter.consume('ada');
  const waited = limiter.wait('ada');
  // The first decision comes before the timer is set.
  await new Promise(setImmediate);
  mock.timers.tick(60_000);
  assert.equal((await waited).allowed, true);
});

test('decisions on Redis come under fake timers', async () => {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.ping();
  mock.timers.enable({ apis: ['Date', 'setImmediate', 'setInterval', 'setTimeout'], now: Date.now() });
  // A prefix for each run: the server need not be empty.
  const onRedis = redisStore(redis, { prefix: `test-${Math.random()}` });
  const limiter = createLimiter({ store: onRedis, limit: 10, window: '1m', onStoreError: 'throw' });
  const decisions = await Promise.all(Array.from({ length: 12 }, () => limiter.consume('ada')));
  assert.equal(decisions.filter(({ allowed }) => allowed).length, 10);
  await limiter.close();
  redis.disconnect();
});
