// A mail at 80 % and at 100 % of the month's quota: once, also if the process is killed between the charge and the mail.
//
//   npx tsx examples/threshold-mails.ts
import express from 'express';
import { createLimiter, memoryStore } from 'headgate';
import { createAdmin, type RecordedThreshold } from 'headgate/admin';
import { rateLimit } from 'headgate/express';

// Several processes need redisStore(redis, { thresholds: 'stream' }), or sqliteStore.
const store = memoryStore({ thresholds: 'stream' });
const limiter = createLimiter({
  ...{ name: 'api', store },
  policies: ['month=calendar 10/month thresholds 80% 100%', 'minute=60/1m'],
});

/** The mails that were sent. In a real application: a service of mails that drops repeated idempotency keys. */
const sent = new Map<string, string>();

function send({ id, key, threshold, used, limit, at }: RecordedThreshold): void {
  const month = at.toISOString().slice(0, 7);
  sent.set(id, `${key as string}: ${used} of ${limit} requests of ${month} are used (${threshold * 100} %).`);
}

const mails = createAdmin(store).thresholds({ group: 'mail' });

async function sendMails(): Promise<void> {
  for (const crossing of await mails.read()) {
    send(crossing);
    await mails.ack(crossing);
  }
}

setInterval(() => void sendMails(), 1000).unref();

const app = express();

app.get('/mails', async (_req, res) => {
  await sendMails();
  res.json([...sent.values()]);
});

// In a real application: the account from your authentication. Never trust a header without it.
app.use(rateLimit({ limiter, keyGenerator: (req) => req.get('x-api-key') ?? 'demo' }));
app.get('/', (req, res) => {
  res.json({ remaining: req.rateLimit?.remaining });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
