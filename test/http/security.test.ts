// The effects of clients' actions in docs/security.md, "Options that a client can abuse" and "Connections", one by one.
import { once } from 'node:events';
import type { Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import express, { type Express } from 'express';
import Fastify from 'fastify';
import { createLimiter, type Decision, type Policy } from 'headgate';
import { rateLimit, type RateLimitOptions } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import request from 'supertest';

const window = '1m';
const LIMIT = { algorithm: 'fixed-window', limit: 2, window } as const;

describe('what a client can force', () => {
  let server: Server | undefined;
  const sockets: Socket[] = [];
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.destroy();
    server?.close();
    server = undefined;
  });

  function appWith(options: RateLimitOptions, settings: Record<string, unknown> = {}): Express {
    const app = express();
    app.set('env', 'test');
    for (const [name, value] of Object.entries(settings)) app.set(name, value);
    app.use(express.json());
    app.use(rateLimit(options));
    app.all('/', (req, res) => void res.status(Number(req.query.status ?? 200)).send('ok'));
    return app;
  }

  type Fields = Record<string, string>;

  /** The statuses of requests with the given fields, sent one after the other. */
  async function statuses(app: Express, all: readonly Fields[], url = '/'): Promise<number[]> {
    const result = [];
    for (const fields of all) result.push((await request(app).get(url).set(fields)).status);
    return result;
  }

  const times = <T>(n: number, make: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i));

  describe('X-Forwarded-For and Forwarded', () => {
    const forged = times(4, (i) => ({
      'X-Forwarded-For': `203.0.113.${i}`,
      Forwarded: `for=203.0.113.${i}`,
    }));

    it('are not read unless a proxy is trusted', async () => {
      expect(await statuses(appWith(LIMIT), forged)).to.deep.equal([200, 200, 429, 429]);
      const app = Fastify();
      await app.register(rateLimitPlugin, LIMIT);
      app.get('/', () => 'ok');
      const answers = [];
      for (const headers of forged) answers.push((await app.inject({ url: '/', headers })).statusCode);
      expect(answers).to.deep.equal([200, 200, 429, 429]);
      await app.close();
    });

    it("give a fresh quota with each request, or another client's quota, if every proxy is trusted", async () => {
      const app = appWith(LIMIT, { 'trust proxy': true });
      expect(await statuses(app, forged)).to.deep.equal([200, 200, 200, 200]);
      const victim = { 'X-Forwarded-For': '198.51.100.1' };
      expect(await statuses(app, [victim, victim, victim])).to.deep.equal([200, 200, 429]);
    });

    it('have no effect if the proxies are counted: the client’s part is before the part that they add', async () => {
      const app = appWith(LIMIT, { 'trust proxy': 1 });
      const fields = times(4, (i) => ({ 'X-Forwarded-For': `203.0.113.${i}, 198.51.100.1` }));
      expect(await statuses(app, fields)).to.deep.equal([200, 200, 429, 429]);
    });

    it('fail the request if a trusted value is not an address', async () => {
      const app = appWith(LIMIT, { 'trust proxy': true });
      for (const ip of ['unknown', '203.0.113.1:80', '010.0.0.1', '::ffff:0x1.2.3.4'])
        expect(await statuses(app, [{ 'X-Forwarded-For': ip }]), ip).to.deep.equal([500]);
    });

    it('Forwarded is never read, even if every proxy is trusted', async () => {
      const app = appWith(LIMIT, { 'trust proxy': true });
      const only = forged.map(({ Forwarded }) => ({ Forwarded }));
      expect(await statuses(app, only)).to.deep.equal([200, 200, 429, 429]);
    });
  });

  describe('keyGenerator', () => {
    const byHeader: RateLimitOptions = { ...LIMIT, keyGenerator: (req) => req.get('x-api-key') };

    it("of unverified values: a fresh quota, another client's, and no limit if undefined is returned", async () => {
      const app = appWith(byHeader);
      const invented = times(4, (i) => ({ 'x-api-key': `k${i}` }));
      expect(await statuses(app, invented)).to.deep.equal([200, 200, 200, 200]);
      const victims = times(3, () => ({ 'x-api-key': 'victim' }));
      expect(await statuses(app, victims)).to.deep.equal([200, 200, 429]);
      expect(
        await statuses(
          app,
          times(4, () => ({})),
        ),
      ).to.deep.equal([200, 200, 200, 200]);
    });

    it('in another spelling is another key', async () => {
      const app = appWith(byHeader);
      const spelt = ['ada', 'Ada', 'ada%20', 'ADA'].map((key) => ({ 'x-api-key': key }));
      expect(await statuses(app, [...spelt, spelt[0]!, spelt[0]!])).to.deep.equal([
        200, 200, 200, 200, 200, 429,
      ]);
    });

    it('from a body that is not text fails the request', async () => {
      const app = appWith({ ...LIMIT, keyGenerator: (req) => (req.body as { email: string }).email });
      for (const email of [['a'], { a: 1 }, 5, null])
        expect((await request(app).post('/').send({ email })).status).to.equal(500);
      for (let i = 0; i < 3; i++) expect((await request(app).post('/').send({})).status).to.equal(200);
    });
  });

  it('skip, allowList: any client can send the values that they check; addresses come from the framework', async () => {
    const fields = times(4, () => ({ 'x-internal': '1', 'x-api-key': 'friend' }));
    const skipping = appWith({ ...LIMIT, skip: (req) => req.get('x-internal') === '1' });
    expect(await statuses(skipping, fields)).to.deep.equal([200, 200, 200, 200]);
    const keyGenerator: RateLimitOptions['keyGenerator'] = (req) => req.get('x-api-key') ?? '';
    const keyed = appWith({ ...LIMIT, keyGenerator, allowList: ['friend'] });
    expect(await statuses(keyed, fields)).to.deep.equal([200, 200, 200, 200]);
    const listed = appWith({ ...LIMIT, keyGenerator, allowList: ['10.0.0.1'] });
    const posing = times(4, () => ({ 'x-api-key': '10.0.0.1', 'X-Forwarded-For': '10.0.0.1' }));
    expect(await statuses(listed, posing)).to.deep.equal([200, 200, 429, 429]);
  });

  it('denyList: a key only denies requests that send it', async () => {
    const keyGenerator: RateLimitOptions['keyGenerator'] = (req) => req.get('x-api-key') ?? '';
    const app = appWith({ ...LIMIT, keyGenerator, denyList: ['banned', '10.0.0.0/8'] });
    const sent = ['banned', 'other', '10.0.0.1'].map((key) => ({ 'x-api-key': key }));
    expect(await statuses(app, sent)).to.deep.equal([403, 200, 200]);
  });

  it('ban by account: limit and `after` requests lock another account out', async () => {
    const ban = { after: 3, for: '1h' } as const;
    const app = appWith({ ...LIMIT, ban, keyGenerator: (req) => req.get('x-account') });
    const attack = times(5, () => ({ 'x-account': 'victim' }));
    expect(await statuses(app, attack)).to.deep.equal([200, 200, 429, 429, 429]);
    const victim = await request(app).get('/').set('x-account', 'victim');
    expect(victim.headers['retry-after']).to.equal('3600');
  });

  it('tiers by a field: at most the quotas of all tiers together', async () => {
    const limits: Readonly<Record<string, number>> = { free: 2, paid: 3, staff: 4 };
    const policies = (req: express.Request): Policy[] => {
      const limit = limits[String(req.get('x-tier'))] ?? 2;
      return [{ algorithm: 'token-bucket', limit, window: '1h' }];
    };
    const app = appWith({ policies });
    const sent = times(60, (i) => ({ 'x-tier': ['free', 'paid', 'staff', 'constructor'][i % 4]! }));
    expect((await statuses(app, sent)).filter((status) => status === 200)).to.have.lengthOf(2 + 3 + 4);
    // Inherited property names are found, too.
    expect(await statuses(app, [{ 'x-tier': 'constructor' }])).to.deep.equal([500]);
    const counts = appWith({
      policies: (req) => [{ ...LIMIT, limit: limits[String(req.get('x-tier'))] ?? 2 }],
    });
    expect((await statuses(counts, sent)).filter((status) => status === 200)).to.have.lengthOf(4);
  });

  it("policies of ever new names: a fresh quota with each, and after 1,000 the others' states", async function () {
    this.timeout(60_000);
    const app = appWith({
      policies: (req) => [{ ...LIMIT, name: req.get('x-name') ?? 'login' }],
    });
    expect(
      await statuses(
        app,
        times(3, () => ({})),
      ),
    ).to.deep.equal([200, 200, 429]);
    const invented = times(1000, (i) => ({ 'x-name': `n${i}` }));
    expect(new Set(await statuses(app, invented))).to.deep.equal(new Set([200]));
    expect(await statuses(app, [{}])).to.deep.equal([200]);
  });

  it('cost: 0 is free, a cost above the limit is denied and charges nothing, an invalid cost fails the request', async () => {
    const app = appWith({ ...LIMIT, cost: (req) => Number(req.get('x-cost')) });
    const cost = (...costs: string[]) =>
      statuses(
        app,
        costs.map((value) => ({ 'x-cost': value })),
      );
    expect(await cost('0', '0', '0')).to.deep.equal([200, 200, 200]);
    expect(await cost('3', '1000000000000')).to.deep.equal([429, 429]);
    expect(await cost('-5', '1.5', 'x', '1e13', 'Infinity')).to.deep.equal([500, 500, 500, 500, 500]);
    expect(await cost('1', '1', '1')).to.deep.equal([200, 200, 429]);
  });

  it('skipFailedRequests: failed requests are free; skipSuccessfulRequests: at most the limit at a time', async () => {
    const failing = appWith({ ...LIMIT, skipFailedRequests: true });
    for (let i = 0; i < 5; i++) {
      expect(await statuses(failing, [{}], '/?status=404')).to.deep.equal([404]);
      await sleep(1);
    }
    const passing = appWith({ ...LIMIT, skipSuccessfulRequests: true });
    for (let i = 0; i < 5; i++) {
      expect(await statuses(passing, [{}])).to.deep.equal([200]);
      await sleep(1);
    }
    const wrong = times(3, () => ({}));
    expect(await statuses(passing, wrong, '/?status=401')).to.deep.equal([401, 401, 429]);
  });

  /** Listens, with a route that never answers. */
  async function listenForever(options: RateLimitOptions): Promise<number> {
    const app = express();
    app.use(rateLimit(options));
    app.get('/', () => {});
    server = app.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  }

  function open(port: number, key: string): Socket {
    const socket = connect(port, '127.0.0.1');
    sockets.push(socket);
    socket.on('error', () => {});
    socket.write(`GET / HTTP/1.1\r\nHost: x\r\nx-key: ${key}\r\n\r\n`);
    return socket;
  }

  async function until(condition: () => Promise<boolean>): Promise<void> {
    while (!(await condition())) await sleep(2);
  }

  it('concurrency: a slot per connection, only of its own key, while it stays open', async () => {
    const limiter = createLimiter({ algorithm: 'concurrency', limit: 2, lease: 1000 });
    const port = await listenForever({ limiter, keyGenerator: (req) => req.get('x-key') });
    const mine = [open(port, 'a'), open(port, 'a')];
    const left = async (key: string) => (await limiter.peek(key)).remaining;
    await until(async () => (await left('a')) === 0);
    // The lease is renewed while the connection is open.
    await sleep(1500);
    expect([await left('a'), await left('b')]).to.deep.equal([0, 2]);
    for (const socket of mine) socket.destroy();
    await until(async () => (await left('a')) === 2);
    await limiter.close();
  });

  it('maxDelay: a held request per connection, up to its own quota; a client that disconnects gives its turn back', async () => {
    const decisions: Decision[] = [];
    const limiter = createLimiter({
      ...{ algorithm: 'leaky-bucket', limit: 1, window: '1h', burst: 1, maxDelay: '2h' },
      onDecision: (decision) => decisions.push(decision),
    });
    const port = await listenForever({ limiter, keyGenerator: (req) => req.get('x-key') });
    const all = times(5, () => open(port, 'a'));
    // The held requests are reported when they end.
    await until(async () => decisions.length === 3);
    expect(decisions.map(({ allowed }) => allowed)).to.deep.equal([true, false, false]);
    expect((await limiter.consume('b')).delayMs).to.equal(0);
    for (const socket of all) socket.destroy();
    const held = async () => (await limiter.peek('a')).allowed;
    await until(held);
    expect(decisions.filter(({ reason }) => reason === 'aborted')).to.have.length(2);
    await limiter.close();
  });
});
