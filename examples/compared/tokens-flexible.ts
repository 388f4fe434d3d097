// The same as tokens-headgate.ts with rate-limiter-flexible. A decision takes two calls, and a denial two more to return the charge, which
// denies concurrent requests in the meantime. If this process dies between the calls, the charge stays.
import express from 'express';
import { Redis } from 'ioredis';
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';

const storeClient = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const requests = new RateLimiterRedis({ storeClient, keyPrefix: 'requests', points: 5, duration: 60 });
const tokens = new RateLimiterRedis({ storeClient, keyPrefix: 'tokens', points: 10_000, duration: 60 });
const app = express();
app.use(express.json());

app.use(async (req, res, next) => {
  const key = req.get('X-User') ?? 'nobody';
  const cost = Number((req.body as { maxTokens: unknown }).maxTokens);
  try {
    await requests.consume(key);
    try {
      await tokens.consume(key, cost);
    } catch (denied) {
      if (denied instanceof RateLimiterRes) await tokens.reward(key, cost);
      throw denied;
    }
    res.locals.settle = async (used: number) => {
      if (used < cost) await tokens.reward(key, cost - used);
      if (used > cost) await tokens.penalty(key, used - cost);
    };
    next();
  } catch (denied) {
    if (!(denied instanceof RateLimiterRes)) return next(denied);
    await requests.reward(key);
    res.set('Retry-After', String(Math.ceil(denied.msBeforeNext / 1000)));
    res.status(429).json({ error: 'Too many requests or tokens' });
  }
});

app.post('/complete', async (_req, res) => {
  const used = 42; // In a real application: the tokens that the model has used.
  await (res.locals.settle as (used: number) => Promise<void>)(used);
  res.json({ used });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
