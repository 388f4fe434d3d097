// Messages, causes and warnings never contain a secret: each option of each function gets URLs, tokens, connections and their options.
import { inspect } from 'node:util';
import { expect } from 'chai';
import express from 'express';
import Fastify from 'fastify';
import { Redis } from 'ioredis';
import pg from 'pg';
import { createLimiter, HeadgateError, memoryStore } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { rateLimit as standIn } from 'headgate/compat/express-rate-limit';
import fastifyStandIn from 'headgate/compat/fastify-rate-limit';
import { rateLimited } from 'headgate/decorators';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { limitFetch } from 'headgate/fetch';
import { rateLimit as honoLimit } from 'headgate/hono';
import { rateLimit as koaLimit } from 'headgate/koa';
import { RateLimitModule } from 'headgate/nestjs';
import { instrument } from 'headgate/opentelemetry';
import { postgresStore } from 'headgate/postgres';
import { prometheusMetrics } from 'headgate/prometheus';
import { redisStore } from 'headgate/redis';
import { sqliteStore } from 'headgate/sqlite';
import { upstashRedis } from 'headgate/upstash';
import { rateLimit as webLimit } from 'headgate/web';
import { dashboard } from 'headgate-dashboard';
import request from 'supertest';
import { options } from '../../scripts/docs/options.js';
import { show, withoutSecretFields, withoutSecrets } from '../../src/common/shown.js';
import { emittedCodes } from '../../src/common/warnings.js';
import { headgate } from '../../packages/cli/test/cli.js';
import { startServer, type TestServer } from '../support/servers.js';

/** Parts of the secrets. No text may contain one. */
const SECRETS = ['hunter2', 'AXkzASQgN2Q0', 'eyJhbGciOi', '4eC39HqLyjWD'];
const TOKEN = 'AXkzASQgN2Q0ZmI5YzItZDUxNC00Yjk4LWE0ZjMtNzE2NzQ1';

const client = new Redis({
  host: '127.0.0.1',
  port: 1,
  password: 'hunter2',
  username: 'ada',
  lazyConnect: true,
});
const pool = new pg.Pool({ connectionString: 'postgres://ada:hunter2@127.0.0.1:1/x' });

/** Values that users pass by mistake. */
const SECRETIVE: readonly (readonly [kind: string, value: unknown])[] = [
  ['a URL', 'redis://ada:hunter2@127.0.0.1:6379/0'],
  ['a URL without a user', 'rediss://:hunter2@h'],
  ['a URL of https', 'https://ada:hunter2@h/path?token=x'],
  ['a URL with a token', `https://h/?access_token=${TOKEN}`],
  ['an object URL', new URL('postgres://ada:hunter2@h/db')],
  ['an address without a scheme', 'ada:hunter2@127.0.0.1:6379'],
  ['a connection string', 'host=h user=ada password=hunter2'],
  ['a token', TOKEN],
  [
    'a token of JWT',
    'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U',
  ],
  ['a key of an API', 'sk_live_4eC39HqLyjWDarjtT1zdp7dc'],
  ['an Authorization field', 'Bearer hunter2'],
  ['options of a client', { host: 'h', port: 6379, password: 'hunter2' }],
  ['nested options', { sentinels: [{ host: 'h' }], redisOptions: { username: 'ada', password: 'hunter2' } }],
  ['options with a URL', { url: 'redis://ada:hunter2@h' }],
  ['options of a pool', { connectionString: 'postgres://ada:hunter2@h/db' }],
  ['fields of a request', { headers: { authorization: 'Basic aHVudGVyMjpodW50ZXIy hunter2' } }],
  ['an object of a user', { id: 42, name: 'ada', passwordHash: 'hunter2' }],
  ['a list', ['redis://ada:hunter2@h']],
  ['a client', client],
  ['a pool', pool],
  [
    'a class',
    new (class Connection {
      readonly uri = 'redis://ada:hunter2@h';
    })(),
  ],
];

