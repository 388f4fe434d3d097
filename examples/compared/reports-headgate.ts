// Two reports at a time for a user, five more in line, on Redis. Further requests are denied. With rate-limiter-flexible: reports-flexible.ts.
import express from 'express';
import { rateLimit } from 'headgate/express';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';

const store = redisStore(new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379'));
const app = express();

const twoAtATime = rateLimit({
  name: 'reports',
  store,
  policies: 'concurrency 2/1m',
  wait: '30s',
  maxWaitingPerKey: 5,
  // Your gateway sets this field, after it has verified the user.
  keyGenerator: (req) => req.get('X-User') ?? 'nobody',
});

app.get('/report', twoAtATime, async (_req, res) => {
  await sleep(300);
  res.json({ report: 'done' });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
