// One limiter for every question: how often may this address ask, how often may this account, how often may this page be asked for? Each
// of them 300 times a minute, and 100 times in 5 seconds. All six policies are decided together: what one denies, none charges.
//
//   npx tsx examples/per-account.ts
import express from 'express';
import type { Policy } from 'headgate';
import { rateLimit } from 'headgate/express';

const both = (name: string, by?: string): Policy[] => [
  { name: `${name}-minute`, limit: 300, window: '60s', ...(by && { by }) },
  { name: `${name}-burst`, limit: 100, window: '5s', ...(by && { by }) },
];

// In a real application: whoever your authentication has found. Never trust a header as it is.
const accounts = new Map([
  ['token-of-ada', 'ada'],
  ['token-of-bob', 'bob'],
]);

const app = express();

app.use(
  rateLimit({
    policies: [...both('address'), ...both('page', 'page'), ...both('account', 'account')],
    // Policies without `by` are by the client's address.
    keys: {
      page: (req) => req.path,
      // Who is not logged in has no account: policies by it do not apply.
      account: (req) => accounts.get(req.get('authorization') ?? ''),
    },
  }),
);

app.get(/.*/, (req, res) => {
  res.json(req.rateLimit?.policies.map(({ name, key, remaining }) => ({ name, key, remaining })));
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
