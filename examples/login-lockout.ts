// Login lockout: failed attempts are counted per account and per address, successful ones are not; who goes on failing
// is banned, longer each time.
//
//   npx tsx examples/login-lockout.ts
import express from 'express';
import { rateLimit } from 'headgate/express';

interface Credentials {
  email: string;
  password: string;
}

const app = express();
app.use(express.json());

// Many addresses, one account: guessing a password.
const perAccount = rateLimit({
  name: 'login-account',
  limit: 3,
  window: '15m',
  keyGenerator: (req) => (req.body as Credentials).email.toLowerCase(),
  skipSuccessfulRequests: true,
  ban: { after: 3, within: '1h', for: '1h', factor: 2, max: '24h' },
});

// One address, many accounts: trying leaked passwords. Addresses are shared by many people: more room, no ban.
const perAddress = rateLimit({
  name: 'login-address',
  limit: 100,
  window: '15m',
  skipSuccessfulRequests: true,
});

app.post('/login', perAddress, perAccount, (req, res) => {
  const { email, password } = req.body as Credentials;
  // In a real application: compare hashes, and answer alike whether the account exists or not.
  if (password === 'correct horse') res.json({ welcome: email });
  else res.status(401).json({ error: 'Wrong e-mail address or password' });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
