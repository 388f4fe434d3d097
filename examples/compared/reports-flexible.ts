// The same as reports-headgate.ts with rate-limiter-flexible, which has no slots and therefore counts points. The points of a crashed process
// stay charged for up to a minute, and a report of more than a minute loses its points. The queue is local to the process and unordered.
import express from 'express';
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';

const storeClient = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const slots = new RateLimiterRedis({ storeClient, keyPrefix: 'reports', points: 2, duration: 60 });
const waiting = new Map<string, number>();
const app = express();

async function hasTaken(key: string): Promise<boolean> {
  try {
    await slots.consume(key);
    return true;
  } catch (denied) {
    if (!(denied instanceof RateLimiterRes)) throw denied;
    await slots.reward(key);
    return false;
  }
}

async function waitFor(key: string, isGone: () => boolean): Promise<boolean> {
  const inLine = waiting.get(key) ?? 0;
  if (inLine >= 5) return false;
  waiting.set(key, inLine + 1);
  try {
    for (const end = Date.now() + 30_000; Date.now() < end && !isGone(); await sleep(50))
      if (await hasTaken(key)) return true;
    return false;
  } finally {
    const remaining = waiting.get(key)! - 1;
    if (remaining > 0) waiting.set(key, remaining);
    else waiting.delete(key);
  }
}

app.get('/report', async (req, res) => {
  const key = req.get('X-User') ?? 'nobody';
  const hasSlot = (await hasTaken(key)) || (await waitFor(key, () => res.destroyed));
  if (!hasSlot) {
    res.set('Retry-After', '1').status(503).json({ error: 'Too many reports' });
    return;
  }
  try {
    await sleep(300);
    res.json({ report: 'done' });
  } finally {
    await slots.reward(key);
  }
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
