// @fastify/rate-limit and the stand-in side by side: the same requests, the same answers.
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { createRequire } from 'node:module';
import { mock } from 'node:test';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import fc from 'fast-check';
import Fastify, { type FastifyInstance, type FastifyServerOptions, type InjectOptions } from 'fastify';
import fastifyRateLimit, {
  normalizeIP,
  type CreateRateLimitOptions,
  type FastifyRateLimitStore,
  type FastifyRateLimitStoreCtor,
  type RateLimitOptions,
  type RateLimitPluginOptions,
} from 'headgate/compat/fastify-rate-limit';
import { Redis } from 'ioredis';
import { allowKeysWithoutTtl } from '../support/hooks.js';
import { servers } from '../support/shared-servers.js';
import { runs } from '../support/random.js';
import { startServer } from '../support/servers.js';

type Plugin = typeof fastifyRateLimit;

// Without the original's types, which clash with Headgate's types.
const require = createRequire(import.meta.url);
const theirs = require('@fastify/rate-limit') as Plugin;
const plugins = { theirs, ours: fastifyRateLimit };

/** A request, or so many milliseconds that pass. */
type Step = InjectOptions | string | number;
type Log = unknown[];

interface Row {
  readonly title: string;
  readonly options?: RateLimitPluginOptions | ((log: Log) => RateLimitPluginOptions);
  readonly server?: FastifyServerOptions;
  /** Default: `GET /`. */
  readonly routes?: (app: FastifyInstance, log: Log, plugin: Plugin) => unknown;
  /** Default: two requests of `/`. */
  readonly steps?: readonly Step[];
}

const ok = () => 'ok';
const root = (config?: RateLimitOptions | false) => (app: FastifyInstance) =>
  app.get('/', config === undefined ? {} : { config: { rateLimit: config } as object }, ok);
const times = (n: number, step: Step = '/'): Step[] => Array.from({ length: n }, () => step);
const from = (ip: string): InjectOptions => ({ url: '/', headers: { 'x-forwarded-for': ip } });
const as = (user: string): InjectOptions => ({ url: '/', headers: { user } });
const untyped = <T>(value: unknown): T => value as T;

/** Logs every callback. */
const logged = (log: Log): RateLimitOptions => ({
  onExceeding: (req, key) => log.push(['exceeding', req.url, key]),
  onExceeded: (req, key) => log.push(['exceeded', req.url, key]),
  onBanReach: (req, key) => log.push(['ban', req.url, key]),
});

