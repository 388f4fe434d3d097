// Several policies, decided together: a request that one policy denies is charged in none. The cost depends on the request.
//
//   npx tsx examples/several-policies.ts
import express from 'express';
import { rateLimit } from 'headgate/express';

const app = express();

app.use(
  rateLimit({
    policies: [
      { name: 'burst', algorithm: 'token-bucket', limit: 2, window: '1s', burst: 5 },
      { name: 'hour', algorithm: 'sliding-window', limit: 20, window: '1h' },
    ],
    // A whole number from 1 to 20: a client may send anything.
    cost: (req) => Math.min(Math.max(Math.floor(Number(req.query.items)) || 1, 1), 20),
  }),
);

app.get('/', (req, res) => {
  res.json({ decidedBy: req.rateLimit?.policy, policies: req.rateLimit?.policies });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
