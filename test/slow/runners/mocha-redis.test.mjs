import assert from 'node:assert/strict';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { afterEach, it } from 'mocha';
import sinon from 'sinon';

afterEach(() => {
  sinon.restore();
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
