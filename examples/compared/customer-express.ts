// The same as customer-headgate.ts with express-rate-limit. Each request calls Redis twice. While Redis is down, requests fail.
import express from 'express';
import { rateLimit } from 'express-rate-limit';
import { Redis } from 'ioredis';
import { RedisStore, type RedisReply } from 'rate-limit-redis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const app = express();
const customerOf = (req: express.Request) => req.get('X-User') ?? 'nobody';

const limit = rateLimit({
  windowMs: 60_000,
  limit: async (req) => Number(await redis.get(`limit:${customerOf(req)}`)) || 5,
  keyGenerator: customerOf,
  store: new RedisStore({
    sendCommand: (command, ...args) => redis.call(command, ...args) as Promise<RedisReply>,
  }),
});

app.put('/customers/:id/limit', async (req, res) => {
  await redis.set(`limit:${req.params.id}`, 50, 'EX', 86_400);
  res.sendStatus(204);
});

app.get('/', limit, (_req, res) => {
  res.json({ hello: 'world' });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
