// A process in a race for a quota. Connects, reports its connection, and sends many requests at once at each message.
import { Redis } from 'ioredis';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import type { Heat } from '../laws/race.test.js';

const [port, prefix] = process.argv.slice(2);
const redis = new Redis(Number(port));
await redis.ping();

process.on('message', ({ options, key, requests }: Heat) => {
  const limiter = createLimiter({
    onStoreError: 'throw',
    timeout: '1m',
    ...options,
    store: redisStore(redis, { prefix: prefix! }),
  });
  void Promise.all(Array.from({ length: requests }, () => limiter.consume(key))).then((decisions) => {
    const admitted = decisions.filter(({ allowed }) => allowed).map(({ remaining }) => remaining);
    process.send!(admitted);
  });
});
process.on('disconnect', () => redis.disconnect());
process.send!('ready');
