import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { afterEach, expect, test, vi } from 'vitest';

afterEach(() => {
  vi.useRealTimers();
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
