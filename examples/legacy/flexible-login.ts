// A login with rate-limiter-flexible. docs/migrating/rate-limiter-flexible.md has the program after the move.
import express from 'express';
import { RateLimiterMemory } from 'rate-limiter-flexible';

const points = 5;
const wrong = new RateLimiterMemory({ keyPrefix: 'login', points, duration: 900, blockDuration: 900 });

const app = express();
app.use(express.json());
app.post('/login', async (req, res) => {
  const { user, password } = Object(req.body) as { user?: unknown; password?: unknown };
  if (typeof user !== 'string') return void res.sendStatus(400);
  const seen = await wrong.get(user);
  if (seen !== null && seen.consumedPoints > points) return void res.sendStatus(429);
  if (password !== 'correct horse') {
    const isBlocked = await wrong.consume(user).then(
      () => false,
      () => true,
    );
    return void res.sendStatus(isBlocked ? 429 : 401);
  }
  await wrong.delete(user);
  res.send('welcome');
});
app.listen(3000);
