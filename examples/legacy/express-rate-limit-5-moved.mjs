// @ts-nocheck
// The program of express-rate-limit-5.mjs with the stand-in.
import express from 'express';
import { rateLimit } from 'headgate/compat/express-rate-limit';

const app = express();
const open = rateLimit({ skip: () => true });
const limited = rateLimit({
  windowMs: 60_000,
  limit: 2,
  standardHeaders: 'draft-6',
  handler: (req, res, _next, options) => {
    const { used, limit } = req.rateLimit;
    if (used === limit + 1) console.log(`${req.path} is at its limit`);
    res.status(options.statusCode).send(options.message);
  },
});

app.get('/health', open, (_req, res) => void res.send('ok'));
app.get('/search', limited, (_req, res) => void res.send('found'));
app.listen(3000);
