// The intended differences between express-rate-limit and the stand-in (docs/migrating/express-rate-limit.md lists them), and the stores of the stand-in.
import { mock } from 'node:test';
import { expect } from 'chai';
import type { Request, RequestHandler, Response } from 'express';
import type { Options as TheirOptions } from 'express-rate-limit';
import { HeadgateError, memoryStore, type Store as HeadgateStore } from 'headgate';
import rateLimit, {
  ipKeyGenerator,
  MemoryStore,
  rateLimit as named,
  type Client,
  type RateLimitInfo,
  type RateLimitOptions,
  type Store,
  type Validations,
} from 'headgate/compat/express-rate-limit';
import { redisStore } from 'headgate/redis';
import { RedisStore, type RedisReply } from 'rate-limit-redis';
import { ask, pipelined, type Answer } from '../http/client.js';
import { clients, freshPrefix } from '../support/stores.js';
import { serve, type AppOptions } from './express-app.js';

const silent = { warn: () => {}, error: () => {} };

/** The responses of a route with the limiters. */
async function served<T>(
  limiters: readonly RequestHandler[],
  use: (url: string, port: number) => Promise<T>,
  options?: AppOptions,
): Promise<T> {
  const app = await serve(limiters, options);
  try {
    return await use(`${app.url}/`, app.port);
  } finally {
    await app.close();
  }
}

async function answers(limiters: readonly RequestHandler[], n: number): Promise<Answer[]> {
  return served(limiters, async (url) => {
    const all: Answer[] = [];
    for (let i = 0; i < n; i++) all.push(await ask(url));
    return all;
  });
}

const statuses = (all: readonly Answer[]): number[] => all.map(({ status }) => status);

/** A store that never answers. */
const stalledStore: Store = {
  increment: () => new Promise(() => {}),
  decrement: () => {},
  resetKey: () => {},
};

/** A store of Headgate that fails. */
const failingStore: HeadgateStore = {
  decide: () => Promise.reject(new Error('away')),
  adjust: () => Promise.reject(new Error('away')),
  lease: () => Promise.reject(new Error('away')),
  reset: () => Promise.reject(new Error('away')),
  ban: () => Promise.reject(new Error('away')),
};

