const { createLimiter } = require('headgate');
const { redisStore } = require('headgate/redis');
const { Redis } = require('ioredis');

afterEach(() => {
  jest.useRealTimers();
});

test('decisions on Redis come under fake timers', async () => {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.ping();
  jest.useFakeTimers();
  // A prefix for each run: the server need not be empty.
  const onRedis = redisStore(redis, { prefix: `test-${Math.random()}` });
  const limiter = createLimiter({ store: onRedis, limit: 10, window: '1m', onStoreError: 'throw' });
  const decisions = await Promise.all(Array.from({ length: 12 }, () => limiter.consume('ada')));
  expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(10);
  await limiter.close();
  redis.disconnect();
});
