// Likely mistakes: the error, the moment of the error, and the page behind the error's link.
import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import express from 'express';
import Fastify, { type FastifyInstance } from 'fastify';
import request from 'supertest';
import { createLimiter, HeadgateError, memoryStore, type Store } from 'headgate';
import { rateLimited } from 'headgate/decorators';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { withoutPage } from '../src/common/errors.js';

const limit = 5;
const window = '1m';
const limiter = createLimiter({ limit, window });
const bursts = { algorithm: 'token-bucket', limit: 1, window: '10s', burst: 3 } as const;

/** Throws the error of the first request to an application. */
async function failureOf(handler: unknown): Promise<unknown> {
  const app = express();
  app.use(handler as express.RequestHandler);
  let failure: unknown;
  app.use(((error, _req, res, _next) => {
    failure = error;
    res.end();
  }) as express.ErrorRequestHandler);
  await request(app).get('/');
  throw failure;
}

async function ofHook(hook: unknown): Promise<unknown> {
  const app = Fastify();
  app.addHook('onRequest', hook as never);
  let failure: unknown;
  app.setErrorHandler((error) => {
    failure = error;
    return 'failed';
  });
  app.get('/', () => 'ok');
  // Every request must fail, not only the first.
  for (let i = 0; i < 2; i++) {
    failure = undefined;
    await app.inject('/');
  }
  await app.close();
  throw failure;
}

const onFastify = async (register: (app: FastifyInstance) => unknown): Promise<void> => {
  const app = Fastify();
  try {
    register(app);
    await app.ready();
  } finally {
    await app.close().catch(() => {});
  }
};

function mismatch(first: object, second: object): () => unknown {
  return () => {
    const store = memoryStore();
    createLimiter({ name: 'api', store, ...first } as never);
    createLimiter({ name: 'api', store, ...second } as never);
  };
}

type When = 'made' | 'registered' | 'requested';

type Mistake = readonly [mistake: string, make: () => unknown, says: RegExp, code?: string];

/** The mistakes by the moment of the error, whose default code is INVALID_OPTION. */
const mistakes: Readonly<Record<When, readonly Mistake[]>> = {
  made: [
    ['rateLimit(limiter)', () => rateLimit(limiter as never), /\{ limiter \}/],
    ['rateLimited(fn, limiter)', () => rateLimited(() => 1, limiter as never), /\{ limiter \}/],
    ['createLimiter(limiter)', () => createLimiter(limiter as never), /^createLimiter: .*options/],
    ['createLimiter({})', () => createLimiter({} as never), /\{ limit: 100, window: '1m' \}/],
    ['a policy without a window', () => createLimiter({ limit } as never), /^policy\.window: .*'10s'/],
    [
      'a policy without a window, of several',
      () => rateLimit({ policies: [{ limit, window }, { limit }] } as never),
      /^policies\[1\]\.window: /,
    ],
    ['a policy without a limit', () => rateLimit({ window } as never), /^policy\.limit: /],
    [
      'slots without a lease',
      () => createLimiter({ algorithm: 'concurrency', limit } as never),
      /^policy\.lease: /,
    ],
    [
      'burst without an algorithm',
      () => rateLimit({ limit, window, burst: 9 } as never),
      /'burst'.*sliding-window.*algorithm: 'token-bucket'/,
      'UNKNOWN_OPTION',
    ],
    [
      'segments of a fixed window',
      () => createLimiter({ algorithm: 'fixed-window', limit, window, segments: 9 } as never),
      /algorithm: 'sliding-window'/,
      'UNKNOWN_OPTION',
    ],
    [
      'other policies',
      mismatch({ limit, window: 60_000 }, { ...bursts }),
      /5\/1m.*token-bucket 1\/10s burst 3\./,
      'POLICY_MISMATCH',
    ],
    [
      'other bans',
      mismatch({ limit, window, ban: { after: 3 } }, { limit, window, ban: {} }),
      /5\/1m, ban after 3 .*10m.*1h.*2.*1d.*5\/1m, ban by hand/,
      'POLICY_MISMATCH',
    ],
    ['a cost above the limit', () => rateLimit({ limit, window, cost: 6 }), /^cost: .*\b5\b/],
    [
      'a cost above one of the limits',
      () =>
        rateLimit({
          policies: [
            { name: 'burst', ...bursts },
            { name: 'day', limit: 100, window: '1d' },
          ],
          cost: 4,
        }),
      /^cost: .*'burst'.*\b3\b/,
    ],
    ["a cost above a given limiter's", () => rateLimit({ limiter, cost: 6 }), /^cost: .*\b5\b/],
    [
      "a cost above the limiter's of a function",
      () => rateLimited(() => 1, { limit, window, cost: 6 }),
      /^cost: .*\b5\b/,
    ],
    ['the same of a given limiter', () => rateLimited(() => 1, { limiter, cost: 6 }), /^cost: .*\b5\b/],
  ],
  registered: [
    [
      'register(rateLimitPlugin, limiter)',
      () => onFastify((app) => app.register(rateLimitPlugin, limiter as never)),
      /\{ limiter \}/,
    ],
    [
      'a plugin without a quota',
      () =>
        onFastify((app) => {
          void app.register(rateLimitPlugin, { global: false });
          void app.register(async (child) => void child.rateLimit());
        }),
      /^policy\.limit: .*plugin/i,
    ],
    [
      'Express middleware as a plugin of Fastify',
      () => onFastify((app) => app.register(rateLimit() as never)),
      /fastify\.register\(rateLimitPlugin\)/,
      'INVALID_ARGUMENT',
    ],
    [
      'a cost above a route’s limit',
      () =>
        onFastify((app) => {
          void app.register(rateLimitPlugin, { limit: 100, window, cost: 10 });

          void app.register(async (child) => {
            child.get('/', { config: { rateLimit: { limit, window } } }, () => 'ok');
          });
        }),
      /^config\.rateLimit of \/: cost: .*\b5\b/,
    ],
  ],
  requested: [
    ['app.use(rateLimit)', () => failureOf(rateLimit), /app\.use\(rateLimit\(\)\)/, 'INVALID_ARGUMENT'],
    [
      'Express middleware as a hook of Fastify',
      () => ofHook(rateLimit()),
      /fastify\.register/,
      'INVALID_ARGUMENT',
    ],
    ['rateLimit as a hook of Fastify', () => ofHook(rateLimit), /fastify\.register/, 'INVALID_ARGUMENT'],
    [
      'the plugin in Express',
      () => failureOf(rateLimitPlugin),
      /app\.use\(rateLimit\(\)\)/,
      'INVALID_ARGUMENT',
    ],
  ],
};

