// Requests a minute and tokens a minute in one decision, on Redis. With rate-limiter-flexible: tokens-flexible.ts.
import express from 'express';
import { rateLimit } from 'headgate/express';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';

const store = redisStore(new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379'));
const app = express();
app.use(express.json());

app.use(
  rateLimit({
    name: 'completions',
    store,
    policies: ['requests=fixed-window 5/1m', 'tokens=fixed-window 10_000/1m'],
    // Your gateway sets this field, after it has verified the user.
    keyGenerator: (req) => req.get('X-User') ?? 'nobody',
    cost: (req) => {
      const { maxTokens } = Object(req.body) as { maxTokens?: unknown };
      return { tokens: Math.min(Math.max(Math.trunc(Number(maxTokens)) || 10_000, 1), 10_001) };
    },
  }),
);

app.post('/complete', async (req, res) => {
  const used = 42; // In a real application: the tokens that the model has used.
  await req.rateLimit?.settle({ tokens: used });
  res.json({ used });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
