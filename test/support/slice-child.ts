// A process that asks for one hot key for a while, gives its slices back, and reports when requests were admitted.
import { Redis } from 'ioredis';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import type { Heat } from '../redis/slices.test.js';

const [port, prefix] = process.argv.slice(2);
const redis = new Redis(Number(port));
await redis.ping();

process.on('message', ({ options, lease, duration }: Heat) => void ask({ options, lease, duration }));
process.on('disconnect', () => redis.disconnect());
process.send!('ready');

async function ask({ options, lease, duration }: Heat): Promise<void> {
  const store = redisStore(redis, { prefix: prefix!, lease });
  const limiter = createLimiter({ onStoreError: 'throw', timeout: '1m', ...options, store });
  const admitted: Record<number, number> = {};
  const end = Date.now() + duration;
  while (Date.now() < end) {
    // It sends at most 200 in a turn of the event loop, and records the time of each admission.
    const turn = Array.from({ length: 200 }, async () => {
      if (!(await limiter.consume('hot')).allowed) return;
      const now = Date.now();
      admitted[now] = (admitted[now] ?? 0) + 1;
    });
    await Promise.all(turn);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await store.close!();
  process.send!(admitted);
}