/** The example from the README of @fastify/rate-limit. */
class CustomStore implements FastifyRateLimitStore {
  current = 0;
  readonly #options: { timeWindow?: number };
  constructor(options: { timeWindow?: number } = {}) {
    this.#options = options;
  }
  incr(_key: string, done: Parameters<FastifyRateLimitStore['incr']>[1], timeWindow: number, max: number) {
    this.current++;
    if (max === 99) return done(new Error('the store failed'));
    done(null, {
      current: this.current,
      ttl: (this.#options.timeWindow ?? timeWindow) - this.current * 1000,
    });
  }
  child(options: object) {
    return new CustomStore(options);
  }
}
const store = untyped<FastifyRateLimitStoreCtor>(CustomStore);

const manual =
  (options?: CreateRateLimitOptions) =>
  (app: FastifyInstance): void => {
    const check = app.createRateLimit(options);
    app.get('/', (req) => check(req));
    app.get('/peek', (req) => check(req, { increment: false }));
  };

const rows: readonly Row[] = [
  { title: 'the defaults' },
  { title: 'max, timeWindow', options: { max: 2, timeWindow: 10_000 }, steps: times(4) },
  {
    title: 'a window that ends',
    options: { max: 1, timeWindow: 1000 },
    steps: ['/', '/', 999, '/', 1, '/', '/'],
  },
  { title: 'a rest of a window', options: { max: 1, timeWindow: 10_000 }, steps: ['/', 500, '/', 1000, '/'] },
  ...['10s', '5 minutes', '.5 minute', '1.5 hours', '2 days', '1 year', '90000'].map((timeWindow): Row => ({
    title: `timeWindow: '${timeWindow}'`,
    options: { max: 1, timeWindow },
    steps: times(2),
  })),
  { title: 'timeWindow: NaN', options: { max: 1, timeWindow: NaN } },
  { title: 'timeWindow: -5', options: { max: 1, timeWindow: 5000 }, routes: root({ timeWindow: -5 }) },
  { title: 'max: NaN', options: { max: NaN }, steps: ['/'] },
  { title: 'max: 2.9', options: { max: 2.9 }, steps: times(3) },
  { title: 'max: 0', options: { max: 0, timeWindow: 10_000 }, steps: times(3) },
  {
    title: 'max and timeWindow as functions',
    options: (log) => ({
      keyGenerator: (req) => req.headers['user'] as string,
      max: (req, key) => {
        log.push([req.url, key]);
        return key === 'pro' ? 2 : 1;
      },
      timeWindow: (_req, key) => (key === 'pro' ? 10_000 : 20_000),
    }),
    steps: [...times(3, as('pro')), ...times(2, as('basic'))],
  },
  {
    title: 'async functions',
    options: {
      max: () => Promise.resolve(1),
      timeWindow: () => Promise.resolve(10_000),
      allowList: (req) => Promise.resolve(req.headers['user'] === 'root'),
      keyGenerator: (req) => Promise.resolve(String(req.headers['user'])),
    },
    steps: [...times(2, as('a')), as('b'), ...times(2, as('root'))],
  },
  { title: 'max: () => Infinity', options: { max: () => Infinity }, steps: times(3) },
  {
    title: 'a max that changes within a window',
    options: { max: (req) => Number(req.headers['user']), timeWindow: 10_000 },
    steps: ['2', '2', '5', '1', '0'].map(as),
  },
  ...[0, 1, 2].map((ban): Row => ({
    title: `ban: ${ban}`,
    options: (log) => ({ max: 1, timeWindow: 10_000, ban, ...logged(log) }),
    steps: times(5),
  })),
  { title: 'ban with max: 0', options: { max: 0, ban: 1, timeWindow: 10_000 }, steps: times(3) },
  {
    title: 'ban: ends with the window',
    options: { max: 1, ban: 0, timeWindow: 1000 },
    steps: ['/', '/', 1000, '/', '/'],
  },
  {
    title: 'onExceeding, onExceeded',
    options: (log) => ({ max: 1, timeWindow: 10_000, ...logged(log) }),
    steps: times(3),
  },
  {
    title: 'a callback that throws',
    options: {
      max: 1,
      onExceeded: () => {
        throw new Error('no');
      },
    },
  },
  { title: 'allowList: a key', options: { max: 1, allowList: ['127.0.0.1'] }, steps: times(3) },
  { title: 'allowList: another key', options: { max: 1, allowList: ['10.0.0.1'] } },
  {
    title: 'allowList as a function; a key that is a number',
    options: (log) => ({
      max: 1,
      timeWindow: 10_000,
      keyGenerator: () => 42,
      allowList: (req, key) => {
        log.push(key);
        return req.headers['user'] === 'root';
      },
    }),
    steps: ['/', as('root'), '/', as('root')],
  },
  {
    title: 'a key that is undefined',
    options: { max: 1, timeWindow: 10_000, keyGenerator: (req) => req.headers['user'] as string },
    steps: [...times(2), as('a')],
  },
  ...[undefined, 48, 128, 0, -1, 129].map((ipv6Subnet): Row => ({
    title: `ipv6Subnet: ${ipv6Subnet}`,
    server: { trustProxy: true },
    options: (log) => ({ max: 1, timeWindow: 10_000, ipv6Subnet: ipv6Subnet!, ...logged(log) }),
    steps: [
      '2001:0DB8:abcd:12::1',
      '2001:db8:abcd:12::2',
      '2001:db8:abcd:13::1',
      '2001:db9::1',
      '::ffff:10.0.0.1',
      '10.0.0.1',
      'nonsense',
    ].map(from),
  })),
  { title: 'enableDraftSpec', options: { max: 1, timeWindow: 10_000, enableDraftSpec: true } },
  {
    title: 'addHeaders',
    options: { max: 1, timeWindow: 10_000, addHeaders: { 'x-ratelimit-limit': false, 'retry-after': false } },
  },
  {
    title: 'addHeadersOnExceeding',
    options: { max: 1, timeWindow: 10_000, addHeadersOnExceeding: { 'x-ratelimit-reset': false } },
  },
  {
    title: 'errorResponseBuilder: an object',
    options: {
      max: 1,
      ban: 1,
      timeWindow: 10_000,
      errorResponseBuilder: (req, { ttl, ...context }) => ({
        ...context,
        url: req.url,
        seconds: Math.ceil(ttl / 1000),
      }),
    },
    steps: times(3),
  },
  {
    title: 'errorResponseBuilder: an error',
    options: {
      max: 1,
      errorResponseBuilder: () => Object.assign(new Error('slow down'), { statusCode: 418 }),
    },
  },
  {
    title: 'an error handler',
    options: { max: 1, timeWindow: 10_000 },
    routes: (app, log) => {
      app.setErrorHandler((error: Error & { statusCode: number }, _req, reply) => {
        log.push([error.message, error.statusCode, reply.statusCode, Object.keys(error)]);
        void reply.redirect('/slow');
      });
      app.get('/', ok);
    },
  },
  ...(['onRequest', 'preParsing', 'preValidation', 'preHandler'] as const).map((hook): Row => ({
    title: `hook: '${hook}'`,
    options: (log) => ({ max: 1, hook, ...logged(log) }),
    routes: (app, log) => {
      app.addHook('onRequest', async () => void log.push('onRequest'));
      app.addHook('preHandler', async () => void log.push('preHandler'));
      app.get('/', { onRequest: async () => void log.push("the route's onRequest") }, ok);
      app.get('/two', { preHandler: [async () => void log.push("the route's preHandler")] }, ok);
    },
    steps: ['/', '/two', '/'],
  })),
  {
    title: 'a key of the body',
    options: { max: 1, hook: 'preHandler', keyGenerator: (req) => (req.body as { user: string }).user },
    routes: (app) => app.post('/', ok),
    steps: ['a', 'a', 'b'].map((user) => ({ method: 'POST', url: '/', payload: { user } })),
  },
  {
    title: 'global: all routes together, but those with limits of their own',
    options: { max: 2, timeWindow: 10_000 },
    routes: (app) => {
      app.get('/early', ok);
      app.get('/own', { config: { rateLimit: { max: 1 } } }, ok);
      app.get('/same', { config: { rateLimit: {} } }, ok);
      app.get('/free', { config: { rateLimit: false } }, ok);
      app.get('/null', { config: { rateLimit: untyped<false>(null) } }, ok);
    },
    steps: [
      '/early',
      '/null',
      '/early',
      ...times(2, '/own'),
      ...times(3, '/same'),
      ...times(3, '/free'),
      '/nowhere',
    ],
  },
  {
    title: 'global: false',
    options: { global: false, max: 1, timeWindow: 10_000, ban: 0 },
    routes: (app) => {
      app.get('/', ok);
      app.get('/own', { config: { rateLimit: { timeWindow: '20s' } } }, ok);
      app.post('/own', { config: { rateLimit: { ban: -1 } } }, ok);
    },
    steps: [...times(2), ...times(2, '/own'), ...times(2, { method: 'POST', url: '/own' })],
  },
  {
    title: "a route's options in place of the plugin's",
    options: (log) => ({ max: 5, ...logged(log), allowList: ['127.0.0.1'] }),
    routes: (app, log) =>
      root({ max: 1, allowList: () => false, onExceeded: () => log.push('mine'), keyGenerator: () => 'k' })(
        app,
      ),
  },
  {
    title: 'a context',
    routes: (app, _log, plugin) => {
      app.get('/', ok);
      void app.register(
        async (child) => {
          await child.register(plugin, { max: 1, timeWindow: 10_000 });
          child.get('/', ok);
        },
        { prefix: '/child' },
      );
    },
    options: { global: false },
    steps: [...times(2), ...times(2, '/child')],
  },
  {
    title: 'two registrations',
    options: { max: 1, timeWindow: 10_000, allowList: (req) => req.url !== '/a' },
    routes: async (app, _log, plugin) => {
      await app.register(plugin, { max: 2, timeWindow: 20_000, allowList: (req) => req.url === '/a' });
      app.get('/a', ok);
      app.get('/b', ok);
    },
    steps: [...times(2, '/a'), ...times(3, '/b')],
  },
  {
    title: 'fastify.rateLimit(): the limit of the plugin, once',
    options: (log) => ({ max: 2, timeWindow: 10_000, ...logged(log) }),
    routes: (app) => app.get('/', { preHandler: app.rateLimit() }, ok),
    steps: times(3),
  },
  {
    title: 'fastify.rateLimit(options)',
    options: { global: false, max: 3, timeWindow: 10_000 },
    routes: (app) => {
      app.get('/a', { onRequest: app.rateLimit({ max: 1 }) }, ok);
      app.get('/b', { preHandler: [app.rateLimit({ max: 2, timeWindow: '20s' })] }, ok);
    },
    steps: [...times(2, '/a')],
  },
  {
    title: 'a 404 handler',
    options: { max: 1, timeWindow: 10_000 },
    routes: (app) =>
      app.setNotFoundHandler(
        { preHandler: app.rateLimit() },
        (_req, reply) => void reply.code(404).send('no'),
      ),
    steps: times(2, '/nowhere'),
  },
  {
    title: 'a 404 handler with options',
    options: { max: 1, timeWindow: 10_000 },
    routes: (app) =>
      app.setNotFoundHandler({ preHandler: app.rateLimit({ max: 2, timeWindow: 20_000 }) }, (_req, reply) => {
        void reply.code(404).send('no');
      }),
    steps: times(3, '/nowhere'),
  },
  {
    title: 'createRateLimit()',
    options: { global: false, max: 2, timeWindow: 10_000 },
    routes: manual(),
    steps: ['/peek', '/', '/peek', '/', '/peek', '/', '/peek', '/', '/peek'],
  },
  {
    title: 'createRateLimit(options)',
    options: { global: false, max: 9, timeWindow: 10_000 },
    routes: manual({
      max: 1,
      ban: 1,
      timeWindow: '20s',
      keyGenerator: () => 7,
      allowList: (req) => req.url === '/?free',
    }),
    steps: ['/peek', '/', '/?free', '/peek', '/', '/peek', '/', '/peek', '/', '/peek'],
  },
  {
    title: 'createRateLimit with max: 0',
    routes: manual({ max: 0 }),
    options: { global: false },
    steps: ['/peek', '/', '/peek'],
  },
  {
    title: 'createRateLimit beside the hook',
    options: { max: 2, timeWindow: 10_000 },
    routes: manual(),
    steps: times(3),
  },
  {
    title: 'createRateLimit: a window that ends',
    options: { global: false, max: 1, timeWindow: 1000 },
    routes: manual(),
    steps: ['/', '/', 400, '/peek', 600, '/peek', '/'],
  },
  {
    title: 'continueExceeding',
    options: { max: 1, timeWindow: 5000, continueExceeding: true },
    steps: ['/', '/', 3000, '/', 3000, '/', 4999, '/', 5000, '/'],
  },
  {
    title: 'continueExceeding, at once',
    options: { max: 1, ban: 2, timeWindow: 10_000, continueExceeding: true },
    steps: times(6),
  },
  {
    title: 'continueExceeding with a ban that goes on',
    options: { max: 1, ban: 1, timeWindow: 5000, continueExceeding: true },
    steps: ['/', '/', '/', 3000, '/', 3000, '/', 5000, '/'],
  },
  {
    title: 'continueExceeding with max: 0 and ban: 0',
    options: { max: 0, ban: 0, timeWindow: 10_000, continueExceeding: true },
  },
  {
    title: 'continueExceeding of a route',
    options: { max: 1, timeWindow: 5000, continueExceeding: true },
    routes: root({ continueExceeding: false }),
    steps: ['/', '/', 3000, '/', 2000, '/'],
  },
  {
    title: 'createRateLimit with continueExceeding',
    options: { global: false, max: 1, ban: 1, timeWindow: 1000, continueExceeding: true },
    routes: manual(),
    steps: ['/', 100, '/', 100, '/peek', '/', '/peek', 1000, '/peek', '/'],
  },
  {
    title: 'exponentialBackoff, at once',
    options: { max: 1, ban: 3, timeWindow: 10_000, exponentialBackoff: true },
    steps: times(6),
  },
  {
    title: 'exponentialBackoff yields to continueExceeding',
    options: { max: 1, timeWindow: 10_000, exponentialBackoff: true, continueExceeding: true },
    steps: times(4),
  },
  { title: 'a store', options: { max: 2, timeWindow: 10_000, ban: 0, store }, steps: times(3) },
  {
    title: "a store of a route's own child",
    options: { global: false, max: 5, timeWindow: 20_000, store },
    routes: (app) => {
      app.get('/a', { config: { rateLimit: { max: 1, timeWindow: '10 seconds' } } }, ok);
      app.get('/b', { config: { rateLimit: {} } }, ok);
    },
    steps: [...times(2, '/a'), '/b'],
  },
  {
    title: 'no group: an empty groupId',
    options: { timeWindow: 10_000 },
    routes: (app) => {
      app.get('/a', { config: { rateLimit: { max: 1, groupId: '' } } }, ok);
      app.get('/b', { config: { rateLimit: { max: 1, groupId: '' } } }, ok);
    },
    steps: ['/a', '/b', '/a'],
  },
  {
    title: 'a group of the plugin, which is none',
    options: { max: 3, timeWindow: 10_000, groupId: 'all' },
    routes: (app) => {
      app.get('/', ok);
      for (const url of ['/a', '/b']) app.get(url, { config: { rateLimit: { max: 1 } } }, ok);
    },
    steps: ['/a', '/b', '/', '/a'],
  },
  { title: 'allowList: false', options: untyped({ max: 1, allowList: false }) },
  {
    title: "allowList: false, in place of the plugin's",
    options: { allowList: ['127.0.0.1'] },
    routes: root(untyped({ max: 1, allowList: false })),
  },
  {
    title: 'a store of a route has its own options',
    server: { exposeHeadRoutes: false },
    options: (log) => ({
      global: false,
      store: untyped<FastifyRateLimitStoreCtor>(
        class extends CustomStore {
          constructor(options: { global?: boolean; table?: string } = {}) {
            super();
            log.push([options.global, options.table]);
          }
          override child(options: object) {
            return new (this.constructor as typeof CustomStore)(options);
          }
        },
      ),
    }),
    routes: root(untyped({ max: 1, table: 'quotas' })),
    steps: ['/'],
  },
  {
    title: 'a store that is its own child tells groups by the key',
    options: (log) => ({
      keyGenerator: () => 7,
      store: untyped<FastifyRateLimitStoreCtor>(
        class extends CustomStore {
          override incr(...args: Parameters<FastifyRateLimitStore['incr']>) {
            log.push(args[0]);
            super.incr(...args);
          }
          override child() {
            return this;
          }
        },
      ),
    }),
    routes: (app) => {
      app.get('/', ok);
      app.get('/a', { config: { rateLimit: { groupId: 'a' } } }, ok);
    },
    steps: ['/', '/a'],
  },
  { title: 'a store that fails', options: { max: 99, store }, steps: ['/'] },
  { title: 'a store that fails, skipOnError', options: { max: 99, store, skipOnError: true } },
];

describe('headgate/compat/fastify-rate-limit', () => {
  let redis: Redis;

  before(() => {
    redis = new Redis(servers.redis.port);
  });
  after(() => redis.disconnect());
  afterEach(() => mock.timers.reset());

  /** The answers of an app to the steps of a row, and the arguments of its callbacks. */
  async function play(row: Row, plugin: Plugin, common: RateLimitPluginOptions = {}) {
    const app = Fastify(row.server);
    const log: Log = [];
    const options = typeof row.options === 'function' ? row.options(log) : row.options;
    await app.register(plugin, { ...common, ...options });
    await (row.routes ?? root())(app, log, plugin);
    const answers = [];
    for (const step of row.steps ?? times(2)) {
      if (typeof step === 'number') {
        mock.timers.tick(step);
      } else {
        const { statusCode, headers, payload } = await app.inject(step);
        delete headers.date;
        delete headers['content-length'];
        // On Redis the clock goes on.
        const body = payload.replace(/"ttl":(\d+)/, (_, ttl) => `"ttl":${Math.ceil(Number(ttl) / 1000)}`);
        answers.push({ step, statusCode, headers, body });
      }
    }
    await app.close();
    return { answers, log };
  }

  describe('in memory answers alike:', () => {
    for (const row of rows) {
      it(row.title, async () => {
        mock.timers.enable({ apis: ['Date'], now: Date.now() });
        expect(await play(row, fastifyRateLimit)).to.deep.equal(await play(row, theirs));
      });
    }
  });

  it('answers alike in memory, whatever comes', async () => {
    const steps = fc.array(
      fc.oneof(
        fc.constantFrom(1, 300, 999, 1000),
        fc.record({ url: fc.constantFrom('/', '/own', '/check', '/peek'), user: fc.constantFrom('a', 'b') }),
      ),
      { maxLength: 25 },
    );
    const options = fc.record({
      max: fc.integer({ min: 0, max: 3 }),
      ban: fc.integer({ min: -1, max: 2 }),
      continueExceeding: fc.boolean(),
      timeWindow: fc.constant(1000),
    });
    // With both, `ban` is for one window: see below.
    const comparable = options.filter(({ ban, continueExceeding }) => ban < 1 || !continueExceeding);
    const property = fc.asyncProperty(comparable, steps, async (chosen, trace) => {
      const row: Row = {
        title: '',
        options: (log) => ({
          ...chosen,
          ...logged(log),
          keyGenerator: (req) => req.headers['user'] as string,
        }),
        routes: (app) => {
          const check = app.createRateLimit();
          app.get('/', ok);
          app.get('/own', { config: { rateLimit: { max: 1 } } }, ok);
          app.get('/check', { config: { rateLimit: false } }, (req) => check(req));
          app.get('/peek', { config: { rateLimit: false } }, (req) => check(req, { increment: false }));
        },
        steps: trace.map((step) =>
          typeof step === 'number' ? step : { url: step.url, headers: { user: step.user } },
        ),
      };
      mock.timers.reset();
      mock.timers.enable({ apis: ['Date'], now: 1e12 });
      expect(await play(row, fastifyRateLimit)).to.deep.equal(await play(row, theirs));
    });
    await fc.assert(property, runs('memory', 150, 0));
  });

  describe('on Redis answers alike:', () => {
    const timeless = rows.filter(({ steps = [] }) => steps.every((step) => typeof step !== 'number'));
    for (const row of timeless) {
      it(row.title, async () => {
        const [ours, peers] = await Promise.all(
          ['ours', 'theirs'].map((whose) =>
            play(row, plugins[whose as keyof typeof plugins], {
              redis,
              nameSpace: `${whose}-${row.title.replace(/[^a-z0-9]/gi, '-')}-`.slice(0, 64),
            }),
          ),
        );
        expect(ours).to.deep.equal(peers);
      });
    }
  });

  describe('does otherwise, on purpose:', () => {
    async function statuses(plugin: Plugin, row: Omit<Row, 'title'>, common?: RateLimitPluginOptions) {
      const { answers } = await play({ title: '', ...row }, plugin, common);
      return answers.map(({ statusCode }) => statusCode);
    }

    /** The answers of both to the same steps. */
    async function differ(
      row: Omit<Row, 'title'>,
      peers: number[],
      ours: number[],
      common?: RateLimitPluginOptions,
    ) {
      expect(await statuses(theirs, row, common)).to.deep.equal(peers);
      expect(await statuses(fastifyRateLimit, row, common)).to.deep.equal(ours);
    }

    async function errorOf(action: () => unknown): Promise<string> {
      try {
        await action();
      } catch (error) {
        return `${(error as { code?: string }).code}: ${(error as Error).message}`;
      }
      return 'no error';
    }

    const twoRoutes = (app: FastifyInstance) => {
      for (const url of ['/a', '/b']) {
        app.get(url, { config: { rateLimit: { max: 2, timeWindow: 10_000, groupId: 'otp' } } }, ok);
      }
    };

    it('a group is one', async () => {
      const row = { routes: twoRoutes, steps: ['/a', '/b', '/a', '/b'] };
      await differ(row, [200, 200, 200, 200], [200, 200, 429, 429]);
      await differ(row, [200, 200, 200, 200], [200, 200, 429, 429], { redis, nameSpace: 'groups-' });
    });

    it("callbacks get the generator's key, without the group: the allowList finds it", async () => {
      const row: Row = {
        title: '',
        options: (log) => ({ allowList: ['127.0.0.1'], onExceeding: (_req, key) => log.push(key) }),
        routes: twoRoutes,
        steps: times(3, '/a'),
      };
      await differ(row, [200, 200, 429], [200, 200, 200]);
      const keys = { ...row, options: (log: Log): RateLimitPluginOptions => logged(log) };
      expect((await play(keys, theirs)).log[0]).to.deep.equal(['exceeding', '/a', '127.0.0.1otp']);
      expect((await play(keys, fastifyRateLimit)).log[0]).to.deep.equal(['exceeding', '/a', '127.0.0.1']);
    });

    it('every limit of a request counts, and its headers tell of the tightest', async () => {
      const row = (global: number, own: number): Row => ({
        title: '',
        options: { max: global },
        routes: (app) => app.get('/', { preHandler: app.rateLimit({ max: own }) }, ok),
        steps: times(3),
      });
      await differ(row(100, 1), [200, 200, 200], [200, 429, 429]);
      for (const own of [3, 100]) {
        const { answers } = await play(row(103 - own, own), fastifyRateLimit);
        expect(answers.map(({ headers }) => headers['x-ratelimit-limit'])).to.deep.equal(['3', '3', '3']);
        expect(answers.map(({ headers }) => headers['x-ratelimit-remaining'])).to.deep.equal(['2', '1', '0']);
      }
    });

    it('a client that is limited is not forgotten for others', async () => {
      const others = Array.from({ length: 200 }, (_, i) => as(`other ${i}`));
      await differ(
        {
          options: { max: 1, cache: 100, keyGenerator: (req) => req.headers['user'] as string },
          steps: [as('a'), as('a'), ...others, as('a')],
        },
        [200, 429, ...others.map(() => 200), 200],
        [200, 429, ...others.map(() => 200), 429],
      );
    });

    it('`cache` is at least 100 keys', async () => {
      expect(
        await statuses(fastifyRateLimit, { options: { cache: 1, max: 1 }, steps: times(2) }),
      ).to.deep.equal([200, 429]);
    });

    it('exponentialBackoff holds what Retry-After says', async () => {
      mock.timers.enable({ apis: ['Date'], now: Date.now() });
      const options = { max: 1, timeWindow: 1000, exponentialBackoff: true };
      const denied = [200, 429, 429, 429, 429];
      const after = (wait: number) => ({ options, steps: [...times(5), wait, '/'] });
      for (const plugin of Object.values(plugins)) {
        const { answers } = await play({ title: '', ...after(0) }, plugin);
        expect(answers[4]!.headers['retry-after']).to.equal('8');
      }
      await differ(after(1100), [...denied, 200], [...denied, 429]);
      const { answers } = await play(
        {
          title: '',
          options: { ...options, global: false },
          routes: manual(),
          steps: [...times(5), 1000, '/peek', 6999, '/peek', 1, '/peek'],
        },
        fastifyRateLimit,
      );
      const peeks = answers
        .slice(5)
        .map(({ body }) => JSON.parse(body) as { ttl: number; isExceeded: boolean });
      expect(peeks.map(({ ttl, isExceeded }) => [ttl, isExceeded])).to.deep.equal([
        [7, true],
        [1, true],
        [0, false],
      ]);
      expect(await statuses(fastifyRateLimit, after(7999))).to.deep.equal([...denied, 429]);
      expect(await statuses(fastifyRateLimit, after(8000))).to.deep.equal([...denied, 200]);
    });

    it('exponentialBackoff doubles what is left: who has waited most of it waits less than twice as long', async () => {
      mock.timers.enable({ apis: ['Date'], now: Date.now() });
      const { answers } = await play(
        {
          title: '',
          options: { max: 1, timeWindow: 1000, exponentialBackoff: true },
          steps: [...times(4), 3500, '/'],
        },
        fastifyRateLimit,
      );
      expect(answers.map(({ headers }) => headers['retry-after'])).to.deep.equal([
        undefined,
        '1',
        '2',
        '4',
        '2',
      ]);
    });

    it('HEAD and GET of a route share its limit', async () => {
      await differ(
        { options: { global: false }, routes: root({ max: 1 }), steps: ['/', { method: 'HEAD', url: '/' }] },
        [200, 200],
        [200, 429],
      );
    });

    it('even if the route has other methods, too', async () => {
      const routes: Row['routes'] = (app) =>
        app.route({ method: ['GET', 'POST'], url: '/', config: { rateLimit: { max: 1 } }, handler: ok });
      await differ(
        { options: { global: false }, routes, steps: [{ method: 'HEAD', url: '/' }, '/'] },
        [200, 200],
        [200, 429],
      );
    });

    it('a denied request is not counted: a higher max admits as many more', async () => {
      const row: Omit<Row, 'title'> = {
        options: { max: (req) => Number(req.headers['user']), timeWindow: 10_000 },
        steps: ['1', '1', '1', '1', '3', '3'].map(as),
      };
      await differ(row, [200, 429, 429, 429, 429, 429], [200, 429, 429, 429, 200, 200]);
    });

    it('a Redis key without a TTL heals when its window is over', async () => {
      allowKeysWithoutTtl();
      const options = (nameSpace: string) => ({ redis, nameSpace, max: 1, timeWindow: 300 });
      for (const [name, expected] of [
        ['theirs', 429],
        ['ours', 200],
      ] as const) {
        const nameSpace = `heal-${name}-`;
        await statuses(plugins[name], { options: options(nameSpace), steps: times(2) });
        // Beside the state, a store writes its counts for operators when the server closes.
        const keys = (await redis.keys(`${nameSpace}*`)).filter((key) => !key.includes('{top}'));
        expect(keys).to.have.length(1);
        await redis.persist(keys[0]!);
        await sleep(310);
        expect(await statuses(plugins[name], { options: options(nameSpace), steps: ['/'] })).to.deep.equal([
          expected,
        ]);
      }
    });

    it('all Redis keys begin with the nameSpace, and have a TTL', async () => {
      const options = { redis, nameSpace: 'everything-', max: 1, ban: 1, continueExceeding: true };
      const before = new Set(await redis.keys('*'));
      await statuses(fastifyRateLimit, { options, steps: times(5) });
      const keys = (await redis.keys('*')).filter((key) => !before.has(key));
      expect(keys.length).to.be.greaterThan(2);
      // Stores of earlier tests may ask whether this server is back.
      const others = keys.filter((key) => !key.includes('{headgate-probe:'));
      expect(others.filter((key) => !key.startsWith('everything-'))).to.deep.equal([]);
    });

    it('a route has the store, and the header names, that it asks for', async () => {
      const seen: string[] = [];
      class Seen extends CustomStore {
        override incr(...args: Parameters<FastifyRateLimitStore['incr']>) {
          seen.push(args[0]);
          super.incr(...args);
        }
      }
      const row: Row = {
        title: '',
        routes: root({ max: 1, store: untyped(Seen), enableDraftSpec: true }),
        steps: times(2),
      };
      expect((await play(row, theirs)).answers[0]!.headers).to.include({ 'x-ratelimit-limit': '1' });
      expect(seen).to.deep.equal([]);
      const { answers } = await play(row, fastifyRateLimit);
      expect(answers[1]!.headers).to.include({
        'ratelimit-limit': '1',
        'ratelimit-remaining': '0',
        'retry-after': '58',
      });
      expect(answers[1]!.headers).to.not.have.property('x-ratelimit-limit');
      expect(seen).to.deep.equal(['127.0.0.1', '127.0.0.1']);
    });

    it('a store cannot change the options of others', async () => {
      class Assigning extends CustomStore {
        readonly options: object;
        constructor(options: object) {
          super(options);
          this.options = options;
        }
        override child(options: object) {
          return new Assigning(Object.assign(this.options, options));
        }
      }
      const row: Row = {
        title: '',
        options: { store: untyped(Assigning), max: 5 },
        routes: (app) => {
          app.get('/a', { config: { rateLimit: { max: 1 } } }, ok);
          app.get('/b', { config: { rateLimit: {} } }, ok);
        },
        steps: ['/b'],
      };
      expect((await play(row, theirs)).answers[0]!.headers['x-ratelimit-limit']).to.equal('1');
      expect((await play(row, fastifyRateLimit)).answers[0]!.headers['x-ratelimit-limit']).to.equal('5');
    });

    it("a route's addHeaders hides what it says, not the rest", async () => {
      const row: Row = {
        title: '',
        routes: root({ max: 1, addHeaders: { 'x-ratelimit-reset': false } }),
        steps: times(2),
      };
      expect((await play(row, theirs)).answers[1]!.headers).to.not.have.any.keys(
        'x-ratelimit-limit',
        'retry-after',
      );
      const { headers } = (await play(row, fastifyRateLimit)).answers[1]!;
      expect(headers).to.include.keys('x-ratelimit-limit', 'retry-after');
      expect(headers).to.not.have.property('x-ratelimit-reset');
    });

    it('an allowList of addresses finds IPv6 clients, whose key is their network', async () => {
      await differ(
        {
          server: { trustProxy: true },
          options: { max: 1, allowList: ['2001:db8::1'] },
          steps: [from('2001:db8::1'), from('2001:DB8:0::1'), from('2001:db8::2'), from('2001:db8::3')],
        },
        [200, 429, 429, 429],
        [200, 200, 200, 429],
      );
    });

    it('on Redis, limits of calls and further registrations count for themselves', async () => {
      const calls: Omit<Row, 'title'> = {
        routes: (app) => {
          for (const url of ['/a', '/b']) app.get(url, { preHandler: app.rateLimit({ max: 1 }) }, ok);
        },
        options: { global: false },
        steps: ['/a', '/b', '/a'],
      };
      await differ(calls, [200, 429, 429], [200, 200, 429], { redis, nameSpace: 'calls-' });
      const both = { redis, nameSpace: 'twice-', max: 2 };
      const twice: Omit<Row, 'title'> = {
        routes: async (app, _log, plugin) => {
          await app.register(plugin, both);
          app.get('/', ok);
        },
        steps: times(3),
      };
      await differ(twice, [200, 429, 429], [200, 200, 429], both);
    });

    it('with continueExceeding, `ban` is for denials of one window', async () => {
      mock.timers.enable({ apis: ['Date'], now: Date.now() });
      await differ(
        {
          options: { max: 1, ban: 1, timeWindow: 1000, continueExceeding: true },
          steps: ['/', '/', 900, '/', 900, '/'],
        },
        [200, 429, 403, 403],
        [200, 429, 403, 403],
      );
      await differ(
        {
          options: { max: 1, ban: 2, timeWindow: 1000, continueExceeding: true },
          steps: ['/', '/', 900, '/', 900, '/', 900, '/'],
        },
        [200, 429, 429, 403, 403],
        [200, 429, 429, 429, 429],
      );
    });

    it('what would not limit, or by another window than was meant, is refused', async () => {
      const register = (options: unknown) =>
        errorOf(async () => {
          const app = Fastify();
          await app.register(fastifyRateLimit, options as RateLimitPluginOptions);
        });
      for (const timeWindow of ['soon', '285421 years', 0, '1.0001s', '']) {
        expect(await register({ timeWindow })).to.match(/^HEADGATE_INVALID_OPTION: timeWindow: /);
      }
      expect(await register({ hook: 'onResponse' })).to.match(/^HEADGATE_INVALID_OPTION: hook: /);
      expect(await register({ redis: {} })).to.match(/^HEADGATE_INVALID_OPTION: /);
      expect(await register({ cache: NaN })).to.match(/^HEADGATE_INVALID_OPTION: /);
      expect(await register({ groupId: 5 })).to.match(/^HEADGATE_INVALID_OPTION: groupId must be a string\./);
      const route = await errorOf(async () => {
        const app = Fastify();
        await app.register(fastifyRateLimit, {});
        app.get('/', { config: { rateLimit: untyped<false>(true) } }, ok);
      });
      expect(route).to.match(/^HEADGATE_INVALID_OPTION: Unknown value for route rate-limit configuration\./);
      for (const options of [{ max: () => NaN }, { timeWindow: () => 0 }] as RateLimitPluginOptions[]) {
        const { answers } = await play(
          { title: '', options: { ...options, skipOnError: true }, steps: ['/'] },
          fastifyRateLimit,
        );
        expect(JSON.parse(answers[0]!.body)).to.include({ statusCode: 500, code: 'HEADGATE_INVALID_OPTION' });
      }
    });

    it('a store that cannot be read is a coded error', async () => {
      const row: Row = {
        title: '',
        options: { global: false, store },
        routes: manual(),
        steps: ['/', '/peek'],
      };
      const [peers, ours] = await Promise.all([play(row, theirs), play(row, fastifyRateLimit)]);
      const { code, message, ...rest } = JSON.parse(ours.answers[1]!.body) as Record<string, string>;
      const { message: words, ...others } = JSON.parse(peers.answers[1]!.body) as Record<string, string>;
      expect(code).to.equal('HEADGATE_INVALID_ARGUMENT');
      expect(rest).to.deep.equal(others);
      expect(message).to.include(words);
    });
  });

  describe('when Redis fails', () => {
    it('answers 500, or skips, as they do', async () => {
      const gone = new Redis(servers.redis.port);
      await gone.quit();
      for (const skipOnError of [false, true]) {
        const row: Row = {
          title: '',
          options: (log) => ({ redis: gone, max: 2, skipOnError, ...logged(log) }),
          steps: times(2),
        };
        const [peers, ours] = await Promise.all([play(row, theirs), play(row, fastifyRateLimit)]);
        expect(ours.log).to.deep.equal(peers.log);
        if (skipOnError) expect(ours).to.deep.equal(peers);
        else expect(ours.answers.map(({ statusCode }) => statusCode)).to.deep.equal([500, 500]);
      }
    });

    it('limits again when it is back', async () => {
      const server = await startServer('redis');
      const client = new Redis(server.port, { retryStrategy: () => 20 });
      client.on('error', () => {});
      const app = Fastify();
      await app.register(fastifyRateLimit, { redis: client, max: 1, timeWindow: 60_000, skipOnError: true });
      app.get('/', ok);
      const status = async () => (await app.inject('/')).statusCode;
      expect([await status(), await status()]).to.deep.equal([200, 429]);
      await server.kill('SIGKILL');
      expect([await status(), await status()]).to.deep.equal([200, 200]);
      const again = await startServer('redis', { port: server.port });
      while ((await status()) !== 429) await setImmediate();
      await app.close();
      client.disconnect();
      await again.stop();
    });

    it('answers within a second when it does not', async () => {
      const sockets: Socket[] = [];
      const server = createServer((socket) => sockets.push(socket)).listen(0, '127.0.0.1');
      await new Promise((resolve) => server.once('listening', resolve));
      const stalled = new Redis((server.address() as AddressInfo).port);
      const row: Row = { title: '', options: { redis: stalled, skipOnError: true, max: 2 } };
      const { answers } = await play(row, fastifyRateLimit);
      expect(answers.map(({ headers }) => headers['x-ratelimit-remaining'])).to.deep.equal(['2', '2']);
      stalled.disconnect();
      for (const socket of sockets) socket.destroy();
      server.close();
    });
  });

  it('admits max of many at once, each with its own remaining', async () => {
    for (const common of [{}, { redis, nameSpace: 'at-once-' }]) {
      const app = Fastify();
      await app.register(fastifyRateLimit, {
        ...common,
        max: 5,
        timeWindow: 60_000,
        keyGenerator: async () => 'k',
      });
      app.get('/', ok);
      const answers = await Promise.all(times(20).map((url) => app.inject(url as string)));
      const left = answers
        .filter(({ statusCode }) => statusCode === 200)
        .map(({ headers }) => headers['x-ratelimit-remaining']);
      expect(left.sort()).to.deep.equal(['0', '1', '2', '3', '4']);
      await app.close();
    }
  });

  it('has what the module has', () => {
    expect(fastifyRateLimit.normalizeIP).to.equal(normalizeIP);
    for (const ip of [
      '127.0.0.1',
      'Example.COM',
      '::ffff:c000:0201',
      '2001:0DB8:ABCD:0012::1',
      '::1',
      'fe80::1%eth0',
    ]) {
      for (const subnet of [undefined, 0, 48, 56, 64, 100, 128]) {
        expect(normalizeIP(ip, subnet), `${ip}/${subnet}`).to.equal(theirs.normalizeIP(ip, subnet));
      }
    }
  });

  it('is the plugin that others depend on', async () => {
    const app = Fastify();
    await app.register(fastifyRateLimit, {});
    expect(app.hasPlugin('@fastify/rate-limit')).to.equal(true);
    await app.close();
  });
});
