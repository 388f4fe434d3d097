// One limiter by address, by account and by page, each with 300 requests a minute and 100 in 5 seconds. All six policies are decided together:
// a request that one policy denies is charged in none.
//
//   npx tsx examples/per-account.ts
import express from 'express';
import type { Policy } from 'headgate';
import { rateLimit } from 'headgate/express';

const both = (name: string, by?: string): Policy[] => [
  { name: `${name}-minute`, limit: 300, window: '60s', ...(by && { by }) },
  { name: `${name}-burst`, limit: 100, window: '5s', ...(by && { by }) },
];

// In a real application: the account from your authentication. Never trust a header without it.
const accounts = new Map([
  ['token-of-ada', 'ada'],
  ['token-of-bob', 'bob'],
]);

const app = express();

app.use(
  rateLimit({
    policies: [...both('address'), ...both('page', 'page'), ...both('account', 'account')],
    // Policies without `by` use the client's address.
    keys: {
      page: (req) => req.path,
      // A client without a login has no account, so policies by account do not apply.
      account: (req) => accounts.get(req.get('authorization') ?? ''),
    },
  }),
);

app.get(/.*/, (req, res) => {
  res.json(req.rateLimit?.policies.map(({ name, key, remaining }) => ({ name, key, remaining })));
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
