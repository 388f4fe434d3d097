// A process that requests one hot key for a while, spends its slices as late as possible, and reports the times of requests and answers.
import { Redis } from 'ioredis';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import type { Heat } from '../features/slices/slow/processes.test.js';

const [port, prefix] = process.argv.slice(2);
const redis = new Redis(Number(port));
await redis.ping();

process.on('message', (heat: Heat) => void ask(heat));
process.on('disconnect', () => redis.disconnect());
process.send!('ready');

async function ask({ options, slices, duration, turn, pause }: Heat): Promise<void> {
  const store = redisStore(redis, { prefix: prefix!, slices });
  const limiter = createLimiter({ onStoreError: 'throw', timeout: '1m', ...options, store });
  let admitted: Record<string, number> = {};
  const end = Date.now() + duration;
  while (Date.now() < end) {
    await Promise.all(
      Array.from({ length: turn }, async () => {
        const sentAt = Date.now();
        if (!(await limiter.consume('hot')).allowed) return;
        const when = `${sentAt} ${Date.now()}`;
        admitted[when] = (admitted[when] ?? 0) + 1;
      }),
    );
    process.send!({ admitted });
    admitted = {};
    // Slices that arrived meanwhile become old.
    await new Promise((resolve) => setTimeout(resolve, Math.random() * pause));
  }
  await store.close!();
  await limiter.close();
  process.send!('done');
}
