// A burst ten times as large for one customer, at once and in all processes, on Redis. With express-rate-limit: customer-express.ts.
import express from 'express';
import { rateLimit } from 'headgate/express';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';

const store = redisStore(new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379'));
const app = express();

const limit = rateLimit({
  name: 'api',
  store,
  policies: 'fixed-window 5/1m',
  overrides: true,
  // Your gateway sets this field, after it has verified the user.
  keyGenerator: (req) => req.get('X-User') ?? 'nobody',
});

app.put('/customers/:id/limit', async (req, res) => {
  await limit.limiter.override(req.params.id, '50/1m', { for: '1d' });
  res.sendStatus(204);
});

app.get('/', limit, (_req, res) => {
  res.json({ hello: 'world' });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
