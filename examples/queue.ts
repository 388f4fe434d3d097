// A queue for slow work: at most 2 reports at a time for a user, 5 more in line. Further requests are denied.
//
//   npx tsx examples/queue.ts
import express from 'express';
import { rateLimit } from 'headgate/express';

const app = express();

const twoAtATime = rateLimit({
  name: 'reports',
  keyGenerator: (req) => req.get('X-User') ?? 'nobody',
  ...{ algorithm: 'concurrency', limit: 2, lease: '1m' },
  wait: '30s',
  maxWaitingPerKey: 5,
});

app.get('/report', twoAtATime, async (_req, res) => {
  for (let page = 1; page <= 3; page++) {
    // A client that disconnects frees its slot, so the work must stop, too. Otherwise more than two reports would run.
    if (res.destroyed) {
      console.log(`Stopped at page ${page}`);
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  res.json({ report: 'done' });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
