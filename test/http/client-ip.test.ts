// The client's address from the option `clientIp`, for keys, lists and bans alike; and values that user functions throw.
import { expect } from 'chai';
import express5, { type ErrorRequestHandler } from 'express';
import express4 from 'express4';
import Fastify from 'fastify';
import type { HeadgateError } from 'headgate';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { rateLimit as honoLimit } from 'headgate/hono';
import { rateLimit as webLimit } from 'headgate/web';
import { Hono } from 'hono';
import request from 'supertest';

/** Options whose functions get a request with header fields, in any framework. */
type Options = Record<string, unknown>;

type Ask = (fields?: Record<string, string>) => Promise<{ status: number; body: { code?: string } }>;

const frameworks: Record<string, (options: Options) => Promise<Ask>> = {};
for (const [name, express] of Object.entries({
  'Express 4': express4 as unknown as typeof express5,
  'Express 5': express5,
}))
  frameworks[name] = async (options) => {
    const app = express();
    app.use(rateLimit({ warnings: false, ...options } as never));
    app.get('/', (_req, res) => void res.json({}));
    const fail: ErrorRequestHandler = (error: HeadgateError, _req, res, _next) =>
      void res.status(500).json({ code: error.code });
    app.use(fail);
    return async (fields = {}) => {
      const answer = await request(app).get('/').set(fields);
      return { status: answer.status, body: answer.body as { code?: string } };
    };
  };
frameworks['Fastify'] = async (options) => {
  const app = Fastify();
  await app.register(rateLimitPlugin, { warnings: false, ...options } as never);
  app.setErrorHandler((error: HeadgateError, _request, reply) => reply.code(500).send({ code: error.code }));
  app.get('/', () => ({}));
  return async (headers = {}) => {
    const answer = await app.inject({ url: '/', headers });
    return { status: answer.statusCode, body: answer.json<{ code?: string }>() };
  };
};

const header = ({ headers }: { headers: Record<string, string | undefined> }) => headers['cf-connecting-ip'];
const from = (ip: string) => ({ 'cf-connecting-ip': ip });

for (const [name, serve] of Object.entries(frameworks)) {
  describe(`the identity of the client, on ${name}`, () => {
    for (const [kind, clientIp] of Object.entries({
      'at once': header,
      later: async (req: never) => header(req),
    })) {
      it(`by clientIp, ${kind}: keys, lists and bans use it`, async () => {
        const ask = await serve({
          ...{ limit: 1, window: '1m', clientIp, ban: { after: 2, within: '1m', for: '1h' } },
          allowList: ['198.51.100.0/24'],
          denyList: ['2001:db8:bad::/48'],
        });
        const statuses = async (ip: string, n: number) => {
          const all: number[] = [];
          for (let i = 0; i < n; i++) all.push((await ask(from(ip))).status);
          return all;
        };
        expect(await statuses('203.0.113.1', 2)).to.deep.equal([200, 429]);
        expect(await statuses('203.0.113.2', 1)).to.deep.equal([200]);
        expect(await statuses('198.51.100.9', 3)).to.deep.equal([200, 200, 200]);
        expect(await statuses('2001:db8:bad::1', 1)).to.deep.equal([403]);
        // A network of IPv6 addresses is one client, in any notation.
        expect(await statuses('2001:db8::1', 1)).to.deep.equal([200]);
        expect(await statuses('2001:0db8:0::ff', 1)).to.deep.equal([429]);
        // The client is unknown.
        expect(await ask()).to.deep.include({ status: 500, body: { code: 'HEADGATE_NO_CLIENT_IP' } });
      });
    }

    it('with a keyGenerator, lists still use clientIp, and a request without an address is on no list', async () => {
      const ask = await serve({
        ...{ limit: 1, window: '1m', clientIp: header, keyGenerator: () => 'all' },
        denyList: ['203.0.113.0/24'],
      });
      expect((await ask(from('203.0.113.1'))).status).to.equal(403);
      expect((await ask()).status).to.equal(200);
      expect((await ask(from('192.0.2.1'))).status).to.equal(429);
    });

    it('null is no address, and anything but a text is refused, also beside lists', async () => {
      const lists = { denyList: ['203.0.113.0/24'], allowList: ['198.51.100.0/24', 'all'] };
      const known = { ...lists, keyGenerator: () => 'all', limit: 1, window: '1m' };
      for (const none of [null, undefined]) {
        const ask = await serve({ ...known, clientIp: () => none });
        expect([(await ask()).status, (await ask()).status]).to.deep.equal([200, 200]);
        const { body } = await (await serve({ ...lists, clientIp: () => none }))();
        expect(body.code).to.equal('HEADGATE_NO_CLIENT_IP');
      }
      for (const clientIp of [() => ['203.0.113.1'], async () => 5]) {
        const { body } = await (await serve({ ...known, clientIp }))();
        expect(body.code).to.equal('HEADGATE_NO_CLIENT_IP');
      }
    });

    it('must be a function', async () => {
      const error = await serve({ limit: 1, window: '1m', clientIp: 'cf-connecting-ip' }).catch(
        (e: unknown) => e,
      );
      expect(error).to.include({ code: 'HEADGATE_INVALID_OPTION' });
    });

    const values = [undefined, null, 0, '', false, 'route', 'router', { status: 400 }];
    for (const option of [
      'keyGenerator',
      'clientIp',
      'cost',
      'skip',
      'allowList',
      'denyList',
      'policies',
      'tier',
    ])
      it(`whatever ${option} throws, the request fails`, async () => {
        const tiers = option === 'tier' ? { tiers: { a: '5/1m' } } : {};
        const quota = option === 'policies' ? {} : { limit: 100, window: '1m' };
        for (const value of values) {
          for (const thrower of [
            () => {
              // eslint-disable-next-line @typescript-eslint/only-throw-error -- the subject of the test
              throw value;
            },
            // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- likewise
            async () => Promise.reject(value),
          ]) {
            const ask = await serve({ ...quota, ...tiers, [option]: thrower });
            const { status, body } = await ask();
            expect([status, body.code], `${option}: ${JSON.stringify(value)}`).to.deep.equal([
              500,
              'HEADGATE_INVALID_ARGUMENT',
            ]);
          }
        }
      });
  });
}

