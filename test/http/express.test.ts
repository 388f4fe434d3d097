// Features of Express alone: stacks of middleware, routers.
import { expect } from 'chai';
import express5 from 'express';
import express4 from 'express4';
import { memoryStore, type HeadgateError } from 'headgate';
import rateLimitDefault, { rateLimit } from 'headgate/express';
import request from 'supertest';

const window = '1m';

for (const [version, express] of Object.entries({ 4: express4 as unknown as typeof express5, 5: express5 })) {
  describe(`the middleware on Express ${version}`, () => {
    const ok: express5.RequestHandler = (_req, res) => void res.send('ok');

    async function statuses(n: number, app: express5.Express, url = '/') {
      const result: number[] = [];
      for (let i = 0; i < n; i++) result.push((await request(app).get(url)).status);
      return result;
    }

    it('limits an application, a router, a route', async () => {
      const app = express();
      app.use(rateLimit({ limit: 6, window }));
      const router = express.Router();
      router.use(rateLimit({ limit: 4, window }));
      router.get('/route', rateLimit({ limit: 2, window }), ok);
      router.get('/', ok);
      app.use('/router', router);
      app.get('/', ok);
      expect(await statuses(3, app, '/router/route')).to.deep.equal([200, 200, 429]);
      expect(await statuses(3, app, '/router')).to.deep.equal([200, 200, 429]);
      expect(await statuses(3, app)).to.deep.equal([200, 200, 429]);
    });

    it('limits requests whose URL Express refuses, like any others', async () => {
      const app = express();
      app.set('env', 'test');
      app.use(rateLimit({ limit: 2, window }));
      app.get('/items/:id', ok);
      expect(await statuses(3, app, '/items/%zz')).to.deep.equal([400, 400, 429]);
    });

    it('separates limiters without names: of an application, of nested routers, and of a route', async () => {
      const app = express();
      const [outer, inner] = [express.Router(), express.Router()];
      app.use(rateLimit({ limit: 9, window }));
      outer.use(rateLimit({ limit: 8, window }));
      inner.use(rateLimit({ limit: 7, window }));
      inner.get('/', rateLimit({ limit: 1, window, algorithm: 'fixed-window' }), ok);
      app.use('/outer', outer.use('/inner', inner));
      const url = '/outer/inner';
      const policy = '"default";q=9;w=60, "default-2";q=8;w=60, "default-3";q=7;w=60, "default-4";q=1;w=60';
      const items = '"default";r=8;t=60, "default-2";r=7;t=60, "default-3";r=6;t=60, "default-4";r=0;t=60';
      const first = await request(app).get(url);
      expect(first.headers['ratelimit-policy']).to.equal(policy);
      expect(String(first.headers['ratelimit']).replaceAll(/t=\d+/g, 't=60')).to.equal(items);
      const denied = await request(app).get(url);
      expect(denied.headers['ratelimit-policy']).to.equal(policy);
      const { 'violated-policies': violated } = JSON.parse(denied.text) as Record<string, unknown>;
      expect(violated).to.deep.equal(['default-4']);
    });

    it('charges a request once, however often it passes the same middleware', async () => {
      const app = express();
      const limit = rateLimit({ limit: 2, window });
      app.use(limit);
      app.use('/', limit);
      app.get('/', limit, ok);
      expect(await statuses(3, app)).to.deep.equal([200, 200, 429]);
    });

    it('calls next in the same turn of the event loop with the memory store, also after sync callbacks', async () => {
      const app = express();
      const order: string[] = [];
      const limit = rateLimit({
        policies: () => [{ limit: 1, window }],
        keyGenerator: (req) => req.ip,
        cost: () => 1,
        skip: () => false,
        allowList: () => false,
        denyList: [],
        skipFailedRequests: true,
      });
      app.use((req, res, next) => {
        limit(req, res, () => {
          order.push('limited');
          next();
        });
        order.push('returned');
      });
      app.get('/', ok);
      await request(app).get('/');
      expect(order).to.deep.equal(['limited', 'returned']);
    });

    it('sends the headers of other middleware with a denial, too, and stops the request', async () => {
      const app = express();
      let passed = 0;
      app.use((_req, res, next) => {
        res.setHeader('Access-Control-Allow-Origin', '*');
        next();
      });
      app.use(rateLimit({ limit: 1, window }));
      app.use((_req, _res, next) => {
        passed++;
        next();
      });
      app.get('/', ok);
      await request(app).get('/');
      const denied = await request(app).get('/');
      expect(denied.status).to.equal(429);
      expect(denied.headers).to.include({ 'access-control-allow-origin': '*' });
      expect(denied.body).to.include({ title: 'Quota Exceeded' });
      expect(passed).to.equal(1);
    });

    it('leaves req.rateLimit undefined for requests that are not limited', async () => {
      const app = express();
      app.use(rateLimit({ limit: 1, window, keyGenerator: () => undefined }));
      app.get('/', (req, res) => void res.json({ decision: req.rateLimit ?? 'none' }));
      expect((await request(app).get('/')).body).to.deep.equal({ decision: 'none' });
    });

    it('keeps the last decision as req.rateLimit, even after its app', async () => {
      const app = express();
      const inner = express();
      app.use(rateLimit({ name: 'outer', limit: 5, window }));
      inner.use(rateLimit({ name: 'inner', limit: 3, window }));
      app.use('/inner', inner);
      app.use((req, res) => void res.json({ limit: req.rateLimit?.limit }));
      expect((await request(app).get('/inner')).body).to.deep.equal({ limit: 3 });
      expect((await request(app).get('/')).body).to.deep.equal({ limit: 5 });
    });

    it('replaces a value that others have set as req.rateLimit, and can be replaced', async () => {
      const app = express();
      const set: (value: string) => express5.RequestHandler = (value) => (req, _res, next) => {
        (req as { rateLimit?: unknown }).rateLimit = value;
        next();
      };
      const show: express5.RequestHandler = (req, res) => void res.json(req.rateLimit);
      const limit = rateLimit({ limit: 100, window });
      app.get('/before', set('before'), limit, show);
      app.get('/after', limit, set('after'), show);
      for (let i = 0; i < 2; i++) {
        expect((await request(app).get('/before')).body).to.include({ limit: 100 });
        expect((await request(app).get('/after')).body).to.equal('after');
      }
    });

    it('limits requests of other servers, too', () => {
      const limit = rateLimit({ limit: 1, window });
      const req = { ip: '192.0.2.1', headers: {} } as express5.Request;
      const res = { setHeader: () => {}, getHeader: () => undefined } as unknown as express5.Response;
      limit(req, res, (error) => expect(error).to.equal(undefined));
      expect(req.rateLimit).to.include({ allowed: true, key: '192.0.2.1' });
    });

    it('goes on without header fields if the response has begun', async () => {
      const app = express();
      app.use((_req, res, next) => {
        res.writeHead(200);
        next();
      });
      app.use(rateLimit({ limit: 1, window }));
      app.use((_req, res) => void res.end('ok'));
      const response = await request(app).get('/');
      expect(response.text).to.equal('ok');
      expect(response.headers).not.to.have.any.keys('ratelimit', 'ratelimit-limit');
    });

    describe('by req.ip', () => {
      const forwarded = async (app: express5.Express) => {
        app.use(rateLimit({ limit: 100, window }));
        app.get('/', (req, res) => void res.json([req.rateLimit?.key, req.ip]));
        const response = await request(app).get('/').set('X-Forwarded-For', '192.0.2.1, 192.0.2.2');
        return response.body as string[];
      };

      for (const [trusted, expected] of [
        [undefined, /^(::ffff:)?127\.0\.0\.1$/],
        [false, /^(::ffff:)?127\.0\.0\.1$/],
        [true, /^192\.0\.2\.1$/],
        [1, /^192\.0\.2\.2$/],
        ['loopback', /^192\.0\.2\.2$/],
        [(address: string) => address !== '192.0.2.1', /^192\.0\.2\.1$/],
      ] as const) {
        it(`with trust proxy ${String(trusted)}`, async () => {
          const app = express();
          if (trusted !== undefined) app.set('trust proxy', trusted);
          const [key, ip] = await forwarded(app);
          expect(ip).to.match(expected);
          expect(key).to.equal(ip?.replace('::ffff:', ''));
        });
      }

      it('with the proxies that the parent app trusts', async () => {
        const app = express();
        app.set('trust proxy', true);
        const inner = express();
        app.use(inner);
        await forwarded(inner);
        const response = await request(app).get('/').set('X-Forwarded-For', '192.0.2.1');
        expect(response.body).to.deep.equal(['192.0.2.1', '192.0.2.1']);
      });

      it('as a middleware defines it on the request', async () => {
        const app = express();
        app.use((req, _res, next) => {
          Object.defineProperty(req, 'ip', { value: '192.0.2.3' });
          next();
        });
        expect(await forwarded(app)).to.deep.equal(['192.0.2.3', '192.0.2.3']);
      });

      it('as the app defines it for all its requests', async () => {
        const app = express();
        Object.defineProperty(app.request, 'ip', { get: () => '192.0.2.4' });
        expect(await forwarded(app)).to.deep.equal(['192.0.2.4', '192.0.2.4']);
      });
    });
  });
}

