// Tiers by API key: higher plans have higher limits, and requests without a key are limited by address.
//
//   npx tsx examples/tiers.ts
import express from 'express';
import { rateLimit } from 'headgate/express';
import { clientKey } from 'headgate/http';

// Policies of one name, algorithm and window share their count, so a customer who becomes `pro` keeps the units that were charged.
const tiers = {
  anonymous: 'minute=2/1m',
  free: 'minute=5/1m',
  pro: ['burst=token-bucket 10/1s', 'minute=1000/1m'],
};

// In a real application: a look-up in your accounts, after verifying the key.
const accounts = new Map<string, 'free' | 'pro'>([
  ['key-of-ada', 'pro'],
  ['key-of-bob', 'free'],
]);

const tierOf = (req: express.Request): keyof typeof tiers =>
  accounts.get(req.get('x-api-key') ?? '') ?? 'anonymous';

const app = express();

app.use(
  rateLimit({
    tiers,
    tier: tierOf,
    keyGenerator: (req) =>
      tierOf(req) === 'anonymous' ? `ip:${clientKey(req.ip)}` : `key:${req.get('x-api-key')}`,
  }),
);

app.get('/', (req, res) => {
  res.json({ policy: req.rateLimit?.policy, remaining: req.rateLimit?.remaining });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
