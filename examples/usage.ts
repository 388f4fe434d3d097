// GET /usage: customers see what is left of their quotas, as a page or as JSON. Looking charges nothing.
//
//   npx tsx examples/usage.ts
import express from 'express';
import { createLimiter } from 'headgate';
import { rateLimit } from 'headgate/express';
import { clientKey } from 'headgate/http';
import { usagePage } from './usage-page.js';

const limiter = createLimiter({
  name: 'api',
  policies: ['minute=60/1m', 'month=calendar 10000/month unit requests'],
});

// In a real application: your customers by API key. A visitor without a valid key is limited by address.
const customers = new Map([['key-of-ada', 'ada']]);
const accountOf = (req: express.Request): string =>
  customers.get(req.get('x-api-key') ?? '') ?? `ip:${clientKey(req.ip)}`;

const app = express();

// Before the limiter, so that a customer whose quota is spent can still look.
app.get('/usage', async (req, res) => {
  const usage = await limiter.usage(accountOf(req));
  res.set('Cache-Control', 'no-store');
  if (req.accepts(['json', 'html']) === 'html') res.send(usagePage(usage));
  else res.json(usage);
});

app.use(rateLimit({ limiter, keyGenerator: accountOf }));
app.get('/', (req, res) => {
  res.json({ remaining: req.rateLimit?.remaining });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
