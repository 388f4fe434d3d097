// Twenty tasks, each solved as docs/agents.md says, by a reader who knows nothing else. Each does what it promises at the first try.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { expect } from 'chai';
import express, { type Request } from 'express';
import Fastify from 'fastify';
import { createLimiter, memoryStore, parsePolicy } from 'headgate';
import { rateLimited } from 'headgate/decorators';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { limitFetch } from 'headgate/fetch';
import { clientKey } from 'headgate/http';
import { TestClock } from 'headgate/testing';
import { rateLimit as webLimit } from 'headgate/web';
import request from 'supertest';

interface AuthenticatedRequest extends Request {
  user?: { id: string; plan: 'free' | 'pro' };
}

/** Statuses of requests that are sent one after the other. */
async function statuses(count: number, send: (i: number) => Promise<{ status: number }>): Promise<number[]> {
  const found: number[] = [];
  for (let i = 0; i < count; i++) found.push((await send(i)).status);
  return found;
}

/** An application whose authentication believes the field `x-user`. */
function appOf(handler: express.RequestHandler): express.Express {
  const app = express();
  app.set('trust proxy', 1);
  app.use(express.json());
  app.use((req: AuthenticatedRequest, _res, next) => {
    const id = req.get('x-user');
    if (id !== undefined) req.user = { id, plan: id === 'rich' ? 'pro' : 'free' };
    next();
  });
  app.post('/login', handler, (_req, res) => void res.sendStatus(401));
  app.get('/', handler, (_req, res) => void res.send('ok'));
  return app;
}

