import assert from 'node:assert/strict';
import { afterEach, mock, test } from 'node:test';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';

afterEach(() => {
  mock.timers.reset();
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
