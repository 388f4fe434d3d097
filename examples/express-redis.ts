// Express with Redis: all processes that share the Redis share the quota.
//
//   REDIS_URL=redis://localhost:6379 npx tsx examples/express-redis.ts
import express from 'express';
import { rateLimit } from 'headgate/express';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const app = express();

app.use(rateLimit({ name: 'api', store: redisStore(redis), limit: 5, window: '1m' }));

app.get('/', (req, res) => {
  res.json({ remaining: req.rateLimit?.remaining });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
