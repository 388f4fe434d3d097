// The same requests to express-rate-limit and to the stand-in. A changed import must change nothing else.
import { mock } from 'node:test';
import { expect } from 'chai';
import type { Request, RequestHandler } from 'express';
import type {
  ClientRateLimitInfo,
  LegacyStore,
  Options,
  RateLimitOptions,
  RateLimitRequestHandler,
  Store,
} from 'headgate/compat/express-rate-limit';
import { ask, type Ask } from '../http/client.js';
import { expresses, libraries, serve, type Library } from './express-app.js';

type Given = RateLimitOptions;

/** A request, a time that passes (ms), or an operation on the first limiter with its result. */
type Step = (Ask & { path?: string }) | number | ((limiter: RateLimitRequestHandler) => unknown);

interface Case {
  readonly options?: (library: Library, notes: unknown[]) => Given | readonly Given[];
  /** Default: two requests. */
  readonly steps?: readonly Step[];
  readonly trustProxy?: unknown;
}

const times = (n: number, request: Ask & { path?: string } = {}): Step[] =>
  Array.from({ length: n }, () => request);

/** A store with the current interface, as users write stores. With `timed`, the store returns the end of a window. */
class OwnStore implements Store {
  readonly hits = new Map<string, number>();
  readonly timed: boolean;
  #windowMs = 0;

  constructor(timed: boolean) {
    this.timed = timed;
  }

  init(options: Options) {
    this.#windowMs = options.windowMs;
  }

  async get(key: string) {
    return this.#info(key);
  }

  async increment(key: string) {
    this.hits.set(key, (this.hits.get(key) ?? 0) + 1);
    return this.#info(key);
  }

  async decrement(key: string) {
    this.hits.set(key, this.hits.get(key)! - 1);
  }

  async resetKey(key: string) {
    this.hits.delete(key);
  }

  #info(key: string): ClientRateLimitInfo {
    const resetTime = this.timed ? new Date(Date.now() + this.#windowMs) : undefined;
    return { totalHits: this.hits.get(key) ?? 0, resetTime };
  }
}

function legacyStore(): LegacyStore {
  const hits = new Map<string, number>();
  return {
    incr: (key, callback) => {
      hits.set(key, (hits.get(key) ?? 0) + 1);
      callback(undefined, hits.get(key)!, undefined);
    },
    decrement: (key) => void hits.set(key, hits.get(key)! - 1),
    resetKey: (key) => void hits.delete(key),
  };
}

const failingStore: Store = {
  increment: async () => {
    throw new Error('the store is away');
  },
  decrement: async () => {},
  resetKey: async () => {},
};

const fiveRequests = times(5);