describe('two Express limiters on one store', () => {
  const code = (action: () => unknown) => {
    try {
      action();
    } catch (error) {
      return (error as HeadgateError).code;
    }
    return 'no error';
  };

  it('without names are refused', () => {
    const store = memoryStore();
    rateLimit({ store, limit: 1, window });
    expect(code(() => rateLimit({ store, limit: 1, window }))).to.equal('HEADGATE_NAME_REQUIRED');
    expect(code(() => rateLimit({ store, policies: () => [] }))).to.equal('HEADGATE_NAME_REQUIRED');
    expect(code(() => rateLimit({ store, name: 'search', limit: 1, window }))).to.equal('no error');
  });

  it('of one name share their quota, and must agree on it', async () => {
    const store = memoryStore();
    const app = express5();
    app.get('/a', rateLimit({ store, name: 'group', limit: 2, window }), (_req, res) => void res.send());
    app.get('/b', rateLimit({ store, name: 'group', limit: 2, window }), (_req, res) => void res.send());
    expect((await request(app).get('/a')).status).to.equal(200);
    expect((await request(app).get('/b')).status).to.equal(200);
    expect((await request(app).get('/a')).status).to.equal(429);
    const other = () => rateLimit({ store, name: 'group', limit: 3, window });
    expect(code(other)).to.equal('HEADGATE_POLICY_MISMATCH');
    // Tiers are known only with each request, so they differ from a fixed policy.
    const tiers = () => rateLimit({ store, name: 'group', policies: () => [{ limit: 2, window }] });
    expect(code(tiers)).to.equal('HEADGATE_POLICY_MISMATCH');
  });

  it('takes the mocked requests of test tools, whatever their app is', () => {
    for (const app of [{ get: () => false }, { get: () => undefined }, {}, { get: 'all' }, undefined]) {
      let passed = false;
      const [req, res] = [
        { app, ip: '192.0.2.1', headers: {} },
        { setHeader() {}, getHeader() {} },
      ];
      const limit = rateLimit({ limit: 1, window });
      limit(req as never, res as never, (error?: unknown) => void (passed = error === undefined));
      expect(passed, String(app?.get)).to.equal(true);
    }
  });

  it('is the default export, too', () => {
    expect(rateLimitDefault).to.equal(rateLimit);
  });
});
