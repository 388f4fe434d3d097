// Login lockout: protects passwords against guessing, without letting attackers lock other users' accounts.
//
//   npx tsx examples/login-lockout.ts
import { createHmac, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto';
import express, { type Request } from 'express';
import { rateLimit } from 'headgate/express';

interface Credentials {
  email: string;
  password: string;
}

// A real application loads the secret from its secret store, the same in every process.
const secret = randomBytes(32);

/** The proof that a device has logged in to an account before. */
const proof = (device: string, email: string) =>
  createHmac('sha256', secret).update(`${device} ${email}`).digest('hex');

/** The address of the account, or an empty text. A client may send any body, or none. */
function emailOf(req: Request): string {
  const { email } = Object(req.body) as Partial<Record<keyof Credentials, unknown>>;
  return typeof email === 'string' ? email.slice(0, 254).toLowerCase() : '';
}

/** The device of the request, if it has logged in to this account before. */
function knownDevice(req: Request): string | undefined {
  const [, device, given] = /(?:^|; )device=([\w-]+)\.([0-9a-f]{64})/.exec(req.headers.cookie ?? '') ?? [];
  if (!device || !given) return undefined;
  const isProven = timingSafeEqual(Buffer.from(given), Buffer.from(proof(device, emailOf(req))));
  return isProven ? device : undefined;
}

const app = express();
app.use(express.json());

// One address, many accounts: trying leaked passwords. Attempts that the next limiter denies count, too. Successful logins do not.
const perAddress = rateLimit({
  name: 'login-address',
  limit: 20,
  window: '15m',
  count: 'attempts',
  skipSuccessfulRequests: true,
  ban: { after: 20, within: '1h', for: '1h', factor: 2, max: '24h' },
});

// Many addresses, one account: guessing a password. There is no ban, because an attacker could ban the owner by failing on purpose. A
// device with an earlier login has a separate quota, which attackers cannot use up.
const perAccount = rateLimit({
  name: 'login-account',
  limit: 5,
  window: '15m',
  keyGenerator: (req) => {
    const device = knownDevice(req);
    return device === undefined ? `account ${emailOf(req)}` : `device ${device} ${emailOf(req)}`;
  },
  skipSuccessfulRequests: true,
});

app.post('/login', perAddress, perAccount, (req, res) => {
  const { password } = Object(req.body) as Partial<Credentials>;
  const email = emailOf(req);
  // In a real application: compare hashes, and return the same answer whether the account exists or not.
  if (password !== 'correct horse') {
    res.status(401).json({ error: 'Wrong e-mail address or password' });
    return;
  }
  const device = knownDevice(req) ?? randomUUID();
  // A real application adds `secure: true`.
  res.cookie('device', `${device}.${proof(device, email)}`, {
    httpOnly: true,
    sameSite: 'lax',
    maxAge: 31_536_000_000,
  });
  res.json({ welcome: email });
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