const cases: Record<string, Case> = {
  'the defaults': { steps: times(8) },
  'a limit': { options: () => ({ limit: 2 }), steps: fiveRequests },
  'a limit by its old name': { options: () => ({ max: 2 }), steps: fiveRequests },
  'both names of a limit': { options: () => ({ max: 2, limit: 3 }), steps: fiveRequests },
  'a limit as text': { options: () => ({ limit: '2' as unknown as number }), steps: fiveRequests },
  'a fraction': { options: () => ({ limit: 2.5 }), steps: fiveRequests },
  'no limit at all': { options: () => ({ limit: Infinity }), steps: fiveRequests },
  'a limit of 0': { options: () => ({ limit: 0 }), steps: [...times(2), 60_000, ...times(2)] },
  'options that are undefined': {
    options: () => ({ limit: undefined, windowMs: undefined, message: undefined }) as unknown as Given,
    steps: times(6),
  },
  'a limit of each request': {
    options: () => ({ limit: (req) => (req.headers['x-tier'] ? 4 : 2) }),
    steps: [{}, { headers: { 'x-tier': 'gold' } }, {}],
  },
  'a limit that comes later': { options: () => ({ limit: async () => 2 }), steps: fiveRequests },
  'a limit that throws': {
    options: () => ({
      limit: () => {
        throw new Error('who are you?');
      },
    }),
    steps: times(1),
  },
  'a window, over and over': {
    options: () => ({ limit: 2, windowMs: 50 }),
    steps: [...times(3), 49, {}, 1, ...times(3), 60, {}],
  },
  'no header fields': { options: () => ({ legacyHeaders: false }) },
  'no header fields, by the old name': { options: () => ({ headers: false }) },
  'draft 6': { options: () => ({ limit: 2, standardHeaders: true }), steps: [{}, 1500, {}, {}] },
  'draft 6 alone': {
    options: () => ({ limit: 2, standardHeaders: 'draft-6', legacyHeaders: false }),
    steps: fiveRequests,
  },
  'draft 7': { options: () => ({ limit: 2, standardHeaders: 'draft-7' }), steps: fiveRequests },
  'draft 8': { options: () => ({ limit: 2, standardHeaders: 'draft-8' }), steps: fiveRequests },
  'a draft that is none': { options: () => ({ standardHeaders: 'draft-2' as 'draft-6' }) },
  'limiters one after the other, draft 8': {
    options: () =>
      [5000, 60_000, 90_000, 3_600_000, 7_200_000, 86_400_000, 172_800_000].map((windowMs, i) => ({
        windowMs,
        limit: i + 2,
        standardHeaders: 'draft-8',
        legacyHeaders: false,
      })),
    steps: times(3),
  },
  'limiters with a property each': {
    options: () => [
      { limit: 2, requestPropertyName: 'one', keyGenerator: (req) => String(req.headers['x-user']) },
      {
        limit: 3,
        requestPropertyName: 'two',
        keyGenerator: () => 'all',
        standardHeaders: true,
        legacyHeaders: false,
      },
    ],
    steps: ['a', 'b', 'a', 'a', 'b'].map((user) => ({ headers: { 'x-user': user } })),
  },
  'an identifier': { options: () => ({ identifier: 'keep-calm', standardHeaders: 'draft-8' }) },
  'an identifier that is no text': {
    options: () => ({ identifier: 42 as unknown as string, standardHeaders: 'draft-8' }),
    steps: times(1),
  },
  'an identifier of each request': {
    options: () => ({ identifier: async (req) => `of ${req.path}`, standardHeaders: 'draft-8' }),
  },
  'Retry-After': { options: () => ({ limit: 1, retryAfter: 7 }) },
  'Retry-After of each request': { options: () => ({ limit: 1, retryAfter: async () => 8 }) },
  'a message': { options: () => ({ limit: 1, message: 'Enhance your calm' }) },
  'a message that is an object': { options: () => ({ limit: 1, message: { error: { code: 'too-many' } } }) },
  'a message of each request': {
    options: () => ({ limit: 1, message: (req: Request) => `not ${req.path}` }),
  },
  'a message that comes later': { options: () => ({ limit: 1, message: async () => ({ later: true }) }) },
  'a message that answers by itself': {
    options: () => ({
      limit: 1,
      message: (_req: Request, res: Parameters<RequestHandler>[1]) => void res.end('by itself'),
    }),
  },
  'a status': { options: () => ({ limit: 1, statusCode: 420 }) },
  'a handler': {
    options: (_, notes) => ({
      limit: 1,
      windowMs: 3000,
      handler: (req, res, _next, options) => {
        const told: unknown[] = [options.limit, options.windowMs, options.message, options.standardHeaders];
        notes.push(told);
        res.status(options.statusCode).json({ used: (req as unknown as Limited).rateLimit.used });
      },
    }),
    steps: times(3),
  },
  'a handler that lets pass': { options: () => ({ limit: 1, handler: (_req, _res, next) => next() }) },
  'a handler that fails': {
    options: () => ({
      limit: 1,
      handler: () => {
        throw new Error('in the handler');
      },
    }),
  },
  'the first denial of a window, told apart': {
    options: (_, notes) => ({
      limit: 2,
      windowMs: 1000,
      handler: (req, res, _next, options) => {
        const { used, limit } = (req as unknown as Limited).rateLimit;
        if (used === limit + 1) notes.push('the first');
        res.status(options.statusCode).end();
      },
    }),
    steps: [...times(5), 1000, ...times(5)],
  },
  'a key': {
    options: () => ({ limit: 2, keyGenerator: (req) => String(req.headers['x-user']) }),
    steps: ['a', 'a', 'b', 'a', 'b', 'b'].map((user) => ({ headers: { 'x-user': user } })),
  },
  'a key that comes later': {
    options: () => ({ limit: 1, standardHeaders: 'draft-8', keyGenerator: async () => 'all' }),
  },
  'a key that fails': {
    options: () => ({
      keyGenerator: () => {
        throw new Error('no key');
      },
    }),
    steps: times(1),
  },
  'a key that is a number': { options: () => ({ limit: 1, keyGenerator: () => 42 as unknown as string }) },
  'no requests': { options: () => ({ skip: () => true }), steps: times(7) },
  'some requests': {
    options: () => ({ limit: 1, skip: async (req) => req.method === 'HEAD' }),
    steps: [{ method: 'HEAD' }, {}, { method: 'HEAD' }, {}],
  },
  'a skip that fails': {
    options: () => ({
      skip: () => {
        throw new Error('no idea');
      },
    }),
    steps: times(1),
  },
  'failures only': {
    options: () => ({ limit: 2, skipSuccessfulRequests: true }),
    steps: ['/', '/error', '/', '/error', '/', '/error'].map((path) => ({ path })),
  },
  'successes only': {
    options: () => ({ limit: 2, skipFailedRequests: true }),
    steps: ['/error', '/', '/error', '/', '/', '/'].map((path) => ({ path })),
  },
  'successes only, where a response breaks': {
    options: () => ({ limit: 2, skipFailedRequests: true }),
    steps: ['/broken', '/', '/broken', '/', '/'].map((path) => ({ path })),
  },
  'failures only, where a response breaks': {
    options: () => ({ limit: 2, skipSuccessfulRequests: true }),
    steps: ['/broken', '/error', '/broken', '/error'].map((path) => ({ path })),
  },
  'what a program takes for a success': {
    options: () => ({
      limit: 2,
      skipSuccessfulRequests: true,
      requestWasSuccessful: async (_req, res) => res.statusCode === 400,
    }),
    steps: ['/error', '/', '/error', '/', '/'].map((path) => ({ path })),
  },
  addresses: {
    options: () => ({ limit: 1 }),
    steps: [
      '192.0.2.1',
      '::ffff:192.0.2.1',
      '::ffff:c000:201',
      '2001:db8:0:1ff::1',
      '2001:DB8:0:100::2',
      '2001:db8:0:200::1',
      '::1',
    ].map((from) => ({ from })),
  },
  'addresses by another network': {
    options: () => ({ limit: 1, ipv6Subnet: 64 }),
    steps: ['2001:db8:0:1ff::1', '2001:db8:0:1fe::1', '2001:db8:0:1ff::2'].map((from) => ({ from })),
  },
  'addresses one by one': {
    options: () => ({ limit: 1, ipv6Subnet: false }),
    steps: ['2001:db8::1', '2001:db8::2', '2001:db8::1'].map((from) => ({ from })),
  },
  'addresses by a network of each request': {
    options: () => ({ limit: 1, ipv6Subnet: async () => 48 }),
    steps: ['2001:db8:0:1ff::1', '2001:db8:0:200::1', '192.0.2.1'].map((from) => ({ from })),
  },
  'a network as text': {
    options: () => ({ limit: 1, ipv6Subnet: '64' as unknown as number }),
    steps: [{ from: '2001:db8::1' }, { from: '2001:db8::2' }],
  },
  'a network that is none': { options: () => ({ ipv6Subnet: 100 }), steps: [{ from: '2001:db8::1' }] },
  'networks of unusual sizes': {
    options: () => [31, 32, 64, 65].map((ipv6Subnet) => ({ ipv6Subnet })),
    steps: [{ from: '2001:db8::1' }],
  },
  'an address in a key': {
    options: ({ ipKeyGenerator }) => ({ limit: 1, keyGenerator: (req) => ipKeyGenerator(req.ip!, 60) }),
    steps: ['2001:db8:0:1ff::1', '2001:db8:0:1f0::1'].map((from) => ({ from })),
  },
  'what was used of a key, and that forgotten': {
    options: () => ({ limit: 2, keyGenerator: () => 'key' }),
    steps: [
      (limiter) => limiter.getKey('key'),
      ...times(3),
      (limiter) => limiter.getKey('key'),
      (limiter) => limiter.getKey('other'),
      (limiter) => limiter.resetKey('key'),
      (limiter) => limiter.getKey('key'),
      ...times(3),
      60_000,
      (limiter) => limiter.getKey('key'),
    ],
  },
  'what was used of a key with a limit of 0': {
    options: () => ({ limit: 0, keyGenerator: () => 'key' }),
    steps: [
      ...times(3),
      (limiter) => limiter.getKey('key'),
      (limiter) => limiter.resetKey('key'),
      (limiter) => limiter.getKey('key'),
      ...times(1),
      60_000,
      (limiter) => limiter.getKey('key'),
    ],
  },
  'a memory store of its own': {
    options: ({ MemoryStore }) => {
      const store = new MemoryStore();
      return {
        limit: 2,
        store,
        skip: (req) => (req.query['reset'] ? store.resetAll().then(() => false) : false),
      };
    },
    steps: [...times(3), { path: '/?reset=1' }, ...times(2)],
  },
  'a memory store that is used by hand': {
    options: ({ MemoryStore }, notes) => {
      const store = new MemoryStore();
      const use = async () => {
        // Copies the result, because the next request changes the returned object.
        notes.push(store.localKeys, { ...(await store.get('key')) });
        await store.increment('key');
        await store.decrement('key');
        notes.push({ ...(await store.increment('key')) });
      };
      return { limit: 9, store, keyGenerator: () => 'key', skip: () => use().then(() => false) };
    },
    steps: times(3),
  },
  'a memory store that a program has extended': {
    options: ({ MemoryStore }, notes) => {
      class Noting extends MemoryStore {
        override increment(key: string) {
          notes.push(key);
          return super.increment(key);
        }
      }
      return { limit: 2, store: new Noting() };
    },
    steps: times(4),
  },
  'a store of a program': {
    options: () => ({ limit: 2, store: new OwnStore(true), standardHeaders: 'draft-6' }),
    steps: [...times(4), (limiter) => limiter.getKey('127.0.0.1')],
  },
  'a store that tells no time': {
    options: () => ({ limit: 2, store: new OwnStore(false), standardHeaders: 'draft-7' }),
    steps: fiveRequests,
  },
  'a store of version 5': {
    options: () => ({ limit: 2, store: legacyStore(), standardHeaders: 'draft-8' }),
    steps: [
      ...times(4),
      (limiter) => {
        try {
          return limiter.getKey('127.0.0.1');
        } catch (error) {
          return (error as Error).message;
        }
      },
    ],
  },
  'a store, and failures only': {
    options: () => ({ limit: 2, store: new OwnStore(true), skipSuccessfulRequests: true }),
    steps: ['/', '/', '/error', '/', '/error', '/'].map((path) => ({ path })),
  },
  'a store that tells the reset by a number': {
    options: () => ({
      store: {
        ...failingStore,
        increment: () => ({ totalHits: 1, resetTime: 1_800_000_000_000 as unknown as Date }),
      },
    }),
    steps: times(1),
  },
  'a store that fails': { options: () => ({ store: failingStore }), steps: times(1) },
  'a store that fails, and may': { options: () => ({ store: failingStore, passOnStoreError: true }) },
  'a store that counts nonsense': {
    options: () => ({
      store: { ...failingStore, increment: () => ({ totalHits: 0, resetTime: undefined }) },
    }),
  },
  'a store that cannot begin': {
    options: () => {
      const store: Store = new OwnStore(false);
      store.init = () => Promise.reject(new Error('cannot begin'));
      return { store };
    },
    steps: times(1),
  },
  'a store for two limiters': {
    options: () => {
      const store = new OwnStore(true);
      return [{ store }, { store }];
    },
  },
  'a proxy that is not trusted': {
    steps: [{ from: '192.0.2.1' }, { headers: { forwarded: 'for=192.0.2.1' } }],
    trustProxy: false,
  },
  'a proxy that is trusted too far': { steps: [{ from: '192.0.2.1' }], trustProxy: true },
  'no address': { steps: [{ from: 'unknown' }, { from: '192.0.2.1:80' }] },
  'options that are none': {
    options: () =>
      ({ windowMS: 1000, onLimitReached: () => {}, draft_polli_ratelimit_headers: true }) as Given,
    steps: times(1),
  },
  validations: {
    options: () => ({ validate: { ip: false, no: true, limit: false } as unknown as boolean, limit: 0 }),
    steps: [{ from: 'unknown' }],
  },
  'no validations': {
    options: () => ({ validate: false, limit: 0, standardHeaders: 'draft-2' as 'draft-6' }),
    steps: [{ from: 'unknown' }],
  },
  'a key generator that forgets IPv6': {
    options: () => ({ ipv6Subnet: 60, keyGenerator: (req) => req.ip! }),
  },
};

