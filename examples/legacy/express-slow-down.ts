// A limit with express-slow-down. docs/migrating/express-slow-down.md has the program after the move.
import express from 'express';
import { slowDown } from 'express-slow-down';

const app = express();
app.use(slowDown({ windowMs: 60_000, delayAfter: 2, delayMs: (hits) => (hits - 2) * 200 }));
app.get('/', (_req, res) => void res.send('found'));
app.listen(3000);
