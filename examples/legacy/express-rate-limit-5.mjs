// @ts-nocheck
// A limit with express-rate-limit 5. express-rate-limit-5-moved.mjs is the program after the move.
import express from 'express';
import rateLimit from 'express-rate-limit';

const app = express();
const open = rateLimit({ max: 0 });
const limited = rateLimit({
  windowMs: 60_000,
  max: 2,
  draft_polli_ratelimit_headers: true,
  onLimitReached: (req) => console.log(`${req.path} is at its limit`),
});

app.get('/health', open, (_req, res) => void res.send('ok'));
app.get('/search', limited, (_req, res) => void res.send('found'));
app.listen(3000);
