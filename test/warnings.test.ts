// Mistakes in the set-up that are not errors: the warning of each, and its moment.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { build } from 'esbuild';
import express, { type Express } from 'express';
import Fastify, { type FastifyServerOptions } from 'fastify';
import request from 'supertest';
import { createLimiter, memoryStore, type Limiter, type LimiterOptions, type WarningCode } from 'headgate';
import { rateLimit, type RateLimitOptions } from 'headgate/express';
import { rateLimitPlugin, type RateLimitPluginOptions } from 'headgate/fastify';
import { limitFetch } from 'headgate/fetch';
import { rateLimit as honoLimit } from 'headgate/hono';
import { clientKey } from 'headgate/http';
import { rateLimit as koaLimit } from 'headgate/koa';
import { Hono } from 'hono';
import Koa from 'koa';
import { root } from '../scripts/lib/run.mjs';
import { emittedCodes, WARNING_CODES } from '../src/common/warnings.js';
import { FirstQuestion, type Streak } from '../src/limiter/setup-checks.js';

const quota = { limit: 1000, window: '1h' } as const;
const forwarded = { 'x-forwarded-for': '198.51.100.7' };

interface Ask {
  readonly headers?: Record<string, string>;
  readonly times?: number;
  /** The address of the client's connection. */
  readonly from?: string;
}

/** Sends requests to an application with the middleware. */
async function onExpress(
  options: RateLimitOptions,
  { headers = {}, times = 1, from }: Ask = {},
  prepare: (app: Express) => unknown = () => {},
): Promise<void> {
  const app = express();
  prepare(app);
  if (from !== undefined)
    app.use((req, _, next) => next(void Object.defineProperty(req, 'ip', { value: from })));
  app.use(rateLimit(options), (_, res) => void res.end());
  for (let i = 0; i < times; i++) await request(app).get('/').set(headers);
}

async function onFastify(
  options: RateLimitPluginOptions,
  { headers = {}, times = 1, from = '127.0.0.1' }: Ask = {},
  server: FastifyServerOptions = {},
): Promise<void> {
  const app = Fastify(server);
  await app.register(rateLimitPlugin, options);
  for (let i = 0; i < times; i++) await app.inject({ url: '/', headers, remoteAddress: from });
  await app.close();
}

/** The middleware of Express on a server of Node, as on connect. */
async function onKoa(settings: object, fields: Record<string, string> = forwarded): Promise<void> {
  const app = Object.assign(new Koa(), settings);
  app.use(koaLimit(quota)).use((ctx) => void (ctx.body = 'ok'));
  await request(app.callback()).get('/').set(fields).expect(200);
}

async function onNode(options: RateLimitOptions, { headers = {} }: Ask): Promise<void> {
  const limit = rateLimit(options);
  const server = createServer((req, res) => limit(req, res, () => void res.end()));
  await request(server).get('/').set(headers).expect(200);
}

const express200 = async (): Promise<void> => {
  const app = express();
  let admitted = 0;
  app.use(async (req, res, next) => {
    await Promise.resolve();
    rateLimit({ limit: 2, window: '1h' })(req, res, next);
  });
  app.get('/', (_, res) => void res.end(String(++admitted)));
  for (let i = 0; i < 5; i++) await request(app).get('/').expect(200);
  expect(admitted).to.equal(5);
};

/** Sends `times` requests, each of which creates the limiter that decides on it. */
async function limiterOfEach(times: number, options: () => object = () => ({})): Promise<void> {
  const app = Fastify();
  app.get('/', async ({ ip }) => {
    await Promise.resolve();
    const { allowed } = await createLimiter({ limit: 1, window: '1h', ...options() }).consume(ip);
    return { allowed };
  });
  for (let i = 0; i < times; i++) expect((await app.inject('/')).json()).to.deep.equal({ allowed: true });
  await app.close();
}

async function limiterInRoute(): Promise<void> {
  const app = Fastify();
  await app.register(rateLimitPlugin, { global: false });
  app.get('/', (req, reply) => {
    app.rateLimit({ limit: 1, window: '1h' }).call(app, req, reply, () => void reply.send('ok'));
  });
  for (let i = 0; i < 5; i++) expect((await app.inject('/')).statusCode).to.equal(200);
  await app.close();
}

async function routeWithoutPlugin(config: object, other = false): Promise<void> {
  const app = Fastify();
  if (other) app.decorate('createRateLimit' as string, () => {});
  app.get('/search', { config }, () => 'found');
  await app.ready();
  await app.close();
}