async function errorOf(call: () => unknown): Promise<HeadgateError> {
  const error = await new Promise((resolve) => resolve(call())).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).to.be.instanceOf(HeadgateError);
  return error as HeadgateError;
}

describe('errors of likely mistakes', () => {
  for (const [when, all] of Object.entries(mistakes))
    for (const [mistake, make, values, code = 'INVALID_OPTION'] of all)
      it(`${mistake}: an error when it is ${when}`, async () => {
        const error = await errorOf(make);
        expect(error.code).to.equal(`HEADGATE_${code}`);
        expect(withoutPage(error.message)).to.match(values).and.to.match(/[.]$/);
      });

  it('a limiter with a refused cost claims no name', () => {
    const store = memoryStore();
    expect(() => rateLimit({ store, limit, window, cost: 6 })).to.throw();
    rateLimit({ store, limit, window });
  });

  it('a cost that some tier has room for is not refused', () => {
    rateLimit({ policies: () => [{ limit, window }], cost: 6 });
  });
});

describe('the page of an error’s code', () => {
  const page = readFileSync(new URL('../docs/errors.md', import.meta.url), 'utf8');
  const sections = [...page.matchAll(/^### (\w+)$/gm)].map(([, code]) => code!.toLowerCase());

  it('appears once at the end of every error', async () => {
    const fail = () => Promise.reject(new Error('NOPERM this user may not'));
    const store: Store = { decide: fail, adjust: fail, lease: fail, reset: fail, ban: fail };
    const away = createLimiter({ store, limit, window, onStoreError: 'throw' });
    const errors = await Promise.all([
      ...mistakes.made.slice(0, 5).map(([, make]) => errorOf(make)),
      errorOf(() => limiter.wait('key', { cost: 6 })),
      errorOf(() => away.consume('key')),
    ]);
    // Repeats until the store is down, because the last error quotes an earlier error.
    for (let last; last?.code !== 'HEADGATE_STORE_AWAY'; errors.push(last)) {
      last = await errorOf(() => away.reset('key'));
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await away.close();
    for (const { code, message } of errors) {
      const links = [...message.matchAll(/ See node_modules\/headgate\/docs\/errors\.md#(\w+)/g)];
      expect(links.map(([, section]) => section)).to.deep.equal([code.toLowerCase()]);
      expect(message).to.match(/[.!?] See [^ ]+$/);
      expect(sections).to.include(code.toLowerCase());
    }
  });
});
