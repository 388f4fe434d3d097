import assert from 'node:assert/strict';
import { createLimiter, memoryStore } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { afterEach, it } from 'mocha';
import sinon from 'sinon';
import request from 'supertest';
import { createApp } from './app.cjs';

const store = memoryStore();
const app = createApp(store);

afterEach(() => {
  sinon.restore();
  store.clear();
});

it('denies the third request of a minute', async () => {
  // Sockets need Node's own timers: only the date is a fake.
  const clock = sinon.useFakeTimers({ now: Date.now(), toFake: ['Date'] });
  await request(app).get('/').expect(200);
  await request(app).get('/').expect(200);
  await request(app).get('/').expect(429).expect('Retry-After', '60');
  clock.tick(60_000);
  await request(app).get('/').expect(200);
});

it('finds the store empty in each test', async () => {
  await request(app).get('/').expect(200).expect('RateLimit-Remaining', '1');
});

it('admits who waits when the time comes', async () => {
  const clock = sinon.useFakeTimers(Date.now());
  const limiter = createLimiter({ limit: 1, window: '1m', algorithm: 'fixed-window' });
  await limiter.consume('ada');
  const waited = limiter.wait('ada');
  await clock.tickAsync(60_000);
  assert.equal((await waited).allowed, true);
});

it('has decisions on Redis under fake timers', async () => {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.ping();
  // Sockets of Node need nextTick.
  sinon.useFakeTimers({ now: Date.now(), toNotFake: ['nextTick', 'queueMicrotask'] });
  // A prefix for each run: the server need not be empty.
  const onRedis = redisStore(redis, { prefix: `test-${Math.random()}` });
  const limiter = createLimiter({ store: onRedis, limit: 10, window: '1m', onStoreError: 'throw' });
  const decisions = await Promise.all(Array.from({ length: 12 }, () => limiter.consume('ada')));
  assert.equal(decisions.filter(({ allowed }) => allowed).length, 10);
  await limiter.close();
  redis.disconnect();
});