const costly = async (options: Partial<LimiterOptions> = {}): Promise<void> => {
  const limiter = createLimiter({ limit: 3, window: '1h', ...options });
  expect(await limiter.consume('key', { cost: 5 })).to.have.property('reason', 'cost-exceeds-capacity');
};

const ip = (req: { ip?: string | undefined }) => req.ip;
const subnet = (req: { ip?: string | undefined }) => clientKey(req.ip);
const never = () => undefined;
const byAccount = { policies: [{ ...quota, by: 'account' }] };

const mistakes: Partial<
  Record<WarningCode, readonly [mistake: string, cause: () => unknown, says: RegExp][]>
> = {
  HEADGATE_UNTRUSTED_PROXY: [
    [
      'Express: X-Forwarded-For without trust proxy',
      () => onExpress(quota, { headers: forwarded }),
      /'trust proxy'/,
    ],
    ['a server of Node: the same', () => onNode(quota, { headers: forwarded }), /`clientIp`/],
    ['Fastify: the same', () => onFastify(quota, { headers: forwarded }), /trustProxy/],
    [
      'the same with a list of addresses',
      () =>
        onExpress({ ...quota, keyGenerator: () => 'user', allowList: ['10.0.0.1'] }, { headers: forwarded }),
      /X-Forwarded-For/,
    ],
    ['Koa: X-Forwarded-For without proxy', () => onKoa({}), /maxIpsCount/],
    [
      'Express: other proxies are trusted than that which asks',
      () => onExpress(quota, { headers: forwarded }, (app) => app.set('trust proxy', '10.0.0.0/8')),
      /trust ?proxy/i,
    ],
    [
      'Fastify: the same with others',
      () => onFastify(quota, { headers: forwarded }, { trustProxy: '10.0.0.0/8' }),
      /trust ?proxy/i,
    ],
    [
      'Fastify: trustProxy is a number, which it takes for nobody',
      () => onFastify(quota, { headers: forwarded }, { trustProxy: 1 as never }),
      /trust ?proxy/i,
    ],
    [
      'an untrusted proxy as key of a dimension',
      () => onFastify({ ...byAccount, keys: { account: ip } }, { headers: forwarded }),
      /X-Forwarded-For/,
    ],
    [
      'an untrusted proxy within a longer key, by clientKey',
      () => onExpress({ ...quota, keyGenerator: (req) => `/${subnet(req)}` }, { headers: forwarded }),
      /X-Forwarded-For/,
    ],
  ],
  HEADGATE_ANY_PROXY_TRUSTED: [
    [
      'Express: trust proxy is true',
      () => onExpress(quota, { headers: forwarded }, (app) => app.set('trust proxy', true)),
      /trust ?proxy/i,
    ],
    [
      'Fastify: trustProxy is true',
      () => onFastify(quota, { headers: forwarded }, { trustProxy: true }),
      /trust ?proxy/i,
    ],
    [
      'Koa: proxy without maxIpsCount, so that the first address counts',
      () => onKoa({ proxy: true }),
      /maxIpsCount/,
    ],
    [
      'Express: trust proxy is a function that is always true',
      () => onExpress(quota, { headers: forwarded }, (app) => app.set('trust proxy', () => true)),
      /trust ?proxy/i,
    ],
  ],
  HEADGATE_FORWARDED_UNREAD: [
    [
      'Express: Forwarded',
      () => onExpress(quota, { headers: { forwarded: 'for=198.51.100.7' } }),
      /Forwarded/,
    ],
    [
      'Fastify: Forwarded',
      () => onFastify(quota, { headers: { forwarded: 'for=198.51.100.7' } }),
      /Forwarded/,
    ],
  ],
  HEADGATE_LIMITER_IN_HANDLER: [
    ['Express: a limiter in a handler', express200, /\b5\b/],
    ['Fastify: a limiter in a handler', limiterInRoute, /\b5\b/],
    ['createLimiter in a handler', () => limiterOfEach(500), /\b500\b/],
    [
      'createLimiter in a handler, with a memory store of its own',
      () => limiterOfEach(500, () => ({ store: memoryStore() })),
      /\b500\b/,
    ],
  ],
  HEADGATE_WHOLE_IPV6_KEY: [
    [
      'Express: a bare IPv6 address as key',
      () => onExpress({ ...quota, keyGenerator: ip }, { from: '2001:db8::1' }),
      /clientKey\(req\.ip\)/,
    ],
    [
      'Fastify: a bare IPv6 address as key',
      () => onFastify({ ...quota, keyGenerator: ip }, { from: '::ffff:192.0.2.1' }),
      /clientKey\(req\.ip\)/,
    ],
    [
      'a bare IPv6 address as key of a dimension',
      () => onExpress({ ...byAccount, keys: { account: ip } }, { from: '2001:db8::1' }),
      /^keys\.account\b/,
    ],
    [
      'an IPv6 address within a longer key',
      () => onFastify({ ...quota, keyGenerator: ({ ip }) => `ip:${ip}` }, { from: '2001:db8::1' }),
      /^keyGenerator\b/,
    ],
  ],
  HEADGATE_NEVER_A_KEY: [
    [
      'never a key of a dimension',
      () => onFastify({ ...byAccount, keys: { account: never } }, { times: 100 }),
      /keys\.account\b/,
    ],
    [
      'never a key of either',
      () => {
        const policies = [{ name: 'all', ...quota }, ...byAccount.policies];
        return onFastify({ policies, keyGenerator: never, keys: { account: never } }, { times: 100 });
      },
      /\b100\b.*keyGenerator and keys\.account\b/,
    ],
    [
      'never a key of a dimension, while another policy applies',
      () => {
        const policies = [{ name: 'all', limit: 1e6, window: '1h' }, ...byAccount.policies];
        return onFastify({ policies, keys: { account: never } }, { times: 1000 });
      },
      /\b999\b.*keys\.account\b/,
    ],
    [
      'Express: never a key',
      () => onExpress({ ...quota, keyGenerator: never }, { times: 100 }),
      /'preHandler'/,
    ],
    [
      'Fastify: never a key',
      () => onFastify({ ...quota, keyGenerator: never }, { times: 100 }),
      /'preHandler'/,
    ],
  ],
  HEADGATE_SHORT_WINDOW: [
    ['window: 60', () => createLimiter({ limit: 5, window: 60 }), /\b60\b.*'60s'/],
    ['window: 60 of Express', () => rateLimit({ limit: 5, window: 60 }), /'60s'/],
    ['window: 60 of limitFetch', () => limitFetch(fetch, { limit: 5, window: 60 }), /'60s'/],
    ['lease: 30', () => createLimiter({ algorithm: 'concurrency', limit: 5, lease: 30 }), /\b30\b/],
    ['window: 60 of a tier', () => onExpress({ policies: () => [{ limit: 5, window: 60 }] }), /'60s'/],
  ],
  HEADGATE_SHARE_PER_KEY: [
    [
      'a limit shared per key',
      () => createLimiter({ limit: 1000, window: '1m', share: 'tenant' }),
      /three keys have 3000\..*by: 'provider'/,
    ],
    [
      'slots of a tier, shared per key',
      () => createLimiter({ tiers: { pro: 'concurrency 5/30s share tenant' } }),
      /three keys have 15\./,
    ],
  ],
  HEADGATE_COST_ABOVE_CAPACITY: [
    ['a cost above the capacity', () => costly(), /\b5\b.*'default'/],
    [
      'a cost above the capacity of a route',
      () => onExpress({ limit: 3, window: '1h', cost: () => 5 }),
      /\b5\b/,
    ],
  ],
  HEADGATE_PLUGIN_MISSING: [
    [
      'config.rateLimit without the plugin',
      () => routeWithoutPlugin({ rateLimit: { limit: 5, window: '1m' } }),
      /\/search.*register\(rateLimitPlugin\)/,
    ],
    [
      'a list in config.rateLimit without the plugin',
      () => routeWithoutPlugin({ rateLimit: [{ limit: 5, window: '1m' }] }),
      /\/search/,
    ],
  ],
};