/** All that a log could show of an error. */
function textsOf(error: unknown): string {
  const texts: unknown[] = [inspect(error, { depth: 10, showHidden: true }), JSON.stringify(error)];
  for (let at = error; at instanceof Error; at = at.cause)
    texts.push(at.message, at.stack, JSON.stringify(at));
  return texts.join('\n');
}

function expectDiscreet(text: string, what: string): void {
  for (const secret of SECRETS)
    expect(text.includes(secret), `${what} shows ${secret}: ${text.slice(0, 2000)}`).to.equal(false);
}

/** The errors and warnings of a call and of its promise. */
async function complaintsOf(call: () => unknown): Promise<string> {
  const texts: string[] = [];
  const hear = (warning: Error): void => void texts.push(textsOf(warning));
  process.on('warning', hear);
  try {
    await call();
  } catch (error) {
    texts.push(textsOf(error));
  }
  await new Promise(setImmediate);
  process.removeListener('warning', hear);
  return texts.join('\n');
}

const limit = 5;
const window = '1m';
const namesOf = (...sections: string[]): string[] =>
  options()
    .filter((each) => sections.includes(each.section))
    .map(({ name }) => name);
const onFastify = (plugin: unknown, given: unknown) => async () => {
  const app = Fastify();
  try {
    await app.register(plugin as never, given as never);
    app.get('/', () => 'ok');
    await app.ready();
  } finally {
    await app.close();
  }
};

const LIMITERS = namesOf('Limiters', 'Policies');
const REQUESTS = [...LIMITERS, ...namesOf('Requests')];

/** A function, and its options. */
const factories: readonly [
  name: string,
  make: (options: never) => unknown,
  names: readonly string[],
  base?: object,
][] = [
  ['createLimiter', createLimiter, LIMITERS],
  ['rateLimit of Express', rateLimit, REQUESTS],
  ['rateLimit of Hono', honoLimit, REQUESTS],
  ['rateLimit of Koa', koaLimit, REQUESTS],
  ['rateLimit of web', webLimit, REQUESTS],
  ['rateLimitPlugin', (given) => onFastify(rateLimitPlugin, given)(), [...REQUESTS, ...namesOf('Fastify')]],
  ['RateLimitModule.forRoot', (given) => RateLimitModule.forRoot(given), [...REQUESTS, ...namesOf('NestJS')]],
  ['memoryStore', memoryStore, namesOf('memoryStore'), {}],
  ['redisStore', (given) => redisStore(client, given), namesOf('redisStore'), {}],
  ['sqliteStore', (given) => sqliteStore('/tmp/headgate-secrets.db', given), namesOf('sqliteStore'), {}],
  ['postgresStore', (given) => postgresStore(pool, given), namesOf('postgresStore'), {}],
  [
    'upstashRedis',
    (given) => upstashRedis(given),
    ['url', 'token', 'fetch'],
    { url: 'https://h', token: 'x' },
  ],
  ['limitFetch', (given) => limitFetch(fetch, given), [...LIMITERS, ...namesOf('limitFetch')]],
  [
    'rateLimited',
    (given) => rateLimited(() => 1, given),
    [...LIMITERS, ...namesOf('rateLimited and RateLimited')],
  ],
  ['createAdmin', (given) => createAdmin(client, given), ['prefix', 'timeout', 'hashKeys'], {}],
  ['instrument', (given) => instrument(given)(), ['nearLimit', 'meter'], {}],
  ['prometheusMetrics', (given) => prometheusMetrics(given)(), ['register', 'nearLimit'], {}],
  ['dashboard', dashboard, ['store', 'basePath', 'actions', 'auth', 'prefix'], { store: client }],
  [
    'the stand-in of express-rate-limit',
    standIn as never,
    ['limit', 'windowMs', 'store', 'keyGenerator', 'message'],
    {},
  ],
  [
    'the stand-in of @fastify/rate-limit',
    (given) => onFastify(fastifyStandIn, given)(),
    ['max', 'timeWindow', 'redis', 'store'],
    {},
  ],
];

