// Tiers by API key: who pays more may do more; who shows no key is limited by address.
//
//   npx tsx examples/tiers.ts
import express from 'express';
import type { Policy } from 'headgate';
import { rateLimit } from 'headgate/express';

const tiers: Record<'anonymous' | 'free' | 'pro', Policy[]> = {
  anonymous: [{ name: 'anonymous', limit: 2, window: '1m' }],
  free: [{ name: 'free', limit: 5, window: '1m' }],
  pro: [
    { name: 'pro-burst', algorithm: 'token-bucket', limit: 10, window: '1s' },
    { name: 'pro', limit: 1000, window: '1m' },
  ],
};

// In a real application: a look-up in your accounts, after the key has been verified.
const accounts = new Map<string, 'free' | 'pro'>([
  ['key-of-ada', 'pro'],
  ['key-of-bob', 'free'],
]);

const tierOf = (req: express.Request) => accounts.get(req.get('x-api-key') ?? '') ?? 'anonymous';

const app = express();

app.use(
  rateLimit({
    policies: (req) => tiers[tierOf(req)],
    keyGenerator: (req) => (tierOf(req) === 'anonymous' ? `ip:${req.ip}` : `key:${req.get('x-api-key')}`),
  }),
);

app.get('/', (req, res) => {
  res.json({ policy: req.rateLimit?.policy, remaining: req.rateLimit?.remaining });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