/** Creates a limiter at the first request of each of `tenants` tenants, and keeps it. */
async function madeLate(tenants: number): Promise<void> {
  const app = express();
  const made = new Map<string, ReturnType<typeof rateLimit>>();
  app.use('/:tenant', (req, res, next) => {
    const limit = made.get(req.params.tenant) ?? rateLimit({ limit: 2, window: '1h' });
    made.set(req.params.tenant, limit);
    limit(req, res, next);
  });
  app.use((_, res) => void res.end());
  for (let i = 0; i < tenants; i++) for (let j = 0; j < 2; j++) await request(app).get(`/${i}`).expect(200);
}

const fine: readonly [what: string, cause: () => unknown][] = [
  ['a limiter that the first request creates and the application keeps', () => madeLate(1)],
  ['limiters that are made by the first request of each tenant, and kept', () => madeLate(8)],
  ['a shared limit by its dimension', () => createLimiter('1000/1m by provider share tenant')],
  [
    'a shared limit that each key has for itself on purpose',
    () => createLimiter('1000/1m by key share tenant'),
  ],
  ['a trusted proxy', () => onExpress(quota, { headers: forwarded }, (app) => app.set('trust proxy', 1))],
  ['by its address', () => onFastify(quota, { headers: forwarded }, { trustProxy: '127.0.0.1' })],
  ['by their number', () => onFastify(quota, { headers: forwarded }, { trustProxy: (_, hop) => hop < 1 })],
  ['the same in Koa', () => onKoa({ proxy: true, maxIpsCount: 1 })],
  [
    'a field of Koa that only the proxy writes',
    () => onKoa({ proxy: true, proxyIpHeader: 'X-Real-IP' }, { ...forwarded, 'x-real-ip': '198.51.100.7' }),
  ],
  [
    'X-Forwarded-For where keys are no addresses',
    () => onExpress({ ...quota, keyGenerator: () => 'user' }, { headers: forwarded }),
  ],
  [
    'X-Forwarded-For where no policy is by the address',
    () => onExpress({ ...byAccount, keys: { account: () => 'ada' } }, { headers: forwarded }),
  ],
  [
    'the same, and all requests have a key of the dimension',
    () => onFastify({ ...byAccount, keys: { account: () => 'ada' } }, { headers: forwarded, times: 101 }),
  ],
  [
    'a whole IPv6 address that no policy counts by',
    () => {
      const keys = { account: () => 'ada' };
      return onFastify({ ...byAccount, keyGenerator: ip, keys }, { from: '2001:db8::1' });
    },
  ],
  [
    'a key that ends as an address does',
    () => onFastify({ ...quota, keyGenerator: () => 'tenant::1' }, { from: '::1' }),
  ],
  ['a key of a network', () => onExpress({ ...quota, keyGenerator: subnet }, { from: '2001:db8::1' })],
  ['a bare IPv4 address', () => onFastify({ ...quota, keyGenerator: ip })],
  ['99 requests without a key', () => onFastify({ ...quota, keyGenerator: never }, { times: 99 })],
  [
    'some requests with a key',
    () => {
      let n = 0;
      return onFastify({ ...quota, keyGenerator: () => (n++ === 0 ? 'user' : undefined) }, { times: 101 });
    },
  ],
  ['a limiter of the application in a handler', () => onExpress(quota, { times: 3 })],
  [
    'a shared limiter in a handler',
    async () => {
      const limiter = createLimiter(quota);
      const app = express();
      app.use((req, res, next) => rateLimit({ limiter })(req, res, next));
      await request(app).get('/');
    },
  ],
  ['499 limiters, each asked once when it is made', () => limiterOfEach(499)],
  [
    'limiters in a handler that share their state',
    () => {
      const store = memoryStore();
      const options = { name: 'api', store, limit: 1000 };
      return limiterOfEach(600, () => options);
    },
  ],
  [
    'many limiters that are made at the start, and asked later',
    async () => {
      const limiters = Array.from({ length: 600 }, () => createLimiter(quota));
      await new Promise(setImmediate);
      for (const limiter of limiters) await limiter.consume('ada');
    },
  ],
  [
    'many that are made and asked in a loop, and then used',
    async () => {
      for (let i = 0; i < 600; i++) {
        const limiter = createLimiter(quota);
        for (let j = 0; j < 3; j++) await limiter.consume('ada');
      }
    },
  ],
  [
    'a limiter for each tenant, made when it first comes',
    async () => {
      const tenants = new Map<number, Limiter>();
      for (let i = 0; i < 2000; i++) {
        const tenant = (i * 7919) % 450;
        const limiter = tenants.get(tenant) ?? createLimiter(quota);
        tenants.set(tenant, limiter);
        await limiter.consume(String(i));
        await new Promise(setImmediate);
      }
    },
  ],
  [
    'a route that was declared before the plugin, at its first request',
    async () => {
      const app = Fastify();
      void app.register(rateLimitPlugin);
      app.get('/', { config: { rateLimit: { ...quota, limit: 5 } } }, () => 'ok');
      await app.inject('/');
      await app.close();
    },
  ],
  [
    'policies by other keys alone, which no address and no keyGenerator concerns',
    () =>
      onExpress(
        { policies: ['1000/1h by account'], keys: { account: () => 'ada' } },
        { headers: forwarded, times: 100 },
      ),
  ],
  ["window: '60ms'", () => createLimiter({ limit: 5, window: '60ms' })],
  ['window: 1000', () => createLimiter({ limit: 5, window: 1000 })],
  ['a store in memory, in one process', () => createLimiter({ ...quota, store: memoryStore() })],
  [
    "another limiter's config.rateLimit",
    () => routeWithoutPlugin({ rateLimit: { max: 5, timeWindow: '1m' } }),
  ],
  ['a route of @fastify/rate-limit', () => routeWithoutPlugin({ rateLimit: { limit: 5 } }, true)],
  ['config.rateLimit: false', () => routeWithoutPlugin({ rateLimit: false })],
];

