// A process that sends many requests with ids over a lossy network, and repeats each request until an answer comes. Settles some requests.
import { Redis } from 'ioredis';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { COST, IDS, isSettled, keyOf, OPTIONS, SETTLED } from './once-task.js';

const [port, prefix] = process.argv.slice(2);
const redis = new Redis(Number(port), { retryStrategy: () => 5, maxRetriesPerRequest: 0 });
redis.on('error', () => {});
const limiter = createLimiter({
  ...OPTIONS,
  store: redisStore(redis, { prefix: prefix! }),
  onStoreError: 'throw',
  timeout: '2s',
});
const ids = Array.from({ length: IDS }, (_, i) => i).sort(() => Math.random() - 0.5);
let charged = 0;

async function ask(id: number): Promise<void> {
  for (;;) {
    try {
      const decision = await limiter.consume(keyOf(id), { id: `request-${id}`, cost: COST });
      if (!decision.allowed || decision.degraded) throw new Error('The limit is too low.');
      if (!decision.repeated) charged++;
      if (isSettled(id)) await decision.settle(SETTLED);
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
}

const workers = Array.from({ length: 16 }, async () => {
  for (let id = ids.pop(); id !== undefined; id = ids.pop()) {
    await ask(id);
    if (ids.length === IDS / 2) process.send!('half');
  }
});
await Promise.all(workers);
process.send!(charged);
process.on('disconnect', () => redis.disconnect());
