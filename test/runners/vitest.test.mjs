import { createLimiter, memoryStore } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import request from 'supertest';
import { afterEach, expect, test, vi } from 'vitest';
import { createApp } from './app.cjs';

const store = memoryStore();
const app = createApp(store);

afterEach(() => {
  vi.useRealTimers();
  store.clear();
});

test('the third request of a minute is denied', async () => {
  // Sockets need Node's own timers: only the date is a fake.
  vi.useFakeTimers({ toFake: ['Date'] });
  await request(app).get('/').expect(200);
  await request(app).get('/').expect(200);
  await request(app).get('/').expect(429).expect('Retry-After', '60');
  vi.setSystemTime(Date.now() + 60_000);
  await request(app).get('/').expect(200);
});

test('each test finds the store empty', async () => {
  await request(app).get('/').expect(200).expect('RateLimit-Remaining', '1');
});

test('who waits is admitted when the time comes', async () => {
  vi.useFakeTimers();
  const limiter = createLimiter({ limit: 1, window: '1m', algorithm: 'fixed-window' });
  await limiter.consume('ada');
  const waited = limiter.wait('ada');
  await vi.advanceTimersByTimeAsync(60_000);
  expect((await waited).allowed).toBe(true);
});

test('decisions on Redis come under fake timers', async () => {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.ping();
  vi.useFakeTimers();
  // A prefix for each run: the server need not be empty.
  const onRedis = redisStore(redis, { prefix: `test-${Math.random()}` });
  const limiter = createLimiter({ store: onRedis, limit: 10, window: '1m', onStoreError: 'throw' });
  const decisions = await Promise.all(Array.from({ length: 12 }, () => limiter.consume('ada')));
  expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(10);
  await limiter.close();
  redis.disconnect();
});