describe('warnings of the set-up', () => {
  const { emitWarning } = process;
  let warned: { code: string | undefined; message: string }[] = [];

  beforeEach(async () => {
    process.emitWarning = ((message: string, options: { code?: string }) => {
      // Stores of other suites that are down are still probed now and then.
      if (options.code !== 'HEADGATE_STORE_DOWN') warned.push({ code: options.code, message });
    }) as typeof emitWarning;
    // Limiters of earlier tests that decided once must not count here.
    const kept = createLimiter(quota);
    for (let i = 0; i < 2; i++) await kept.consume('ada');
    await madeLate(1);
    warned = [];
    emittedCodes.clear();
  });
  afterEach(() => (process.emitWarning = emitWarning));

  for (const [code, all] of Object.entries(mistakes))
    for (const [mistake, cause, values] of all)
      it(`${mistake}: ${code}, once`, async () => {
        await cause();
        await cause();
        expect(warned.map(({ code }) => code)).to.deep.equal([code]);
        expect(warned[0]!.message)
          .to.match(values)
          .and.to.match(new RegExp(`[.] See node_modules/headgate/docs/errors\\.md#${code.toLowerCase()}$`));
      });

  for (const [what, cause] of fine) {
    it(`no warning for ${what}`, async () => {
      await cause();
      expect(warned).to.deep.equal([]);
    });
  }

  it('a limiter that decides twice resets the count of limiters in a row', () => {
    const messages: string[] = [];
    const streak: Streak = { most: 3, warning: 'three in a row', length: 0 };
    const made = () => {
      const question = new FirstQuestion((_, message) => messages.push(message), streak);
      expect(question.check()).to.be.true;
      return question;
    };
    for (let i = 0; i < 4; i++) expect(made().check()).to.be.false;
    made();
    made();
    expect(messages).to.deep.equal([]);
    made();
    expect(messages).to.deep.equal(['three in a row']);
  });

  it('tests may create an app for a few requests, or for any number if NODE_ENV is test', async () => {
    const ask = async (apps: number) => {
      for (let i = 0; i < apps; i++) {
        const app = new Hono();
        app.use(honoLimit({ ...quota, keyGenerator: () => 'ada' }));
        app.get('/', (c) => c.text('found'));
        expect((await app.request('/')).status).to.equal(200);
      }
    };
    await ask(4);
    const before = process.env['NODE_ENV'];
    process.env['NODE_ENV'] = 'test';
    try {
      await ask(10);
    } finally {
      if (before === undefined) delete process.env['NODE_ENV'];
      else process.env['NODE_ENV'] = before;
    }
    expect(warned).to.deep.equal([]);
    await ask(1);
    expect(warned.map(({ code }) => code)).to.deep.equal(['HEADGATE_LIMITER_IN_HANDLER']);
  });

  it('no warning for a short window with a unit, whatever the limit is', async () => {
    createLimiter({ limit: 100, window: '100ms' });
    createLimiter('500/500ms');
    await new Promise(setImmediate);
    expect(warned).to.deep.equal([]);
  });

  it('only the first 1,000 requests of a limiter are checked', async () => {
    const app = Fastify();
    await app.register(rateLimitPlugin, { limit: 1e6, window: '1h' });
    for (let i = 0; i < 1000; i++) await app.inject('/');
    await app.inject({ url: '/', headers: forwarded });
    await app.close();
    expect(warned).to.deep.equal([]);
  });

  describe('warnings: false, or a list', () => {
    it('work on a limiter, on adapters and on a store', async () => {
      for (const warnings of [false, ['HEADGATE_UNTRUSTED_PROXY', 'HEADGATE_COST_ABOVE_CAPACITY']] as const) {
        await onExpress({ ...quota, warnings }, { headers: forwarded });
        await onFastify({ ...quota, warnings }, { headers: forwarded });
        await onExpress({ limiter: createLimiter(quota), warnings }, { headers: forwarded });
        await costly({ warnings });
        await onExpress({ limit: 3, window: '1h', cost: () => 5, warnings });
        memoryStore({ warnings });
      }
      expect(warned).to.deep.equal([]);
      // A warning silenced by a limiter still appears for another limiter.
      await onExpress(quota, { headers: forwarded });
      expect(warned).to.have.length(1);
    });

    it('silence no other warning', () => {
      createLimiter({ limit: 5, window: 60, warnings: ['HEADGATE_UNTRUSTED_PROXY'] });
      expect(warned.map(({ code }) => code)).to.deep.equal(['HEADGATE_SHORT_WINDOW']);
    });

    it('apply to the routes of a plugin', async () => {
      const app = Fastify();
      await app.register(rateLimitPlugin, { warnings: false });
      app.get('/', { config: { rateLimit: { limit: 5, window: 60 } } }, () => 'ok');
      await app.inject({ url: '/', headers: forwarded });
      await app.close();
      expect(warned).to.deep.equal([]);
    });

    for (const warnings of [true, null, 'HEADGATE_STORE_FULL', ['HEADGATE_X'], {}]) {
      it(`${JSON.stringify(warnings)} is refused`, () => {
        for (const make of [createLimiter, rateLimit, memoryStore] as ((options: object) => unknown)[]) {
          const options = make === memoryStore ? { warnings } : { ...quota, warnings };
          expect(() => make(options))
            .to.throw(/^warnings: .*HEADGATE_UNTRUSTED_PROXY/)
            .with.property('code', 'HEADGATE_INVALID_OPTION');
        }
      });
    }
  });

  it('every code has its section in the docs', () => {
    const page = readFileSync(`${root}/docs/errors.md`, 'utf8');
    const [, warnings = ''] = page.split('\n## Warnings\n');
    const sections = [...warnings.matchAll(/^### (\w+)$/gm)].map(([, code]) => code);
    expect(sections).to.have.members([...WARNING_CODES]);
  });
});

describe('a memory store where several processes serve', function () {
  this.timeout(60_000);
  const execute = promisify(execFile);
  const child = `
    import cluster from 'node:cluster';
    import { isMainThread, Worker } from 'node:worker_threads';
    import { createLimiter, memoryStore } from './src/index.ts';

    const [, , how] = process.argv;
    if (how === 'cluster' && cluster.isPrimary) cluster.fork();
    else if (how === 'thread' && isMainThread) new Worker(__filename, { argv: [how] });
    else {
      process.on('warning', ({ code, message }) => console.log(code, message));
      createLimiter({ limit: 5, window: '1m' });
      createLimiter({ limit: 5, window: '1m', store: memoryStore() });
      if (cluster.isWorker) setImmediate(() => cluster.worker.disconnect());
    }`;
  let directory: string;
  let outfile: string;

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'headgate-processes-'));
    outfile = join(directory, 'child.cjs');
    const stdin = { contents: child, resolveDir: root, loader: 'ts' } as const;
    await build({ stdin, outfile, bundle: true, platform: 'node', format: 'cjs', logLevel: 'error' });
  });
  after(() => rmSync(directory, { recursive: true }));

  async function run(how: string, env: NodeJS.ProcessEnv = {}): Promise<string> {
    const { stdout } = await execute(process.execPath, [outfile, how], {
      env: { ...process.env, NODE_ENV: '', ...env },
    });
    return stdout;
  }

  it('a single process: no warning', async () => {
    expect(await run('alone')).to.equal('');
    expect(await run('alone', { NODE_APP_INSTANCE: '0' })).to.equal('');
  });

  it('a second instance of PM2', async () => {
    expect(await run('alone', { NODE_APP_INSTANCE: '1' })).to.match(
      /^HEADGATE_LIMIT_PER_PROCESS .*instances.*\n$/,
    );
  });

  it('a worker of a cluster', async () => {
    expect(await run('cluster')).to.match(/^HEADGATE_LIMIT_PER_PROCESS .*cluster.*\n$/);
  });

  it('a worker thread, but not the thread of a test runner', async () => {
    expect(await run('thread')).to.match(/^HEADGATE_LIMIT_PER_PROCESS .*thread.*\n$/);
    expect(await run('thread', { NODE_ENV: 'test' })).to.equal('');
  });
});
