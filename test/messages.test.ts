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

const mistakes: readonly [mistake: string, when: When, make: () => unknown, code: string, says: RegExp][] = [
  ['rateLimit(limiter)', 'made', () => rateLimit(limiter as never), 'INVALID_OPTION', /\{ limiter \}/],
  [
    'register(rateLimitPlugin, limiter)',
    'registered',
    () => onFastify((app) => app.register(rateLimitPlugin, limiter as never)),
    'INVALID_OPTION',
    /\{ limiter \}/,
  ],
  [
    'rateLimited(fn, limiter)',
    'made',
    () => rateLimited(() => 1, limiter as never),
    'INVALID_OPTION',
    /\{ limiter \}/,
  ],
  [
    'createLimiter(limiter)',
    'made',
    () => createLimiter(limiter as never),
    'INVALID_OPTION',
    /^createLimiter: .*options/,
  ],
  [
    'createLimiter({})',
    'made',
    () => createLimiter({} as never),
    'INVALID_OPTION',
    /\{ limit: 100, window: '1m' \}/,
  ],
  [
    'a policy without a window',
    'made',
    () => createLimiter({ limit } as never),
    'INVALID_OPTION',
    /^policy\.window: .*'10s'/,
  ],
  [
    'a policy without a window, of several',
    'made',
    () => rateLimit({ policies: [{ limit, window }, { limit }] } as never),
    'INVALID_OPTION',
    /^policies\[1\]\.window: /,
  ],
  [
    'a policy without a limit',
    'made',
    () => rateLimit({ window } as never),
    'INVALID_OPTION',
    /^policy\.limit: /,
  ],
  [
    'slots without a lease',
    'made',
    () => createLimiter({ algorithm: 'concurrency', limit } as never),
    'INVALID_OPTION',
    /^policy\.lease: /,
  ],
  [
    'a plugin without a quota',
    'registered',
    () =>
      onFastify((app) => {
        void app.register(rateLimitPlugin, { global: false });
        void app.register(async (child) => void child.rateLimit());
      }),
    'INVALID_OPTION',
    /^policy\.limit: .*plugin/i,
  ],
  [
    'app.use(rateLimit)',
    'requested',
    () => failureOf(rateLimit),
    'INVALID_ARGUMENT',
    /app\.use\(rateLimit\(\)\)/,
  ],
  [
    'Express middleware as a plugin of Fastify',
    'registered',
    () => onFastify((app) => app.register(rateLimit() as never)),
    'INVALID_ARGUMENT',
    /fastify\.register\(rateLimitPlugin\)/,
  ],
  [
    'Express middleware as a hook of Fastify',
    'requested',
    () => ofHook(rateLimit()),
    'INVALID_ARGUMENT',
    /fastify\.register/,
  ],
  [
    'rateLimit as a hook of Fastify',
    'requested',
    () => ofHook(rateLimit),
    'INVALID_ARGUMENT',
    /fastify\.register/,
  ],
  [
    'the plugin in Express',
    'requested',
    () => failureOf(rateLimitPlugin),
    'INVALID_ARGUMENT',
    /app\.use\(rateLimit\(\)\)/,
  ],
  [
    'burst without an algorithm',
    'made',
    () => rateLimit({ limit, window, burst: 9 } as never),
    'UNKNOWN_OPTION',
    /'burst'.*sliding-window.*algorithm: 'token-bucket'/,
  ],
  [
    'segments of a fixed window',
    'made',
    () => createLimiter({ algorithm: 'fixed-window', limit, window, segments: 9 } as never),
    'UNKNOWN_OPTION',
    /algorithm: 'sliding-window'/,
  ],
  [
    'other policies',
    'made',
    mismatch({ limit, window: 60_000 }, { ...bursts }),
    'POLICY_MISMATCH',
    /5\/1m.*token-bucket 1\/10s burst 3\./,
  ],
  [
    'other bans',
    'made',
    mismatch({ limit, window, ban: { after: 3 } }, { limit, window, ban: {} }),
    'POLICY_MISMATCH',
    /5\/1m, ban after 3 .*10m.*1h.*2.*1d.*5\/1m, ban by hand/,
  ],
  [
    'a cost above the limit',
    'made',
    () => rateLimit({ limit, window, cost: 6 }),
    'INVALID_OPTION',
    /^cost: .*\b5\b/,
  ],
  [
    'a cost above one of the limits',
    'made',
    () =>
      rateLimit({
        policies: [
          { name: 'burst', ...bursts },
          { name: 'day', limit: 100, window: '1d' },
        ],
        cost: 4,
      }),
    'INVALID_OPTION',
    /^cost: .*'burst'.*\b3\b/,
  ],
  [
    "a cost above a given limiter's",
    'made',
    () => rateLimit({ limiter, cost: 6 }),
    'INVALID_OPTION',
    /^cost: .*\b5\b/,
  ],
  [
    "a cost above the limiter's of a function",
    'made',
    () => rateLimited(() => 1, { limit, window, cost: 6 }),
    'INVALID_OPTION',
    /^cost: .*\b5\b/,
  ],
  [
    'the same of a given limiter',
    'made',
    () => rateLimited(() => 1, { limiter, cost: 6 }),
    'INVALID_OPTION',
    /^cost: .*\b5\b/,
  ],
  [
    'a cost above a route’s limit',
    'registered',
    () =>
      onFastify((app) => {
        void app.register(rateLimitPlugin, { limit: 100, window, cost: 10 });

        void app.register(async (child) => {
          child.get('/', { config: { rateLimit: { limit, window } } }, () => 'ok');
        });
      }),
    'INVALID_OPTION',
    /^config\.rateLimit of \/: cost: .*\b5\b/,
  ],
];

async function errorOf(call: () => unknown): Promise<HeadgateError> {
  const error = await new Promise((resolve) => resolve(call())).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).to.be.instanceOf(HeadgateError);
  return error as HeadgateError;
}

describe('errors of likely mistakes', () => {
  for (const [mistake, when, make, code, values] of mistakes) {
    it(`${mistake}: an error when it is ${when}`, async () => {
      const call = when === 'made' ? make : () => make();
      const error = await errorOf(call);
      expect(error.code).to.equal(`HEADGATE_${code}`);
      expect(withoutPage(error.message)).to.match(values).and.to.match(/[.]$/);
    });
  }

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
      ...mistakes.slice(0, 5).map(([, , make]) => errorOf(make)),
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
