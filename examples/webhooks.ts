// Outgoing webhooks: deliveries wait for their turn instead of being denied, so that no receiver gets more than 5 a second. With REDIS_URL
// the limit holds for all workers together, and without it for this process.
//
//   npx tsx examples/webhooks.ts
import { createLimiter, memoryStore } from 'headgate';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';

const redis = process.env.REDIS_URL ? new Redis(process.env.REDIS_URL) : undefined;
const store = redis ? redisStore(redis) : memoryStore();
const receivers = createLimiter({
  name: 'webhooks',
  store,
  algorithm: 'gcra',
  limit: 5,
  window: '1s',
  burst: 1,
});

async function deliver(url: string, event: object) {
  // A delivery that waits longer than the timeout gets a coded error: put the event back into the queue.
  await receivers.wait(new URL(url).host, { timeout: '10s' });
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(event) });
  if (response.status === 429) throw new Error('The receiver denied the delivery: deliver it again later');
}

const url = process.env.WEBHOOK_URL ?? 'http://localhost:3000/hook';
const start = Date.now();
await Promise.all(
  Array.from({ length: 6 }, async (_, id) => {
    await deliver(url, { id });
    console.log(`delivered ${id} after ${Date.now() - start} ms`);
  }),
);
await receivers.close();
redis?.disconnect();