describe('compat/express-rate-limit', () => {
  it('is the default export, and a named one', () => {
    expect(rateLimit).to.equal(named);
  });

  it('takes options and stores that are typed as express-rate-limit’s', async () => {
    const options: Partial<TheirOptions> = { limit: 1, keyGenerator: () => 'all' };
    expect(statuses(await answers([rateLimit(options)], 2))).to.deep.equal([200, 429]);
  });

  describe('does otherwise', () => {
    it('of requests at the same time, as many are admitted as the limit says, each told its own number', async () => {
      const used: number[] = [];
      const seen = (req: Request) =>
        used.push((req as unknown as { rateLimit: RateLimitInfo }).rateLimit.used);
      const all = await served([rateLimit({ limit: 5 })], (_, port) => pipelined(port, 10), { seen });
      expect(statuses(all).sort()).to.deep.equal([
        ...Array<number>(5).fill(200),
        ...Array<number>(5).fill(429),
      ]);
      expect(used.sort((a, b) => a - b)).to.deep.equal([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    });

    it('a denied request is charged nothing: with a higher limit there is room', async () => {
      let limit = 2;
      const limiter = rateLimit({ limit: () => limit });
      const [denied, admitted] = await served([limiter], async (url) => {
        for (let i = 0; i < 6; i++) await ask(url);
        const before = await ask(url);
        limit = 3;
        return [before, await ask(url)];
      });
      expect([denied.status, admitted.status]).to.deep.equal([429, 200]);
      expect(admitted.headers['x-ratelimit-remaining']).to.equal('0');
    });

    // As express-slow-down, which delays by `used`, and has a limit of 0.
    it('denials are counted until the window ends, whoever else is denied', async () => {
      const now = Date.now();
      const clock = mock.method(Date, 'now', () => now);
      const limiter = rateLimit({
        limit: 0,
        validate: false,
        legacyHeaders: false,
        keyGenerator: (req) => req.path,
        handler: (_req, _res, next) => next(),
      });
      const deny = async (path: string): Promise<number> => {
        const req = { path } as unknown as Request & { rateLimit: RateLimitInfo };
        await limiter(req, {} as Response, () => {});
        return req.rateLimit.used;
      };
      const used = [await deny('ada')];
      for (let i = 0; i < 10_001; i++) await deny(`${i}`);
      used.push(await deny('ada'));
      clock.mock.mockImplementation(() => now + 60_000);
      used.push(await deny('ada'));
      clock.mock.restore();
      expect(used).to.deep.equal([1, 2, 1]);
    });

    it('Retry-After is on every denial', async () => {
      const limiter = rateLimit({ limit: 1, windowMs: 60_000, legacyHeaders: false });
      const [first, second] = await answers([limiter], 2);
      expect(first!.headers['retry-after']).to.equal(undefined);
      expect(second!.headers['retry-after']).to.match(/^(60|59)$/);
    });

    it('Retry-After is on no request that a handler lets pass, without header fields', async () => {
      const off: RateLimitOptions = { limit: 1, windowMs: 60_000, legacyHeaders: false };
      const passing: RateLimitOptions = { ...off, handler: (_req, _res, next) => next() };
      for (const options of [passing, { ...off, statusCode: 200 }]) {
        const [, second] = await answers([rateLimit(options)], 2);
        expect(second!.status).to.equal(200);
        expect(second!.headers).not.to.have.property('retry-after');
      }
    });

    it('all types are there', () => {
      const client: Client = { totalHits: 1, resetTime: new Date() };
      const validations: Pick<Validations, 'disable'> | undefined = undefined;
      expect([client.totalHits, validations]).to.deep.equal([1, undefined]);
    });

    it('works on a response without getHeader, which express-rate-limit never calls', async () => {
      for (const standardHeaders of ['draft-6', 'draft-7'] as const) {
        const fields: Record<string, string> = {};
        const response = { setHeader: (name: string, value: string) => void (fields[name] = value) };
        const request = { ip: '192.0.2.1', headers: {}, app: { get: () => false } } as unknown as Request;
        for (const limit of [2, 9]) {
          const next = await new Promise((resolve) => {
            const limiter = rateLimit({ limit, standardHeaders, validate: false });
            void limiter(request, response as unknown as Response, resolve);
          });
          expect(next).to.equal(undefined);
        }
        expect(fields).to.include({ 'X-RateLimit-Limit': '2', 'RateLimit-Policy': '2;w=60, 9;w=60' });
      }
    });

    it('limiters on one route keep the tightest in fields for one quota, and all in lists', async () => {
      const options = { standardHeaders: true, windowMs: 60_000 } as const;
      const [{ headers }] = (await answers(
        [rateLimit({ ...options, limit: 2 }), rateLimit({ ...options, limit: 9 })],
        1,
      )) as [Answer];
      expect(headers).to.include({
        'x-ratelimit-limit': '2',
        'x-ratelimit-remaining': '1',
        'ratelimit-limit': '2',
        'ratelimit-remaining': '1',
        'ratelimit-policy': '2;w=60, 9;w=60',
      });
      const draft7 = { ...options, standardHeaders: 'draft-7' } as const;
      const [other] = (await answers(
        [rateLimit({ ...draft7, limit: 9 }), rateLimit({ ...draft7, limit: 2 })],
        1,
      )) as [Answer];
      expect(other.headers['ratelimit']).to.match(/^limit=2, remaining=1, reset=/);
      expect(other.headers['ratelimit-policy']).to.equal('9;w=60, 2;w=60');
    });

    it('a client that has left before the limiter came is a failure, too', async () => {
      const limiter = rateLimit({ limit: 5, skipFailedRequests: true, keyGenerator: () => 'ada' });
      const slow: RequestHandler = (_req, res, next) => void res.once('close', () => setImmediate(next));
      await new Promise<void>((resolve, reject) => {
        const limiters: RequestHandler[] = [slow, limiter, (_req, _res, next) => (resolve(), next())];
        const leave = (url: string) => fetch(url, { signal: AbortSignal.timeout(50) }).catch(() => {});
        served(limiters, leave).catch(reject);
      });
      while (await limiter.getKey('ada')) await new Promise(setImmediate);
    });

    it('who denies has the last word in the fields', async () => {
      const open = rateLimit({ limit: 1, skipSuccessfulRequests: true, skipFailedRequests: true });
      const strict = rateLimit({ limit: 0, logger: silent });
      const [{ headers }] = (await answers([open, strict], 1)) as [Answer];
      expect(headers).to.include({ 'x-ratelimit-limit': '0', 'x-ratelimit-remaining': '0' });
    });

    it('windows may be longer than a timer, and have to be windows', async () => {
      const windowMs = 30 * 24 * 60 * 60 * 1000;
      expect(statuses(await answers([rateLimit({ limit: 1, windowMs })], 2))).to.deep.equal([200, 429]);
      for (const wrong of [0, -1, NaN, Infinity, '1h' as unknown as number]) {
        expect(() => rateLimit({ windowMs: wrong }))
          .to.throw(HeadgateError, 'windowMs')
          .with.property('code', 'HEADGATE_INVALID_OPTION');
      }
    });

    it('refuses limits, stores and loggers that are none', async () => {
      const wrong = [
        { limit: NaN },
        { limit: 'many' },
        { limit: null },
        { store: {} },
        { logger: console.log },
        { logger: { warn: () => {} } },
        { logger: { error: () => {} } },
      ];
      for (const options of wrong as unknown as RateLimitOptions[]) {
        expect(() => rateLimit(options))
          .to.throw(HeadgateError, Object.keys(options)[0])
          .with.property('code', 'HEADGATE_INVALID_OPTION');
      }
      const [answer] = await answers([rateLimit({ limit: (() => undefined) as never })], 1);
      expect(answer!.status).to.equal(500);
      expect(answer!.text).to.contain('limit');
    });

    it('keys of networks that there are not are refused', () => {
      for (const ipv6Subnet of [0, 129, 1.5])
        for (const make of [() => ipKeyGenerator('2001:db8::1', ipv6Subnet), () => rateLimit({ ipv6Subnet })])
          expect(make).to.throw(HeadgateError, 'from 1 to 128');
      expect(ipKeyGenerator('8001:db8::1', 1)).to.equal('8000::/1');
      expect(ipKeyGenerator('2001:db8::1', 128)).to.equal('2001:db8::1/128');
    });

    it('a store that does not answer fails the request, or lets it pass', async () => {
      const options = { store: stalledStore, timeout: '20ms', validate: false, logger: silent } as const;
      const [failed] = await answers([rateLimit(options)], 1);
      expect(failed!.status).to.equal(500);
      expect(failed!.text).to.contain('20 ms');
      expect(statuses(await answers([rateLimit({ ...options, passOnStoreError: true })], 2))).to.deep.equal([
        200, 200,
      ]);
    });

    it('nothing is written to a response that has begun', async () => {
      const begin: RequestHandler = (_req, res, next) => {
        res.write('begun');
        next();
      };
      const limiter = rateLimit({
        limit: 0,
        standardHeaders: 'draft-8',
        logger: silent,
        handler: (_req, res) => res.end(),
      });
      const [answer] = await answers([begin, limiter], 1);
      expect(answer!.status).to.equal(200);
      expect(answer!.text).to.equal('begun');
      expect(Object.keys(answer!.headers).filter((name) => /ratelimit|retry/.test(name))).to.deep.equal([]);
    });

    it('a response that has begun is cut off if nothing else answers', async () => {
      const begin: RequestHandler = (_req, res, next) => {
        res.write('begun');
        next();
      };
      const error: unknown = await answers([begin, rateLimit({ limit: 0, logger: silent })], 1).then(
        () => undefined,
        (reason: unknown) => reason,
      );
      expect(error).to.be.instanceOf(Error);
    });

    it('a memory store holds no timer and gives no live record', async () => {
      const store = new MemoryStore();
      const setInterval = mock.method(globalThis, 'setInterval');
      store.init({ windowMs: 60_000 });
      setInterval.mock.restore();
      expect(setInterval.mock.callCount()).to.equal(0);
      const first = await store.increment('key');
      await store.increment('key');
      expect(first.totalHits).to.equal(1);
      store.shutdown();
      expect(await store.get('key')).to.equal(undefined);
    });
  });

  describe('on a store of Headgate', () => {
    it('in memory', async () => {
      const store = memoryStore();
      const limiter = rateLimit({ limit: 2, store });
      const all = await answers([limiter], 3);
      expect(statuses(all)).to.deep.equal([200, 200, 429]);
      expect(store.size).to.equal(1);
    });

    it('in memory that is full, a request still counts as one, or is denied', async () => {
      const seen: unknown[] = [];
      const logger = { warn: () => {}, error: (...args: unknown[]) => seen.push(args) };
      for (const onFull of ['admit', 'deny'] as const) {
        let made = 0;
        const store = memoryStore({ maxKeys: 100, onFull });
        const all = await answers(
          [rateLimit({ limit: 1, windowMs: 60_000, store, logger, keyGenerator: () => `key ${made++}` })],
          101,
        );
        const { status, headers } = all.at(-1)!;
        expect(status).to.equal(onFull === 'admit' ? 200 : 429);
        expect(headers['x-ratelimit-remaining']).to.equal('0');
        if (onFull === 'deny') expect(Number(headers['retry-after'])).to.be.within(1, 60);
      }
      expect(seen).to.deep.equal([]);
    });

    for (const [server, client] of Object.entries(clients)) {
      it(`${server}: one quota for all processes`, async () => {
        const prefix = freshPrefix();
        // Each with a store of its own, as in another process.
        const limiter = () =>
          rateLimit({ limit: 3, store: redisStore(client, { prefix }), keyGenerator: () => 'key' });
        const [one, other] = [limiter(), limiter()];
        expect(statuses(await answers([one], 2))).to.deep.equal([200, 200]);
        const all = await answers([other], 3);
        expect(statuses(all)).to.deep.equal([200, 429, 429]);
        expect(all.map(({ headers }) => headers['x-ratelimit-remaining'])).to.deep.equal(['0', '0', '0']);
        expect(await one.getKey('key')).to.include({ totalHits: 3 });
        await (one.resetKey('key') as unknown as Promise<void>);
        expect(await other.getKey('none')).to.equal(undefined);
        expect(statuses(await answers([one], 1))).to.deep.equal([200]);
      });
    }

    it('several limiters on one store need a name each, and may share a quota', async () => {
      const store = redisStore(clients.redis, { prefix: freshPrefix() });
      const keyGenerator = () => 'key';
      const login = rateLimit({ name: 'login', store, limit: 1, keyGenerator });
      const search = rateLimit({ name: 'search', store, limit: 1, keyGenerator });
      const again = rateLimit({ name: 'login', store, limit: 1, keyGenerator });
      expect(statuses(await answers([login, search], 1))).to.deep.equal([200]);
      expect(statuses(await answers([again], 1))).to.deep.equal([429]);
      rateLimit({ store, name: 'default' });
      expect(() => rateLimit({ store }))
        .to.throw(HeadgateError, 'name')
        .with.property('code', 'HEADGATE_NAME_REQUIRED');
    });

    it('what turns out not to count is given back there', async () => {
      const store = redisStore(clients.redis, { prefix: freshPrefix() });
      const limiter = rateLimit({ limit: 1, store, skipSuccessfulRequests: true, keyGenerator: () => 'key' });
      await served([limiter], async (url) => {
        for (let i = 0; i < 3; i++) {
          expect((await ask(url)).status).to.equal(200);
          // The response is sent before its cost is back.
          while (await limiter.getKey('key'));
        }
      });
    });

    it('that fails, the request fails, or passes', async () => {
      const logged: unknown[] = [];
      const logger = { ...silent, error: (_error: unknown, message?: string) => void logged.push(message) };
      const options = { store: failingStore, logger };
      expect(statuses(await answers([rateLimit({ name: 'one', ...options })], 1))).to.deep.equal([500]);
      const passing = rateLimit({ name: 'two', ...options, passOnStoreError: true });
      expect(statuses(await answers([passing], 2))).to.deep.equal([200, 200]);
      expect(logged).to.have.length(2);
      expect(logged[0]).to.contain('allowing request');
      // Nobody waits for it; nothing is left unhandled.
      passing.resetKey('key');
    });
  });

  it('counts by rate-limit-redis’s store', async () => {
    const sendCommand = (command: string, ...args: string[]) =>
      clients.redis.call(command, ...args) as Promise<RedisReply>;
    const store = new RedisStore({ sendCommand, prefix: freshPrefix() });
    const limiter = rateLimit({ limit: 2, store, standardHeaders: 'draft-7', keyGenerator: () => 'key' });
    const all = await answers([limiter], 4);
    expect(statuses(all)).to.deep.equal([200, 200, 429, 429]);
    expect(all[0]!.headers['ratelimit']).to.match(/^limit=2, remaining=1, reset=(60|59)$/);
    expect(await limiter.getKey('key')).to.include({ totalHits: 4 });
    await (limiter.resetKey('key') as unknown as Promise<void>);
    expect(statuses(await answers([limiter], 1))).to.deep.equal([200]);
  });
});