describe('twenty tasks of a coding agent', () => {
  it('1. Express: by account, visitors by address', async () => {
    const limit = rateLimit({
      ...{ limit: 2, window: '1m' },
      keyGenerator: (req: AuthenticatedRequest) => req.user?.id ?? clientKey(req.ip),
    });
    const app = appOf(limit);
    expect(await statuses(3, () => request(app).get('/').set('x-user', 'ada'))).to.deep.equal([
      200, 200, 429,
    ]);
    expect(await statuses(3, () => request(app).get('/'))).to.deep.equal([200, 200, 429]);
  });

  it('2. Fastify behind one proxy: each client has a quota', async () => {
    const fastify = Fastify({ trustProxy: (_address, hop) => hop < 1 });
    await fastify.register(rateLimitPlugin, { limit: 1, window: '1m' });
    fastify.get('/', () => 'ok');
    const of = (address: string) => fastify.inject({ url: '/', headers: { 'x-forwarded-for': address } });
    const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.1', '9.9.9.9, 192.0.2.2'];
    const found: number[] = [];
    for (const address of addresses) found.push((await of(address)).statusCode);
    expect(found).to.deep.equal([200, 200, 429, 429]);
    await fastify.close();
  });

  it('3. Next.js: a route handler', async () => {
    const limit = webLimit({ limit: 1, window: '1m', clientIp: (r) => r.headers.get('x-real-ip') });
    const GET = limit(() => Response.json({ hello: 'world' }));
    const send = () =>
      Promise.resolve(GET(new Request('http://a/', { headers: { 'x-real-ip': '192.0.2.1' } })));
    expect(await statuses(2, send)).to.deep.equal([200, 429]);
  });

  it('4. A login: guesses are bounded by account and address, known devices stay in, and odd bodies answer no 500', async () => {
    const accountOf = ({ body }: Request): string => {
      const { email } = Object(body) as { email?: unknown };
      return typeof email === 'string' ? email.slice(0, 254).toLowerCase() : '';
    };
    const sign = (text: string): string => createHmac('sha256', 'a secret').update(text).digest('hex');
    const deviceOf = (req: Request): string | undefined => {
      const [, id, proof = ''] = /(?:^|; )device=([\w-]+)\.(\w{64})/.exec(req.headers.cookie ?? '') ?? [];
      const device = `${id} ${accountOf(req)}`;
      return id && timingSafeEqual(Buffer.from(proof), Buffer.from(sign(device))) ? device : undefined;
    };
    const make = () =>
      appOf(
        rateLimit({
          policies: ['address=20/15m attempts', 'account=5/15m by account', 'device=5/15m by device'],
          keyGenerator: (req) => clientKey(req.ip),
          keys: { account: (req) => (deviceOf(req) ? undefined : accountOf(req)), device: deviceOf },
          ban: { after: 20, within: '1h', for: '1h' },
          skipSuccessfulRequests: true,
        }),
      );
    const app = make();
    const guess = (email: unknown, address: string, cookie = '') =>
      request(app).post('/login').set('x-forwarded-for', address).set('cookie', cookie).send({ email });
    const many = await statuses(20, (i) => guess('ada@example.com', `192.0.2.${i}`));
    expect(many.filter((status) => status === 401)).to.have.length(5);
    const proof = sign('phone ada@example.com');
    const known = await statuses(20, (i) =>
      guess('ada@example.com', `203.0.113.${i}`, `a=1; device=phone.${proof}`),
    );
    expect(known.filter((status) => status === 401)).to.have.length(5);
    const forged = guess('ada@example.com', '192.0.2.99', `device=phone.${proof.replace(/^./, 'x')}`);
    expect((await forged).status).to.equal(429);
    const spread = await statuses(40, (i) => guess(`user${i}@example.com`, '198.51.100.1'));
    expect(spread.filter((status) => status === 401)).to.have.length(20);
    expect((await guess({ odd: 1 }, '203.0.113.99')).status).to.equal(401);
    expect((await request(make()).post('/login')).status).to.equal(401);
  });

  it('5. Tokens of a model: reserve, then settle', async () => {
    const limiter = createLimiter({ policies: ['requests=60/1m', 'tokens=1000/1m'] });
    const decision = await limiter.consume('ada', { cost: { tokens: 800 } });
    expect(decision.allowed).to.equal(true);
    await decision.settle({ tokens: 523 });
    const { policies } = await limiter.usage('ada');
    expect(policies.map(({ name, used }) => [name, used])).to.deep.equal([
      ['requests', 1],
      ['tokens', 523],
    ]);
  });

  it('6. A job without HTTP', async () => {
    const limiter = createLimiter({ name: 'mails', limit: 1, window: '1h' });
    await limiter.consume('user:42');
    const decision = await limiter.consume('user:42');
    expect(decision.allowed).to.equal(false);
    expect(decision.retryAfterMs).to.be.above(0);
    await limiter.close();
  });

  it('7. A partner at 50 a second', async () => {
    const call = limitFetch(() => Promise.resolve(new Response('ok')), { policies: '50/1s', timeout: '30s' });
    expect((await call('http://partner.example/')).status).to.equal(200);
  });

  it('8. Plans, and ten times as much for one customer', async () => {
    const limit = rateLimit({
      tiers: { free: '1/1m', pro: 'unlimited' },
      tier: (req: AuthenticatedRequest) => req.user?.plan ?? 'free',
      keyGenerator: (req: AuthenticatedRequest) => req.user?.id ?? clientKey(req.ip),
      overrides: true,
    });
    const app = appOf(limit);
    const of = (user: string) => () => request(app).get('/').set('x-user', user);
    expect(await statuses(3, of('rich'))).to.deep.equal([200, 200, 200]);
    expect(await statuses(2, of('ada'))).to.deep.equal([200, 429]);
    await limit.limiter.override('ada', { tier: 'pro' }, { for: '1d', by: 'ada', reason: 'launch' });
    expect(await statuses(2, of('ada'))).to.deep.equal([200, 200]);
    expect(await statuses(1, () => request(app).get('/'))).to.deep.equal([200]);
  });

  it('9. A test with a clock', async () => {
    const clock = new TestClock();
    const store = memoryStore({ clock: clock.read });
    const limiter = createLimiter({ store, algorithm: 'fixed-window', limit: 1, window: '1m' });
    await limiter.consume('ada');
    clock.advance('1m');
    expect((await limiter.consume('ada')).allowed).to.equal(true);
  });

  it('10. One of two slots, given back', async () => {
    const limiter = createLimiter({ policies: 'concurrency 1/30s' });
    {
      await using slot = await limiter.acquire('ada');
      expect(slot.allowed).to.equal(true);
      expect((await limiter.acquire('ada')).allowed).to.equal(false);
    }
    expect((await limiter.acquire('ada')).allowed).to.equal(true);
  });

  it('11. Waiting, with a time limit', async () => {
    const limiter = createLimiter({ limit: 1, window: '1h' });
    await limiter.wait('ada', { timeout: '10ms' });
    const error = await limiter.wait('ada', { timeout: '10ms' }).catch((thrown: unknown) => thrown);
    expect(error).to.have.property('code', 'HEADGATE_WAIT_TIMEOUT');
  });

  it('12. An event at 80 %, once', async () => {
    const events: number[] = [];
    const limiter = createLimiter({
      policies: '10/1h thresholds 80% 100%',
      onThreshold: ({ threshold }) => events.push(threshold),
    });
    for (let i = 0; i < 12; i++) await limiter.consume('ada');
    expect(events).to.deep.equal([0.8, 1]);
  });

  it('13. A repeated request counts once', async () => {
    const limiter = createLimiter({ limit: 10, window: '1m' });
    await limiter.consume('ada', { id: 'order-7' });
    const { repeated, remaining } = await limiter.consume('ada', { id: 'order-7' });
    expect([repeated, remaining]).to.deep.equal([true, 9]);
  });

  it('14. A ban, and its end with the charges', async () => {
    const limiter = createLimiter({ limit: 1, window: '1m', ban: {} });
    await limiter.consume('ada');
    await limiter.ban('ada', '1h');
    expect((await limiter.consume('ada')).reason).to.equal('banned');
    await limiter.unban('ada', { fresh: true });
    expect((await limiter.consume('ada')).allowed).to.equal(true);
  });

  it('15. A quota per month, as text and as options', async () => {
    expect(parsePolicy('calendar 10000/month Europe/Berlin anchor 15')).to.include({
      period: 'month',
      anchor: 15,
    });
    const limiter = createLimiter({ algorithm: 'calendar', limit: 2, period: 'month' });
    expect((await limiter.consume('ada')).remaining).to.equal(1);
  });

  it('16. Tenants share one limit', async () => {
    const limiter = createLimiter({ policies: '10/1m by provider share tenant' });
    const decision = await limiter.consume({ provider: 'openai', tenant: 'acme' }, { weight: 5 });
    expect(decision.policies[0]!.share).to.be.a('number');
  });

  it('17. Address and account in one step', async () => {
    const limiter = createLimiter({ policies: ['address=3/1m', 'account=1/1m by account'] });
    const of = (account: string) => limiter.consume({ key: '192.0.2.1', account });
    const found = [await of('ada'), await of('ada'), await of('bob'), await of('eve')];
    expect(found.map(({ allowed }) => allowed)).to.deep.equal([true, false, true, true]);
  });

  it('18. A limited function', async () => {
    const geocode = rateLimited((address: string) => Promise.resolve({ address }), {
      limit: 1,
      window: '1h',
    });
    await geocode('a');
    const error = await geocode('b').catch((thrown: unknown) => thrown);
    expect(error).to.have.property('code', 'HEADGATE_DENIED');
  });

  it('19. Another response, and other fields', async () => {
    const handler = (_req: Request, res: express.Response) => void res.json({ error: 'Slow down' });
    const app = appOf(rateLimit({ limit: 1, window: '1m', headers: 'legacy', handler }));
    await request(app).get('/');
    const answer = await request(app).get('/');
    expect(answer.status).to.equal(429);
    expect(answer.body).to.deep.equal({ error: 'Slow down' });
    expect(answer.headers).to.have.property('x-ratelimit-limit', '1');
  });

  it('20. A limit that is only tried', async () => {
    const reasons: unknown[] = [];
    const onDecision = ({ reason }: { reason?: unknown }) => reasons.push(reason);
    const app = appOf(rateLimit({ limit: 1, window: '1m', shadow: true, onDecision }));
    expect(await statuses(2, () => request(app).get('/'))).to.deep.equal([200, 200]);
    expect(reasons).to.deep.equal([undefined, 'quota-exceeded']);
  });
});
