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
    cost: (req) => Number(req.query.items ?? 1),
  }),
);

app.get('/', (req, res) => {
  res.json({ decidedBy: req.rateLimit?.policy, policies: req.rateLimit?.policies });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