describe('limiters of one name on Fastify', () => {
  it('share their quota even without a store', async () => {
    const app = Fastify();
    await app.register(rateLimitPlugin, { global: false, warnings: false });
    const reports = { name: 'reports', limit: 10, window: '1m' };
    for (const path of ['/daily', '/weekly']) app.get(path, { config: { rateLimit: reports } }, () => path);
    const statuses: number[] = [];
    for (let i = 0; i < 20; i++)
      statuses.push((await app.inject({ url: i % 2 === 0 ? '/daily' : '/weekly' })).statusCode);
    expect(statuses.filter((status) => status === 200)).to.have.length(10);
    await app.close();
  });

  it('and must have equal policies', async () => {
    const app = Fastify();
    await app.register(rateLimitPlugin, { global: false, warnings: false });
    const limited = (limit: number) => ({ config: { rateLimit: { name: 'reports', limit, window: '1m' } } });
    app.get('/daily', limited(10), () => 'daily');
    expect(() => app.get('/yearly', limited(20), () => 'yearly')).to.throw(/reports/);
    await app.close();
  });
});

describe('the address from a platform', () => {
  const requestIP = (): { address: string } => ({ address: '192.0.2.7' });
  const bun = {
    tells: requestIP,
    requestIP(this: { tells: typeof requestIP }) {
      return this.tells();
    },
  };
  const platforms: Record<string, unknown> = {
    'Deno’s info': { remoteAddr: { hostname: '192.0.2.7', port: 5000, transport: 'tcp' } },
    'Bun’s server': bun,
    'Bun’s server, as a property': { server: bun },
  };
  for (const [name, info] of Object.entries(platforms)) {
    it(`is the key: ${name}`, async () => {
      const keys: string[] = [];
      const options = {
        limit: 5,
        window: '1m',
        onDecision: ({ key }: { key: string }) => void keys.push(key),
      };
      const app = new Hono();
      app.use(honoLimit(options));
      app.get('/', (c) => c.text('found'));
      const limit = webLimit(options);
      const handler = limit((_request: Request, _info: unknown) => new Response('found'));
      const of = () => new Request('http://127.0.0.1/');
      const answers = [await app.fetch(of(), info), await handler(of(), info)];
      expect(answers.map(({ status }) => status)).to.deep.equal([200, 200]);
      expect(keys).to.deep.equal(['192.0.2.7', '192.0.2.7']);
    });
  }
});