/** Functions that take such a value in the place of their first argument, or within it. */
const places: readonly [name: string, make: (value: never) => unknown][] = [
  ...factories
    .map(([name, make]) => [`${name}(value)`, make] as const)
    .map(([name, make]) => [name, make] as [string, (value: never) => unknown]),
  ['redisStore(value)', (value) => redisStore(value)],
  ['sqliteStore(value)', (value) => sqliteStore(value)],
  ['postgresStore(value)', (value) => postgresStore(value)],
  ['createAdmin(value)', (value) => createAdmin(value)],
  ['limitFetch(value)', (value) => limitFetch(value, { limit, window })],
  ['rateLimited(value)', (value) => rateLimited(value, { limit, window })],
  ['policies: [value]', (value) => createLimiter({ policies: [value] })],
  ['by', (value) => createLimiter({ policies: [{ limit, window, by: value }] })],
  [
    'ban of bans',
    (value) =>
      Promise.all(
        namesOf('Bans').map((name) =>
          complaintsOf(() => createLimiter({ limit, window, ban: { [name]: value } })),
        ),
      ).then((all) => {
        throw new Error(all.join());
      }),
  ],
  ['tiers', (value) => createLimiter({ tiers: { [String(value)]: value } })],
  ['thresholds of a policy', (value) => createLimiter({ limit, window, thresholds: [value] })],
  ['allowList: [value]', (value) => rateLimit({ limit, window, allowList: [value] })],
  ['headers: [value]', (value) => rateLimit({ limit, window, headers: [value] })],
  ['keys: { account: value }', (value) => rateLimit({ limit, window, keys: { account: value } })],
  ['consume(value)', (value) => createLimiter({ limit, window }).consume(value)],
  ['consume({ key: value })', (value) => createLimiter({ limit, window }).consume({ key: value })],
  ['consume(key, value)', (value) => createLimiter({ limit, window }).consume('k', value)],
  ['cost', (value) => createLimiter({ limit, window }).consume('k', { cost: value })],
  ['tier', (value) => createLimiter({ limit, window }).consume('k', { tier: value })],
  ['id', (value) => createLimiter({ limit, window }).consume('k', { id: value })],
  ['wait', (value) => createLimiter({ limit: 1, window }).wait(value, { cost: 1, timeout: value })],
  [
    'a wait that is denied',
    (value) =>
      createLimiter({ limit: 1, window })
        .wait(String(value), { cost: 2, timeout: 1 })
        // The key of `decision` is data.
        .catch((error: Error) => Promise.reject(new Error(error.message))),
  ],
  ['ban(key, value)', (value) => createLimiter({ limit, window, ban: {} }).ban('k', value)],
  ['override(key, value)', (value) => createLimiter({ limit, window, overrides: true }).override('k', value)],
  [
    'override of another policy',
    (value) => createLimiter({ limit, window, overrides: true }).override('k', { [String(value)]: value }),
  ],
  ['usage(value)', (value) => createLimiter({ limit, window }).usage(value)],
  [
    'a closed limiter',
    async (value) => {
      const limiter = createLimiter({ limit, window, name: value });
      await limiter.close();
      await limiter.consume('k');
    },
  ],
];

/** Functions of the options of requests that return, throw or reject with a value. */
const callbacks = [
  'keyGenerator',
  'cost',
  'tier',
  'weight',
  'requestId',
  'clientIp',
  'skip',
  'enabled',
  'policies',
  'limiter',
];

async function logOf(given: object): Promise<string> {
  const app = express();
  let text = '';
  const quota = 'policies' in given ? {} : { limit, window };
  const tiers = 'tier' in given ? { tiers: { pro: '5/1m' } } : {};
  const refused = await complaintsOf(() => {
    app.use(rateLimit({ ...quota, ...tiers, ...given } as never));
  });
  app.use(((error, _req, res, _next) => {
    text = textsOf(error);
    res.end();
  }) as express.ErrorRequestHandler);
  const answer = await request(app).get('/');
  return refused + text + answer.text;
}