interface Limited {
  readonly rateLimit: { used: number; limit: number };
}

const START = Date.UTC(2026, 0, 1);

/** Header fields that are the server's, not the limiter's. */
const OTHERS = ['connection', 'keep-alive', 'etag', 'x-powered-by', 'date'];

/** The responses, the values in the program and the log lines of a case. */
async function play(
  library: Library,
  { options, steps = times(2), trustProxy = 'loopback' }: Case,
  express: keyof typeof expresses,
) {
  const notes: unknown[] = [];
  const logged: unknown[] = [];
  const log = (level: string) => (error: unknown, message?: string) =>
    void logged.push([level, (error as { code?: string }).code ?? (error as Error).message, message]);
  const logger = { warn: log('warn'), error: log('error') };
  const given = options?.(library, notes) ?? {};
  const limiters = (Array.isArray(given) ? (given as Given[]) : [given as Given]).map((each) =>
    library.rateLimit({ logger, ...each }),
  );
  const seen: unknown[] = [];
  const app = await serve(limiters, {
    express: expresses[express],
    trustProxy,
    seen: (req) => {
      for (const property of ['rateLimit', 'one', 'two'] as const) {
        const info = (req as unknown as Record<string, { current?: number } | undefined>)[property];
        seen.push(info && { ...info, current: info.current });
      }
    },
  });
  const answers: unknown[] = [];
  try {
    for (const step of steps) {
      if (typeof step === 'number') mock.timers.tick(step);
      else if (typeof step === 'function') answers.push({ ...((await step(limiters[0]!)) as object) });
      else {
        const { status, headers, text } = await ask(app.url + (step.path ?? '/'), step);
        for (const name of OTHERS) delete (headers as Record<string, string>)[name];
        answers.push({ status, headers, text });
      }
    }
  } finally {
    await app.close();
  }
  return { answers, seen, logged, notes };
}

describe('compat/express-rate-limit, beside express-rate-limit', () => {
  beforeEach(() => mock.timers.enable({ apis: ['Date'], now: START }));
  afterEach(() => mock.timers.reset());

  for (const express of Object.keys(expresses) as (keyof typeof expresses)[]) {
    for (const [title, scenario] of Object.entries(cases)) {
      it(`${title} (${express})`, async () => {
        const expected = await play(libraries.theirs, scenario, express);
        mock.timers.reset();
        mock.timers.enable({ apis: ['Date'], now: START });
        expect(await play(libraries.ours, scenario, express)).to.deep.equal(expected);
      });
    }
  }
});
