// Webhooks out: wait for one's turn instead of being denied, so that no receiver gets more than 5 a second from all
// our workers together.
//
//   npx tsx examples/webhooks.ts
import { createLimiter } from 'headgate';

const receivers = createLimiter({ name: 'webhooks', algorithm: 'gcra', limit: 5, window: '1s', burst: 1 });

async function deliver(url: string, event: object) {
  // Whoever waits longer than the timeout gets a coded error: put the event back into the queue.
  await receivers.wait(new URL(url).host, { timeout: '10s' });
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(event) });
  if (response.status === 429) throw new Error('The receiver wants less: deliver again later');
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