describe('secrets', () => {
  let server: TestServer;
  before(async () => void (server = await startServer('redis')));
  after(async () => {
    emittedCodes.clear();
    client.disconnect();
    await server.stop();
  });

  describe('in the place of an option', () => {
    for (const [name, make, names, base = { limit, window }] of factories) {
      it(name, async () => {
        for (const [kind, value] of SECRETIVE) {
          for (const option of names) {
            const said = await complaintsOf(() => make({ ...base, [option]: value } as never));
            expectDiscreet(said, `${name}, ${option}: ${kind}`);
          }
          const unknown = await complaintsOf(() =>
            make({ ...base, [`x${TOKEN}`]: value, password: value } as never),
          );
          expectDiscreet(unknown, `${name} with unknown options: ${kind}`);
        }
      });
    }
  });

  for (const [name, make] of places) {
    it(`in the place of an argument: ${name}`, async () => {
      for (const [kind, value] of SECRETIVE)
        expectDiscreet(await complaintsOf(() => make(value as never)), `${name}: ${kind}`);
    });
  }

  for (const option of callbacks) {
    it(`returned or thrown by ${option}`, async () => {
      for (const [kind, value] of SECRETIVE) {
        expectDiscreet(await logOf({ [option]: () => value }), `${option} returns ${kind}`);
        // A promise of `enabled` is refused, and nobody waits for it.
        if (option === 'enabled') continue;
        expectDiscreet(
          // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- as users do
          await logOf({ [option]: () => Promise.reject(value) }),
          `${option} rejects with ${kind}`,
        );
      }
    });
  }

  it('thrown by functions that only observe', async () => {
    for (const [kind, value] of SECRETIVE) {
      const said = await complaintsOf(() =>
        createLimiter({
          limit,
          window,
          onDecision: () => {
            throw typeof value === 'string'
              ? new Error(`fetch failed: ${value.includes('://') ? value : 'Bearer ' + TOKEN}`)
              : value;
          },
        }).consume('k'),
      );
      expect(said).to.match(/onDecision threw/);
      expectDiscreet(said, kind);
    }
  });

  it('in errors of Redis: the arguments of AUTH, and the name of a host', async () => {
    const clients = [
      new Redis({ port: server.port, username: 'ada', password: 'hunter2', retryStrategy: () => 10_000 }),
      new Redis({ host: 'redis://ada:hunter2@h', retryStrategy: () => 10_000 }),
    ];
    try {
      for (const each of clients) {
        each.on('error', () => {});
        const limiter = createLimiter({ limit, window, store: redisStore(each), onStoreError: 'throw' });
        const errors: unknown[] = [];
        const said = await complaintsOf(async () => {
          for (let i = 0; i < 5; i++)
            await limiter.consume('k').catch((error: unknown) => void errors.push(error));
          errors.push(limiter.health, limiter.health.lastError);
          await createAdmin(each, { timeout: '100ms' })
            .check()
            .then((found) => errors.push(found));
          await createAdmin(each, { timeout: '100ms' }).limiters();
        });
        expect(errors.length).to.be.greaterThan(6);
        expect(errors[0]).to.be.instanceOf(HeadgateError);
        expectDiscreet(said + errors.map(textsOf).join('\n'), 'Redis');
        await limiter.close();
      }
    } finally {
      for (const each of clients) each.disconnect();
    }
  });

  it('in errors of PostgreSQL', async () => {
    const broken = new pg.Pool({ connectionString: 'postgres://ada:hunter2@127.0.0.1:1/x' });
    broken.on('error', () => {});
    const store = postgresStore(broken);
    const limiter = createLimiter({ limit, window, store, onStoreError: 'throw' });
    const said = await complaintsOf(() => store.setup());
    expectDiscreet(
      said + (await complaintsOf(() => limiter.consume('k'))) + textsOf(limiter.health),
      'PostgreSQL',
    );
    await limiter.close();
    await broken.end();
  });

  it('in errors of the REST API', async () => {
    const failures = [
      new TypeError('Headers.append: "Bearer ' + TOKEN + '" is an invalid header value.'),
      Object.assign(new TypeError('fetch failed'), {
        cause: Object.assign(new Error(`connect to https://a:hunter2@h`), {
          options: { headers: { authorization: `Bearer ${TOKEN}` } },
        }),
      }),
    ];
    for (const failure of failures) {
      const store = redisStore(
        upstashRedis({ url: 'https://h', token: TOKEN, fetch: () => Promise.reject(failure) }),
      );
      const limiter = createLimiter({ limit, window, store, onStoreError: 'throw' });
      expectDiscreet(
        (await complaintsOf(() => limiter.consume('k'))) +
          textsOf(limiter.health) +
          inspect(store, { depth: 10 }),
        failure.message,
      );
      await limiter.close();
    }
  });

  it('on standard error of the command line', async () => {
    const texts = SECRETIVE.map(([, value]) => value).filter((value) => typeof value === 'string');
    for (const text of texts) {
      const lines = [
        [text],
        ['limits', text],
        ['limits', '--redis', text, '--timeout', '50ms'],
        ['limits', '--sqlite', text],
        ['limits', '--timeout', text],
        ['limits', `--token=${text}`],
        ['--json', 'limits', '--redis', text, '--timeout', '50ms'],
        ['peek', 'k', '--name', text, '--sqlite', '/nowhere.db'],
        ['peek', 'k', '--policy', text, '--sqlite', '/nowhere.db'],
        ['ban', 'k', text, '--sqlite', '/nowhere.db'],
        ['log', '--since', text, '--sqlite', '/nowhere.db'],
        ['log', '--action', text, '--sqlite', '/nowhere.db'],
        ['replay', text, '100/1m'],
        ['suggest', text],
        ['suggest', '--keep', text],
      ];
      for (const args of lines) {
        const { code, stderr, stdout } = await headgate(args);
        expect(code, args.join(' ')).to.not.equal(0);
        expectDiscreet(stderr + stdout, args.join(' '));
      }
    }
  });

  it('ordinary values are shown', () => {
    const shown = [
      '5 parsecs',
      'user:42',
      'GET /api/v1/users/list',
      '10.0.0.0/8',
      '2001:db8::1',
      'api-2.eu-west-1.example.com',
      '2026-11-28T00:00:00Z',
      'skipSuccessfulRequests',
      'token-bucket 20/1s burst 40',
      'tokens=100000/1m by provider share tenant',
      'Europe/Berlin',
      'customer-12345678',
    ];
    for (const text of shown) expect(show(text)).to.equal(JSON.stringify(text));
    expect(show({ key: '10.0.0.1', account: 'ada', tokens: 5.5 })).to.equal(
      '{"key":"10.0.0.1","account":"ada","tokens":5.5}',
    );
    expect(show(['100/1m', '5/1s'])).to.equal('["100/1m","5/1s"]');
  });

  it('hidden values are described', () => {
    expect(show('redis://ada:hunter2@h')).to.equal('a URL (redis:)');
    expect(show(TOKEN)).to.equal('a hidden text of 48 characters');
    expect(show({ id: 42, password: 'hunter2' })).to.equal('an object with id, password');
    expect(show(new (class Connection {})())).to.equal('an object of the class Connection');
    expect(() => redisStore('redis://ada:hunter2@h' as never)).to.throw(
      /a URL \(redis:\) is not valid\. Pass a client/,
    );
  });

  it('short words are hidden in place of clients and stores, and in options with the name of a secret', async () => {
    const word = 's3cr3tPW' as never;
    const at = { limit, window };
    const calls: (() => unknown)[] = [
      () => redisStore(word),
      () => postgresStore(word),
      () => upstashRedis(word),
      () => createLimiter({ ...at, store: word }),
      () => rateLimit({ ...at, store: word }),
      () => rateLimit({ limiter: word }),
      () => standIn({ store: word }),
      () => limitFetch(fetch, { limiter: word }),
      () => prometheusMetrics({ register: word }),
      () => createLimiter({ tiers: { passwd: word } }),
      () => createLimiter({ tiers: { passwd: [word] } }),
      () => createLimiter({ tiers: { passwd: `5/1m ${String(word)}` as never } }),
      () => createLimiter({ tiers: { passwd: { limit: word, window } as never } }),
      () => rateLimit({ ...at, cost: { passwd: word } }),
      () => createLimiter(at).consume('k', { cost: { passwd: word } }),
      () => rateLimit({ ...at, keys: { passwd: word } }),
    ];
    for (const call of calls) {
      const said = await complaintsOf(call);
      expect(said, String(call)).to.match(/HEADGATE_\w+/);
      expect(said.includes(word), String(call)).to.equal(false);
    }
    expect(() => redisStore(word)).to.throw(
      'redisStore: client: a hidden text of 8 characters is not valid. Pass a client',
    );
  });

  it('an error without secrets stays the same as a cause, and another keeps its class, code and place', () => {
    const plain = Object.assign(new RangeError('x'), { code: 'EX', details: { limit: 5 } });
    expect(withoutSecretFields(plain)).to.equal(plain);
    const circle = new Error('a', { cause: plain });
    plain.cause = circle;
    expect(
      inspect(withoutSecretFields(Object.assign(circle, { command: { args: ['hunter2'] } }))),
    ).to.not.include('hunter2');
    const loud = Object.assign(new RangeError('redis://ada:hunter2@h is down'), { code: 'EX', client });
    const copy = withoutSecretFields(loud) as typeof loud;
    expect(copy).to.be.instanceOf(RangeError);
    expect(copy.message).to.equal('redis://…@h is down');
    expect(copy.code).to.equal('EX');
    expect(copy).to.not.have.property('client');
    expect(copy.stack).to.match(/secrets\.test\.ts/);
  });

  it('the error of an aborted signal stays usable', () => {
    const reason: unknown = AbortSignal.abort().reason;
    expect(withoutSecretFields(reason)).to.equal(reason);
    const loud = withoutSecretFields(new DOMException('redis://ada:hunter2@h', 'AbortError')) as DOMException;
    expect([loud.name, loud.message, String(loud)]).to.deep.equal([
      'AbortError',
      'redis://…@h',
      'AbortError: redis://…@h',
    ]);
  });

  it('texts lose only the secrets', () => {
    expect(withoutSecrets('connect redis://a:b@h:1/0, then https://h/x?token=abc&y=1')).to.equal(
      'connect redis://…@h:1/0, then https://h/x?token=…&y=1',
    );
    expect(withoutSecrets('Pass rediss://user:password@host:6380/0')).to.equal(
      'Pass rediss://user:password@host:6380/0',
    );
    expect(withoutSecrets('secret: undefined. Basic authentication of a@b.c at 10:20')).to.equal(
      'secret: undefined. Basic authentication of a@b.c at 10:20',
    );
  });

  it('reads a text of any length in linear time, whatever it is', () => {
    const units = [
      '0:',
      'a',
      'pass',
      'auth',
      'a:b',
      'a://',
      '!',
      '!:',
      'token ',
      '=',
      'x:y@',
      'password=',
      'http://a:b',
    ];
    for (const unit of units) {
      const text = unit.repeat(200_000 / unit.length);
      expect(show(text), unit).to.be.a('string').with.length.below(200);
      expect(withoutSecrets(text), unit).to.be.a('string');
    }
  });
});
