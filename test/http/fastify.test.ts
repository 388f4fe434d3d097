// Features of Fastify alone: contexts, route options, hooks, the 404 handler.
import { once } from 'node:events';
import { connect, constants, type IncomingHttpHeaders } from 'node:http2';
import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import Fastify, { type FastifyInstance, type InjectOptions } from 'fastify';
import { createLimiter, HeadgateError, memoryStore, type Store } from 'headgate';
import { clientKey, denial } from 'headgate/http';
import rateLimitDefault, { rateLimitPlugin, type RateLimitOptions } from 'headgate/fastify';
import { codeOf } from '../support/errors.js';

const window = '1m';
const ok = () => 'ok';

describe('the Fastify plugin', () => {
  let app: FastifyInstance;
  let store: Store;

  beforeEach(() => {
    app = Fastify();
    store = memoryStore();
  });
  afterEach(() => app.close());

  async function statuses(n: number, request: InjectOptions | string, to = app) {
    const result: number[] = [];
    for (let i = 0; i < n; i++) result.push((await to.inject(request)).statusCode);
    return result;
  }

  const post = (url: string): InjectOptions => ({ method: 'POST', url });

  it('is the default export, too', () => {
    expect(rateLimitDefault).to.equal(rateLimitPlugin);
  });

  describe('global', () => {
    it('limits all routes together, and 404s', async () => {
      await app.register(rateLimitPlugin, { limit: 3, window });
      app.get('/a', ok);
      app.get('/b', ok);
      expect(await statuses(1, '/a')).to.deep.equal([200]);
      expect(await statuses(1, '/b')).to.deep.equal([200]);
      expect(await statuses(2, '/nowhere')).to.deep.equal([404, 429]);
    });

    it('limits routes that were declared before the plugin was loaded', async () => {
      app.get('/early', ok);
      void app.register(rateLimitPlugin, { limit: 1, window });
      app.get('/still-early', ok);
      app.get('/own', { config: { rateLimit: { limit: 2, window } } }, ok);
      app.get('/free', { config: { rateLimit: false } }, ok);
      expect(await statuses(1, '/early')).to.deep.equal([200]);
      expect(await statuses(1, '/still-early')).to.deep.equal([429]);
      expect(await statuses(3, '/own')).to.deep.equal([200, 200, 429]);
      expect(await statuses(3, '/free')).to.deep.equal([200, 200, 200]);
    });

    it('off: limits only routes with limits of their own', async () => {
      await app.register(rateLimitPlugin, { global: false });
      app.get('/', ok);
      app.get('/own', { config: { rateLimit: { limit: 1, window } } }, ok);
      expect(await statuses(2, '/')).to.deep.equal([200, 200]);
      expect(await statuses(2, '/own')).to.deep.equal([200, 429]);
      expect(await statuses(2, '/nowhere')).to.deep.equal([404, 404]);
    });

    it('off, with a quota: applies to the routes that use it', async () => {
      await app.register(rateLimitPlugin, { global: false, limit: 2, window });
      app.get('/', ok);
      app.get('/a', { config: { rateLimit: {} } }, ok);
      app.get('/b', { config: { rateLimit: {} } }, ok);
      expect(await statuses(3, '/')).to.deep.equal([200, 200, 200]);
      expect(await statuses(2, '/a')).to.deep.equal([200, 200]);
      expect(await statuses(1, '/b')).to.deep.equal([429]);
    });

    it('a route chooses among the tiers of the plugin, or has its own policies', async () => {
      await app.register(rateLimitPlugin, { tiers: { free: '1/1m', pro: '3/1m' }, tier: 'free' });
      app.get('/free', ok);
      app.get('/pro', { config: { rateLimit: { tier: () => 'pro' } } }, ok);
      app.get('/own', { config: { rateLimit: '2/1m' } }, ok);
      app.get('/other', { config: { rateLimit: { tiers: { a: '1/1m' }, tier: 'a' } } }, ok);
      expect(await statuses(2, '/free')).to.deep.equal([200, 429]);
      expect(await statuses(3, '/pro')).to.deep.equal([200, 200, 429]);
      expect(await statuses(3, '/own')).to.deep.equal([200, 200, 429]);
      expect(await statuses(2, '/other')).to.deep.equal([200, 429]);
    });

    it('charges a request that ends in the 404 handler once', async () => {
      await app.register(rateLimitPlugin, { limit: 2, window, hook: 'preHandler' });
      app.get('/', (_request, reply) => void reply.callNotFound());
      expect(await statuses(3, '/')).to.deep.equal([404, 404, 429]);
    });

    it('lets a `handler` that returns its reply answer later', async () => {
      const handler: RateLimitOptions['handler'] = (_request, reply) => {
        void setImmediate().then(() => reply.send('later'));
        return reply;
      };
      await app.register(rateLimitPlugin, { limit: 1, window, handler });
      app.get('/', ok);
      expect(await statuses(1, '/')).to.deep.equal([200]);
      expect(await app.inject('/')).to.include({ statusCode: 429, body: 'later' });
    });

    /** URLs that Fastify answers before any hook, as in docs/security.md. */
    const malformed = ['/%', '/items/%zz', `/items/${'x'.repeat(101)}`];

    it('does not see URLs that Fastify itself refuses', async () => {
      await app.register(rateLimitPlugin, { limit: 1, window });
      app.get('/items/:id', ok);
      for (const url of malformed) {
        const { statusCode, headers } = await app.inject(url);
        expect(statusCode).to.equal(url.length > 100 ? 414 : 400);
        expect(headers).to.not.have.property('ratelimit');
      }
      expect(await statuses(2, '/items/1')).to.deep.equal([200, 429]);
    });

    it('shares a limiter with `frameworkErrors`, which gets them', async () => {
      const limiter = createLimiter({ limit: 3, window });
      const guarded = Fastify({
        frameworkErrors: (error, request, reply) => {
          void limiter.consume(clientKey(request.ip)).then((decision) => {
            const refusal = { status: error.statusCode ?? 400, headers: {}, body: error.message };
            const { status, headers, body } = decision.allowed ? refusal : denial(decision);
            reply.hijack().raw.writeHead(status, headers).end(body);
          });
        },
      });
      await guarded.register(rateLimitPlugin, { limiter });
      guarded.get('/items/:id', ok);
      const answers: number[] = [];
      for (const url of [...malformed, '/items/1', '/%']) answers.push(...(await statuses(1, url, guarded)));
      expect(answers).to.deep.equal([400, 400, 414, 429, 429]);
      const { headers } = await guarded.inject('/%');
      expect(headers)
        .to.include({ 'content-type': 'application/problem+json' })
        .and.have.property('retry-after');
      await guarded.close();
      await limiter.close();
    });

    it('runs in the order of registration among other hooks', async () => {
      app.addHook('onRequest', (request, _reply, done) => {
        request.headers['x-user'] = 'from a hook';
        done();
      });
      await app.register(rateLimitPlugin, {
        limit: 1,
        window,
        keyGenerator: ({ headers }) => headers['x-user'] as string,
      });
      app.get('/', (request) => request.rateLimit?.key);
      expect((await app.inject('/')).body).to.equal('from a hook');
    });
  });

  describe("a route's config.rateLimit", () => {
    it("replaces the plugin's quota", async () => {
      await app.register(rateLimitPlugin, { limit: 1, window });
      app.get('/', ok);
      app.get('/own', { config: { rateLimit: { limit: 3, window } } }, ok);
      expect(await statuses(4, '/own')).to.deep.equal([200, 200, 200, 429]);
      expect(await statuses(2, '/')).to.deep.equal([200, 429]);
    });

    it('false: is not limited', async () => {
      await app.register(rateLimitPlugin, { limit: 1, window });
      app.get('/', { config: { rateLimit: false } }, (request) => ({
        decision: request.rateLimit ?? 'none',
      }));
      expect(await statuses(2, '/')).to.deep.equal([200, 200]);
      expect((await app.inject('/')).json()).to.deep.equal({ decision: 'none' });
    });

    it('a list: all of them apply, and a request that one denies is charged in none', async () => {
      await app.register(rateLimitPlugin, { global: false, store });
      const rateLimit: RateLimitOptions[] = [
        { limit: 3, window },
        { limit: 1, window, keyGenerator: ({ headers }) => headers['x-user'] as string },
      ];
      app.get('/', { config: { rateLimit } as object }, ok);
      const as = (user: string): InjectOptions => ({ url: '/', headers: { 'x-user': user } });
      expect(await statuses(4, as('a'))).to.deep.equal([200, 429, 429, 429]);
      expect(await statuses(1, as('b'))).to.deep.equal([200]);
      const answer = await app.inject(as('c'));
      expect(answer.statusCode).to.equal(200);
      expect(answer.headers['ratelimit-policy']).to.equal('"/";q=3;w=60, "/ #2";q=1;w=60');
      expect(await statuses(1, as('d'))).to.deep.equal([429]);
    });

    it("without a quota: the plugin's own, at another cost", async () => {
      await app.register(rateLimitPlugin, { limit: 5, window });
      app.get('/', ok);
      app.get('/costly', { config: { rateLimit: { cost: 3 } } }, ok);
      expect(await statuses(2, '/costly')).to.deep.equal([200, 429]);
      expect(await statuses(3, '/')).to.deep.equal([200, 200, 429]);
    });

    it("without a quota: the plugin's tiers, too", async () => {
      await app.register(rateLimitPlugin, {
        global: false,
        policies: ({ headers }) => [{ limit: headers['x-pro'] ? 3 : 1, window }],
      });
      app.get('/', { config: { rateLimit: {} } }, ok);
      expect(await statuses(2, '/')).to.deep.equal([200, 429]);
      expect(await statuses(3, { url: '/', headers: { 'x-pro': '1' } })).to.deep.equal([200, 200, 429]);
    });

    it("has the plugin's options where it has none", async () => {
      await app.register(rateLimitPlugin, {
        store,
        limit: 100,
        window,
        statusCode: 420,
        headers: 'draft-7',
        keyGenerator: ({ headers }) => headers['x-user'] as string,
        hook: 'preHandler',
      });
      app.get('/', { config: { rateLimit: { limit: 1, window } } }, (request) => request.rateLimit?.key);
      app.get('/other', { config: { rateLimit: { limit: 1, window, statusCode: 430 } } }, ok);
      const request = { url: '/', headers: { 'x-user': 'ada' } };
      const answer = await app.inject(request);
      expect(answer.body).to.equal('ada');
      expect(answer.headers).to.include({ ratelimit: 'limit=1, remaining=0, reset=66' });
      expect(await statuses(1, request)).to.deep.equal([420]);
      expect(await statuses(2, { ...request, url: '/other' })).to.deep.equal([200, 430]);
    });

    it("has the plugin's options where its own are undefined", async () => {
      await app.register(rateLimitPlugin, {
        global: false,
        store,
        policies: [{ limit: 1, window, by: 'account' }],
        keyGenerator: ({ headers }) => headers['x-user'] as string,
        keys: { account: () => 'acme' },
      });
      const undefinedOptions = {
        store: undefined,
        limiter: undefined,
        keyGenerator: undefined,
        keys: undefined,
      } as object;
      app.get('/', { config: { rateLimit: { ...undefinedOptions, name: 'own', limit: 1, window } } }, ok);
      const plugins = { keys: undefined, cost: undefined, name: undefined } as object;
      app.get('/account', { config: { rateLimit: plugins } }, (request) => request.rateLimit?.key);
      const user = (name: string) => ({ url: '/', headers: { 'x-user': name } });
      expect(await statuses(2, user('ada'))).to.deep.equal([200, 429]);
      expect(await statuses(1, user('bob'))).to.deep.equal([200]);
      expect((await app.inject('/account')).body).to.equal('acme');
      // The route counts in the plugin's store.
      const same = createLimiter({ name: 'own', store, limit: 1, window });
      expect((await same.peek('ada')).allowed).to.be.false;
    });

    it('with a limiter of createLimiter', async () => {
      const limiter = createLimiter({ name: 'own', store, limit: 1, window });
      await app.register(rateLimitPlugin, { global: false, store, timeout: '1s', ban: { after: 9 } });
      app.get('/', { config: { rateLimit: { limiter } } }, ok);
      expect(await statuses(2, '/')).to.deep.equal([200, 429]);
      await limiter.reset('127.0.0.1');
      expect(await statuses(1, '/')).to.deep.equal([200]);
      await app.close();
      // The plugin closes the limiters that it created, not a limiter of the test.
      expect((await limiter.peek('127.0.0.1')).remaining).to.equal(0);
    });
  });

  describe('names', () => {
    it('are the paths: routes on one store have quotas of their own', async () => {
      const strict = { limit: 1, window };
      await app.register(rateLimitPlugin, { global: false, store });
      app.get('/a', { config: { rateLimit: strict } }, ok);
      app.get('/b', { config: { rateLimit: strict } }, ok);
      app.get('/users/:id', { config: { rateLimit: strict } }, ok);
      for (const url of ['/a', '/b', '/users/1']) expect(await statuses(2, url)).to.deep.equal([200, 429]);
      // A route has a single quota, whatever the values of its parameters.
      expect(await statuses(1, '/users/2')).to.deep.equal([429]);
    });

    it('separate the methods of a path, except HEAD, which counts as GET', async () => {
      const strict = { limit: 1, window };
      await app.register(rateLimitPlugin, { global: false, store });
      app.get('/x', { config: { rateLimit: strict } }, ok);
      app.post('/x', { config: { rateLimit: strict } }, ok);
      app.route({ method: ['PUT', 'PATCH'], url: '/x', config: { rateLimit: strict }, handler: ok });
      const head: InjectOptions = { method: 'HEAD', url: '/x' };
      expect(await statuses(1, head)).to.deep.equal([200]);
      expect(await statuses(1, '/x')).to.deep.equal([429]);
      expect(await statuses(1, head)).to.deep.equal([429]);
      const { headers } = await app.inject(post('/x'));
      expect(headers['ratelimit-policy']).to.equal('"POST /x";q=1;w=60');
      expect(await statuses(1, post('/x'))).to.deep.equal([429]);
      expect(await statuses(1, { method: 'PUT', url: '/x' })).to.deep.equal([200]);
      expect(await statuses(1, { method: 'PATCH', url: '/x' })).to.deep.equal([429]);
    });

    describe('HEAD and GET of a route are one', () => {
      const strict = { limit: 1, window };
      const head = (url: string): InjectOptions => ({ method: 'HEAD', url });

      it('where the route has other methods, too', async () => {
        await app.register(rateLimitPlugin, { global: false, store });
        const routes = { '/a': ['GET', 'POST'], '/b': ['POST', 'GET'], '/c': ['GET', 'HEAD', 'POST'] };
        for (const [url, method] of Object.entries(routes))
          app.route({ method, url, config: { rateLimit: strict }, handler: ok });
        app.all('/d', { config: { rateLimit: strict } }, ok);
        for (const url of ['/a', '/b', '/c', '/d']) {
          const { headers } = await app.inject(head(url));
          expect(headers['ratelimit-policy']).to.equal(`"${url}";q=1;w=60`);
          expect(await statuses(1, url)).to.deep.equal([429]);
          expect(await statuses(1, post(url))).to.deep.equal([429]);
        }
      });

      it('with memory stores of their own', async () => {
        await app.register(rateLimitPlugin, { global: false });
        app.route({ method: ['GET', 'POST'], url: '/', config: { rateLimit: strict }, handler: ok });
        expect(await statuses(1, head('/'))).to.deep.equal([200]);
        expect(await statuses(1, '/')).to.deep.equal([429]);
      });

      it('under a prefix, with and without its slash', async () => {
        await app.register(rateLimitPlugin, { global: false, store });
        const urls = { both: ['/both', '/both/'], slash: ['/slash/'], 'no-slash': ['/no-slash'] } as const;
        const modes = Object.keys(urls) as (keyof typeof urls)[];
        for (const prefixTrailingSlash of modes) {
          const config = { rateLimit: { limit: 2, window } };
          const method = ['GET', 'POST'];
          await app.register(
            async (child) => child.route({ method, url: '/', prefixTrailingSlash, config, handler: ok }),
            { prefix: `/${prefixTrailingSlash}` },
          );
        }
        for (const mode of modes) {
          const remaining: number[] = [];
          for (const request of urls[mode].flatMap((url) => [head(url), url, post(url)]))
            remaining.push(...(await statuses(1, request)));
          expect(remaining).to.deep.equal([200, 200, 429, 429, 429, 429].slice(0, remaining.length));
        }
      });

      it('where several routes have the same options, each with its own quota', async () => {
        await app.register(rateLimitPlugin, { global: false, store });
        const options = { config: { rateLimit: strict } };
        app.route({ ...options, method: ['GET', 'POST'], url: '/a', handler: ok });
        app.get('/b', options, ok);
        app.route({ ...options, method: ['GET', 'PUT'], url: '/b/:id', handler: ok });
        for (const url of ['/a', '/b', '/b/1']) {
          expect(await statuses(1, head(url))).to.deep.equal([200]);
          expect(await statuses(1, url)).to.deep.equal([429]);
        }
      });

      it('where the route was declared before the plugin was loaded, whichever comes first', async () => {
        const options = { config: { rateLimit: strict } };
        app.route({ ...options, method: ['GET', 'POST'], url: '/a', handler: ok });
        app.route({ ...options, method: ['GET', 'POST'], url: '/b', handler: ok });
        void app.register(
          async (child) => {
            child.route({ ...options, method: ['GET', 'POST'], url: '/', handler: ok });
            void child.register(rateLimitPlugin, { name: 'child', global: false, store });
          },
          { prefix: '/child' },
        );
        void app.register(rateLimitPlugin, { global: false, store });
        for (const [first, ...rest] of [
          [head('/a'), '/a', post('/a')],
          ['/b', head('/b'), post('/b')],
          [head('/child/'), '/child', '/child/', head('/child'), post('/child')],
        ]) {
          const answer = await app.inject(first!);
          expect(answer.statusCode).to.equal(200);
          expect(answer.headers['ratelimit-policy']).to.match(/^"\/(a|b|child)";q=1;w=60$/);
          for (const request of rest) expect(await statuses(1, request)).to.deep.equal([429]);
        }
      });
    });

    it('separate the constraints of a path', async () => {
      const strict = { limit: 1, window };
      await app.register(rateLimitPlugin, { global: false, store });
      app.get('/v', { constraints: { version: '1.0.0' }, config: { rateLimit: strict } }, ok);
      app.get('/v', { constraints: { version: '2.0.0' }, config: { rateLimit: strict } }, ok);
      const version = (v: string): InjectOptions => ({ url: '/v', headers: { 'accept-version': v } });
      expect(await statuses(2, version('1.x'))).to.deep.equal([200, 429]);
      expect(await statuses(2, version('2.x'))).to.deep.equal([200, 429]);
      const { headers } = await app.inject(version('1.x'));
      expect(headers['ratelimit-policy']).to.equal('"/v version=1.0.0";q=1;w=60');
    });

    it('include the prefix, with and without its slash', async () => {
      await app.register(rateLimitPlugin, { global: false, store });
      await app.register(
        async (child) => {
          child.get('/', { config: { rateLimit: { limit: 2, window } } }, ok);
        },
        { prefix: '/api' },
      );
      const { headers } = await app.inject('/api');
      expect(headers['ratelimit-policy']).to.equal('"/api";q=2;w=60');
      expect(await statuses(2, '/api/')).to.deep.equal([200, 429]);
    });

    it('that are set form a group', async () => {
      const group = { name: 'search', limit: 2, window };
      await app.register(rateLimitPlugin, { global: false, store });
      app.get('/a', { config: { rateLimit: { ...group } } }, ok);
      app.post('/b', { config: { rateLimit: { ...group } } }, ok);
      const other = { ...group, limit: 3 };
      expect(await codeOf(() => app.get('/c', { config: { rateLimit: other } }, ok))).to.equal(
        'HEADGATE_POLICY_MISMATCH',
      );
      expect(await statuses(1, '/a')).to.deep.equal([200]);
      expect(await statuses(2, post('/b'))).to.deep.equal([200, 429]);
    });

    it('are free again when the application is closed', async () => {
      await app.register(rateLimitPlugin, { store, limit: 1, window });
      await app.close();
      app = Fastify();
      await app.register(rateLimitPlugin, { store, limit: 2, window });
    });
  });

  describe('contexts', () => {
    it('a child is limited alone', async () => {
      await app.register(async (child) => {
        await child.register(rateLimitPlugin, { limit: 1, window });
        child.get('/child', ok);
      });
      app.get('/', ok);
      expect(await statuses(2, '/child')).to.deep.equal([200, 429]);
      expect(await statuses(2, '/')).to.deep.equal([200, 200]);
      expect(await statuses(2, '/nowhere')).to.deep.equal([404, 404]);
    });

    it('nested registrations both apply, and a request that one denies is charged in neither', async () => {
      await app.register(rateLimitPlugin, { limit: 3, window });
      await app.register(async (child) => {
        await child.register(rateLimitPlugin, { name: 'inner', limit: 1, window });
        child.get('/child', ok);
      });
      app.get('/', ok);
      expect(await statuses(4, '/child')).to.deep.equal([200, 429, 429, 429]);
      expect(await statuses(3, '/')).to.deep.equal([200, 200, 429]);
    });

    it("a route's own limits are created by the innermost plugin, once", async () => {
      await app.register(rateLimitPlugin, { limit: 1, window, statusCode: 420 });
      await app.register(async (child) => {
        await child.register(rateLimitPlugin, { name: 'inner', limit: 1, window, statusCode: 430 });
        child.get('/own', { config: { rateLimit: { limit: 2, window } } }, ok);
        child.get('/free', { config: { rateLimit: false } }, ok);
      });
      expect(await statuses(3, '/own')).to.deep.equal([200, 200, 430]);
      expect(await statuses(2, '/free')).to.deep.equal([200, 200]);
    });

    it('two plugins on one store need different names, or are refused', async () => {
      await app.register(rateLimitPlugin, { store, limit: 5, window });
      const nested = (options: RateLimitOptions) =>
        app.register(async (child) => {
          await child.register(rateLimitPlugin, options);
          child.get('/child', ok);
        });
      await nested({ store, name: 'child', limit: 1, window });
      expect(await statuses(2, '/child')).to.deep.equal([200, 429]);

      const other = Fastify();
      void other.register(rateLimitPlugin, { store, limit: 5, window });
      expect(await codeOf(() => other.ready())).to.equal('HEADGATE_NAME_REQUIRED');
      await other.close();
    });

    it("a context leaves the root's quota by `config.rateLimit: {}` in a hook, as docs/fastify.md does", async () => {
      await app.register(rateLimitPlugin, { limit: 2, window });
      await app.register(async (child) => {
        child.addHook('onRoute', (route) => {
          route.config = { rateLimit: {}, ...route.config };
        });
        await child.register(rateLimitPlugin, { name: 'partners', limit: 4, window });
        child.get('/orders', ok);
        child.get('/offers', ok);
        child.get('/export', { config: { rateLimit: '1/1m' } }, ok);
      });
      app.get('/', ok);
      expect(await statuses(3, '/orders')).to.deep.equal([200, 200, 200]);
      expect(await statuses(2, '/offers')).to.deep.equal([200, 429]);
      expect(await statuses(2, '/export')).to.deep.equal([200, 429]);
      expect(await statuses(3, '/')).to.deep.equal([200, 200, 429]);
    });

    it('a context has no limit by `config.rateLimit: false` in a hook', async () => {
      await app.register(rateLimitPlugin, { limit: 1, window });
      await app.register(async (child) => {
        child.addHook('onRoute', (route) => {
          route.config = { rateLimit: false, ...route.config };
        });
        child.get('/health', ok);
      });
      expect(await statuses(3, '/health')).to.deep.equal([200, 200, 200]);
    });

    it("skips routes by their pattern in the root's options", async () => {
      const skip: RateLimitOptions['skip'] = ({ routeOptions }) =>
        routeOptions.url?.startsWith('/partners/') ?? false;
      await app.register(rateLimitPlugin, { limit: 1, window, skip });
      app.get('/partners/:id', ok);
      expect(await statuses(2, '/partners/a')).to.deep.equal([200, 200]);
      expect(await statuses(2, '/partners/a/b')).to.deep.equal([404, 429]);
    });

    it('twice in one context: both apply', async () => {
      await app.register(rateLimitPlugin, { name: 'a', store, limit: 3, window });
      await app.register(rateLimitPlugin, { name: 'b', store, limit: 2, window });
      app.get('/', ok);
      expect((await app.inject('/')).headers['ratelimit-policy']).to.equal('"a";q=3;w=60, "b";q=2;w=60');
      expect(await statuses(2, '/')).to.deep.equal([200, 429]);
    });
  });

  it('an error of a route’s option names the route', async () => {
    const wrong: [unknown, string][] = [
      [{ limit: -1, window: '1m' }, 'policy.limit: -1'],
      [{ limit: 5 }, 'policy.window: missing'],
      [{ keyGenerator: 'x' }, 'keyGenerator: "x"'],
      ['x', 'policies: "x"'],
      [{ hook: 'onResponse' }, 'hook: "onResponse"'],
      [{ limti: 5 }, "'limti' is unknown"],
      [5, '5 is not valid'],
      [[{ limit: 5, window: '1m' }, { policies: [] }], 'policies: [] is not valid'],
    ];
    for (const [rateLimit, message] of wrong) {
      const app = Fastify();
      await app.register(rateLimitPlugin, { limit: 5, window: '1m' });
      const declare = () => app.get('/search', { config: { rateLimit: rateLimit as never } }, () => 'found');
      expect(declare).to.throw(HeadgateError, `config.rateLimit of /search: ${message}`);
      await app.close();
    }
  });

  describe('hook', () => {
    for (const hook of ['onRequest', 'preParsing', 'preValidation', 'preHandler'] as const) {
      it(`${hook} of the plugin`, async () => {
        await app.register(rateLimitPlugin, { limit: 1, window, hook });
        const bodies: string[] = [];
        app.post('/', (request) => bodies.push(JSON.stringify(request.body)));
        const request = { ...post('/'), payload: { a: 1 } };
        expect(await statuses(2, request)).to.deep.equal([200, 429]);
        expect(bodies).to.deep.equal(['{"a":1}']);
      });

      it(`${hook} of a route`, async () => {
        await app.register(rateLimitPlugin, { global: false });
        const order: string[] = [];
        app.post(
          '/',
          {
            config: { rateLimit: { limit: 1, window, hook, onDecision: () => void order.push('limited') } },
            [hook]: (...args: [unknown, unknown, ...unknown[]]) => {
              order.push('own');
              (args.at(-1) as () => void)();
            },
          },
          ok,
        );
        expect(await statuses(2, { ...post('/'), payload: { a: 1 } })).to.deep.equal([200, 429]);
        const expected =
          hook === 'onRequest' ? ['limited', 'own', 'limited'] : ['own', 'limited', 'own', 'limited'];
        expect(order).to.deep.equal(expected);
      });
    }

    it('any of them may be the result of fastify.rateLimit', async () => {
      await app.register(rateLimitPlugin, { global: false });
      for (const hook of ['onRequest', 'preParsing', 'preValidation', 'preHandler'] as const)
        app.get(`/${hook}`, { [hook]: app.rateLimit({ limit: 1, window }) }, ok);
      for (const url of ['/onRequest', '/preParsing', '/preValidation', '/preHandler'])
        expect(await statuses(2, url)).to.deep.equal([200, 429]);
    });

    it('preHandler can read the body', async () => {
      await app.register(rateLimitPlugin, { global: false });
      const rateLimit: RateLimitOptions = {
        limit: 1,
        window,
        hook: 'preHandler',
        keyGenerator: ({ body }) => (body as { email: string }).email,
      };
      app.post('/login', { config: { rateLimit } as object }, ok);
      const as = (email: string) => ({ ...post('/login'), payload: { email } });
      expect(await statuses(2, as('a'))).to.deep.equal([200, 429]);
      expect(await statuses(1, as('b'))).to.deep.equal([200]);
    });

    it('a different hook fails a route that was declared too early, with an error about it', async () => {
      app.setErrorHandler((error: HeadgateError, _request, reply) => reply.code(500).send(error));
      void app.register(rateLimitPlugin, { limit: 9, window });
      app.get('/', { config: { rateLimit: { limit: 1, window, hook: 'preHandler' } } }, ok);
      const { code, message } = (await app.inject('/')).json<HeadgateError>();
      expect(code).to.equal('HEADGATE_INVALID_OPTION');
      expect(message).to.include('await fastify.register');
    });
  });

  describe('fastify.rateLimit', () => {
    it("is stacked on the plugin's quota", async () => {
      await app.register(rateLimitPlugin, { limit: 3, window });
      app.get('/', { preHandler: app.rateLimit({ name: 'strict', limit: 1, window }) }, ok);
      expect((await app.inject('/')).headers['ratelimit-policy']).to.equal(
        '"global";q=3;w=60, "strict";q=1;w=60',
      );
      expect(await statuses(1, '/')).to.deep.equal([429]);
    });

    it('without names is numbered', async () => {
      await app.register(rateLimitPlugin, { limit: 9, window, name: 'default' });
      const onRequest = [app.rateLimit({ limit: 8, window }), app.rateLimit({ limit: 7, window })];
      app.get('/', { onRequest }, ok);
      const { headers } = await app.inject('/');
      expect(headers['ratelimit-policy']).to.equal(
        '"default";q=9;w=60, "default-2";q=8;w=60, "default-3";q=7;w=60',
      );
      expect(headers['ratelimit']).to.match(
        /^"default";r=8;t=\d+, "default-2";r=7;t=\d+, "default-3";r=6;t=\d+$/,
      );
    });

    it('without options limits by the quota of the plugin: a 404 handler', async () => {
      await app.register(rateLimitPlugin, { global: false, limit: 2, window });
      app.setNotFoundHandler(
        { preHandler: app.rateLimit() },
        (_request, reply) => void reply.code(404).send('no'),
      );
      app.get('/', ok);
      expect(await statuses(3, '/nowhere')).to.deep.equal([404, 404, 429]);
      expect(await statuses(1, '/')).to.deep.equal([200]);
    });

    it('without options and without a quota is refused', async () => {
      await app.register(rateLimitPlugin, { global: false });
      expect(await codeOf(() => app.rateLimit())).to.equal('HEADGATE_INVALID_OPTION');
    });

    it("needs names on one store, as the plugin's others do", async () => {
      await app.register(rateLimitPlugin, { global: false, store });
      app.rateLimit({ limit: 1, window });
      expect(await codeOf(() => app.rateLimit({ limit: 1, window }))).to.equal('HEADGATE_NAME_REQUIRED');
    });
  });

  describe('errors', () => {
    it('in options end the registration', async () => {
      void app.register(rateLimitPlugin, { limit: 0, window });
      expect(await codeOf(() => app.ready())).to.equal('HEADGATE_INVALID_OPTION');
    });

    it('in a route end its declaration', async () => {
      await app.register(rateLimitPlugin, { global: false });
      const declare = (rateLimit: unknown) => () => app.get('/', { config: { rateLimit } as object }, ok);
      expect(await codeOf(declare({ limit: 1 }))).to.equal('HEADGATE_INVALID_OPTION');
      expect(await codeOf(declare({ limit: 1, window, max: 2 }))).to.equal('HEADGATE_UNKNOWN_OPTION');
      expect(await codeOf(declare({ limit: 1, window, global: true }))).to.equal('HEADGATE_UNKNOWN_OPTION');
      expect(await codeOf(declare(true))).to.equal('HEADGATE_INVALID_OPTION');
      expect(await codeOf(declare([]))).to.equal('HEADGATE_INVALID_OPTION');
    });

    it('for a quota that is undefined', async () => {
      await app.register(rateLimitPlugin, { global: false, store, limit: 9, window });
      const declare = async () => {
        app.get('/', { config: { rateLimit: { limit: undefined, window } as object } }, ok);
        await app.ready();
      };
      expect(await codeOf(declare)).to.equal('HEADGATE_INVALID_OPTION');
    });

    it('for an incomplete quota', async () => {
      void app.register(rateLimitPlugin, { window } as never);
      expect(await codeOf(() => app.ready())).to.equal('HEADGATE_INVALID_OPTION');
    });
  });

  it('answers in the same turn of the event loop with the memory store', async () => {
    await app.register(rateLimitPlugin, { global: false });
    const limit = app.rateLimit({ limit: 5, window }) as (...args: unknown[]) => void;
    const order: string[] = [];
    app.addHook('onRequest', (request, reply, done) => {
      limit(request, reply, () => {
        order.push('limited');
        done();
      });
      order.push('returned');
    });
    app.get('/', ok);
    await app.inject('/');
    expect(order).to.deep.equal(['limited', 'returned']);
  });

  it('gives back the slot of an HTTP/2 client that disconnected before the decision', async () => {
    let decide = () => {};
    const decided = new Promise<void>((resolve) => (decide = resolve));
    let hasLeft = false;
    const h2 = Fastify({ http2: true });
    h2.addHook('onRequest', (_request, reply, done) => {
      reply.raw.once('close', () => (hasLeft = true));
      done();
    });
    await h2.register(rateLimitPlugin, {
      policies: 'concurrency 1/1h',
      cost: ({ url }) => (url === '/slow' ? decided.then(() => 1) : 1),
    });
    h2.get('/slow', ok);
    h2.get('/', ok);
    const client = connect(await h2.listen({ port: 0, host: '127.0.0.1' }));
    const gone = client.request({ ':path': '/slow' }).on('error', () => {});
    gone.end();
    await once(gone, 'ready');
    await new Promise((resolve) => client.ping(resolve));
    gone.close(constants.NGHTTP2_CANCEL);
    while (!hasLeft) await setImmediate();
    decide();
    const status = async () => {
      const stream = client.request({ ':path': '/' });
      const [headers] = (await once(stream, 'response')) as [IncomingHttpHeaders];
      stream.resume().end();
      await once(stream, 'close');
      return headers[':status'] as unknown as number;
    };
    while ((await status()) !== 200);
    client.close();
    await h2.close();
  });

  it('passes denials to the onSend hooks of the context', async () => {
    await app.register(rateLimitPlugin, { limit: 1, window });
    app.addHook('onSend', (_request, reply, _payload, done) => {
      void reply.header('access-control-allow-origin', '*');
      done();
    });
    app.get('/', ok);
    await app.inject('/');
    const denied = await app.inject('/');
    expect(denied.statusCode).to.equal(429);
    expect(denied.headers).to.include({
      'access-control-allow-origin': '*',
      'content-type': 'application/problem+json',
    });
  });
});
