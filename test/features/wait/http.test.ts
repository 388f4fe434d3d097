// The option `wait`: tests beyond the conformance suite of adapters.
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import express, { type Request } from 'express';
import { createLimiter, HeadgateError, memoryStore, type DeniedDecision, type Store } from 'headgate';
import { rateLimit, type RateLimitOptions } from 'headgate/express';
import { redisStore } from 'headgate/redis';
import { serverKinds } from '../../support/shared-servers.js';
import { clients, freshPrefix } from '../../support/stores.js';
import { around } from '../../support/around.js';

const servers: Server[] = [];

/** Serves a route whose answer takes some time. */
async function serve(options: RateLimitOptions, takes = 0): Promise<string> {
  const app = express();
  app.get(
    '/',
    rateLimit({ warnings: false, keyGenerator: byUser, ...options } as never),
    (_req, res) => void setTimeout(() => res.end('ok'), takes),
  );
  const server = createServer(app).listen(0, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

const byUser = (req: Request) => req.get('x-user') ?? 'ada';

const ask = (url: string, user = 'ada') => fetch(url, { headers: { 'x-user': user } });

describe('wait over HTTP', () => {
  afterEach(() => {
    for (const server of servers.splice(0)) {
      server.closeAllConnections();
      server.close();
    }
  });

  it('two at a time, two in line, further requests are denied; another user is not delayed', async () => {
    const url = await serve(
      { algorithm: 'concurrency', limit: 2, lease: '1m', wait: '10s', maxWaitingPerKey: 2 },
      200,
    );
    const six = Promise.all(Array.from({ length: 6 }, () => ask(url)));
    const other = await ask(url, 'bob');
    expect(other.status).to.equal(200);
    const statuses = (await six).map(({ status }) => status).sort();
    expect(statuses).to.deep.equal([200, 200, 200, 200, 503, 503]);
  });

  it('Retry-After covers the attempts that a denial beside a concurrency policy has used up', async () => {
    const url = await serve({
      policies: [
        { name: 'slots', algorithm: 'concurrency', limit: 5, lease: '1h' },
        { name: 'minute', algorithm: 'fixed-window', limit: 1, window: '1m' },
        { name: 'attempts', algorithm: 'fixed-window', limit: 2, window: '2h', count: 'attempts' },
      ],
    });
    expect((await ask(url)).status).to.equal(200);
    const denied = await ask(url);
    expect(denied.status).to.equal(429);
    expect(Number(denied.headers.get('retry-after'))).to.be.within(7190, 7200);
  });

  it('after the denial of a stacked limiter, attempts stay charged, also those of a limiter with `wait`', async () => {
    const store = memoryStore();
    const options = { limit: 10, window: '1h', count: 'attempts', name: 'attempts' } as const;
    const limiter = createLimiter({ ...options, store });
    const app = express();
    app.use(rateLimit({ limiter, wait: '1s', warnings: false, keyGenerator: byUser }));
    app.use(rateLimit({ limit: 1, window: '1h', warnings: false, keyGenerator: byUser }));
    app.get('/', (_req, res) => void res.end('ok'));
    const server = createServer(app).listen(0, '127.0.0.1');
    servers.push(server);
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    expect([(await ask(url)).status, (await ask(url)).status]).to.deep.equal([200, 429]);
    expect((await limiter.usage('ada')).policies[0]!.used).to.equal(2);
    await limiter.close();
  });

  it('a request that the store has admitted is not turned away because this process was busy', async () => {
    const limiter = createLimiter({ limit: 100, window: '1h' });
    const busy = () => {
      const end = performance.now() + 30;
      while (performance.now() < end);
    };
    const waits = Array.from({ length: 5 }, () => limiter.wait('ada', { timeout: 10 }).then(busy));
    const results = await Promise.allSettled(waits);
    expect(results.map(({ status }) => status)).to.deep.equal(Array(5).fill('fulfilled'));
    expect((await limiter.usage('ada')).policies[0]!.used).to.equal(5);
    await limiter.close();
  });

  for (const [name, line] of [
    ['a full line', { wait: '10s', maxWaitingPerKey: 1 }],
    ['the end of `wait`', { wait: '20ms' }],
    ['a limiter without a line', {}],
  ] as const)
    it(`Retry-After follows the recent work, not the lease: ${name}`, async () => {
      const denials: DeniedDecision[] = [];
      const url = await serve(
        {
          ...{ algorithm: 'concurrency', limit: 1, lease: '1h', ...line },
          handler: (_req, res, decision) => {
            denials.push(decision);
            res.end();
          },
        },
        // The third request must arrive while the first one is at work.
        300,
      );
      // Before the first release, nothing is known about the work.
      const before = (await Promise.all([ask(url), ask(url), ask(url)])).filter(
        ({ status }) => status !== 200,
      );
      expect(before[0]!.headers.get('retry-after')).to.equal('3600');
      const answers = await Promise.all([ask(url), ask(url), ask(url)]);
      const [denied] = answers.filter(({ status }) => status !== 200);
      const { retryAfterMs, policies } = denials.at(-1)!;
      expect(retryAfterMs).to.be.within(1, 60_000);
      expect(policies[0]!.retryAfterMs).to.be.above(3_000_000);
      const seconds = Math.ceil(retryAfterMs! / 1000);
      expect(denied!.headers.get('retry-after')).to.equal(String(seconds));
      expect(denied!.headers.get('ratelimit')).to.equal(`"default";r=0;t=${seconds}`);
    });

  it('a quota that denies for longer than the work keeps its exact Retry-After', async () => {
    const policies = ['slots=concurrency 1/1h', 'calls=fixed-window 2/1h'];
    const url = await serve({ policies }, 50);
    expect((await ask(url)).status).to.equal(200);
    const [one, other] = await Promise.all([ask(url), ask(url)]);
    const denied = one.status === 200 ? other : one;
    expect(Number(denied.headers.get('retry-after'))).to.be.within(3_500, 3_600);
  });

  it('the slot is held until the response has ended, and is free after it', async () => {
    const limiter = createLimiter({ algorithm: 'concurrency', limit: 1, lease: '1m' });
    const url = await serve({ limiter, wait: '5s' }, 50);
    const answers = await Promise.all([ask(url), ask(url), ask(url)]);
    expect(answers.map(({ status }) => status)).to.deep.equal([200, 200, 200]);
    while (!(await limiter.peek('ada')).allowed) await new Promise(setImmediate);
    expect(limiter.gauges).to.include({ waiting: 0, slots: 0 });
  });

  for (const kind of serverKinds) {
    it(`several processes share a line on ${kind}`, async () => {
      const prefix = freshPrefix();
      const connections = [1, 2].map(() => clients[kind].duplicate());
      const urls = await Promise.all(
        connections.map((client) =>
          serve({
            name: 'shared',
            store: redisStore(client, { prefix, publish: false }),
            ...{ algorithm: 'token-bucket', limit: 20, window: '1s', burst: 2 },
            wait: '10s',
            headers: false,
          }),
        ),
      );
      const started = performance.now();
      const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => ask(urls[i % 2]!)));
      const took = performance.now() - started;
      expect(answers.map(({ status }) => status)).to.deep.equal(Array<number>(20).fill(200));
      for (const client of connections) client.disconnect();
      // 2 at once, and one every 50 ms: no process took more than the limit.
      expect(took).to.be.at.least(18 * 50 - 60);
    });
  }

  it('header fields are those of the limit, even after a wait', async () => {
    const options = { algorithm: 'token-bucket', limit: 60, window: '3s', burst: 1 } as const;
    const url = await serve({ ...options, wait: '2s', headers: ['draft-6', 'draft-11'] });
    const fields = async () => {
      const { headers } = await ask(url);
      return ['ratelimit-limit', 'ratelimit-policy', 'ratelimit-remaining'].map((name) => headers.get(name));
    };
    const first = await fields();
    expect(await fields()).to.deep.equal(first);
    expect(first[2]).to.equal('0');
  });

  it('a ban that lasts longer, a cost that is never admitted, and a list are answered at once', async () => {
    const limiter = createLimiter({ limit: 5, window: '1h', ban: {} });
    const url = await serve({
      limiter,
      wait: '5s',
      cost: (req) => (req.get('x-user') === 'big' ? 6 : 1),
      denyList: (req) => req.get('x-user') === 'eve',
    });
    await limiter.ban('bob', '1h');
    const banned = await ask(url, 'bob');
    expect([banned.status, banned.headers.get('retry-after')]).to.deep.equal([429, '3600']);
    const large = await ask(url, 'big');
    expect([large.status, large.headers.get('retry-after')]).to.deep.equal([429, null]);
    expect((await ask(url, 'eve')).status).to.equal(403);
    await limiter.consume('ada', { cost: 5 });
    const hour = await ask(url);
    expect([hour.status, hour.headers.get('retry-after')]).to.deep.equal([429, '3960']);
  });

  for (const [onStoreError, expected] of [
    ['allow', 200],
    ['local', 200],
    ['deny', 503],
    ['throw', 503],
  ] as const)
    it(`a store that is down: ${onStoreError}`, async () => {
      const fail = () => Promise.reject(new Error('away'));
      const store: Store = { decide: fail, adjust: fail, lease: fail, reset: fail, ban: fail };
      const url = await serve({ store, limit: 1, window: '1h', wait: '100ms', onStoreError });
      expect((await ask(url)).status).to.equal(expected);
    });

  it('a request waits for the refund of a request that fails, but not for a quota that nobody gives back', async () => {
    const app = express();
    let served = 0;
    for (const [path, options] of [
      ['/refunds', { skipFailedRequests: true }],
      ['/keeps', {}],
    ] as const) {
      const quota = { limit: 1, window: '1h', wait: '20s', keyGenerator: byUser } as const;
      app.get(path, rateLimit({ ...quota, ...options }), (_req, res) => {
        const isFirst = served++ === 0;
        setTimeout(() => void res.status(isFirst ? 500 : 200).end(), 100);
      });
    }
    const server = createServer(app).listen(0, '127.0.0.1');
    servers.push(server);
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const statuses = async (path: string) => {
      const answers = await Promise.all([ask(url + path), ask(url + path)]);
      return answers.map(({ status }) => status).sort();
    };
    expect(await statuses('/refunds')).to.deep.equal([200, 500]);
    expect(await statuses('/keeps')).to.deep.equal([200, 429]);
  });

  it('a turn that would come after `wait` is a denial, also if the bucket holds requests for longer', async () => {
    const limiter = createLimiter({ policies: 'leaky-bucket 1/1m burst 1 max-delay 1h' });
    const url = await serve({ limiter, wait: '100ms' });
    const answers = [await ask(url), await ask(url), await ask(url)];
    expect(answers.map(({ status }) => status)).to.deep.equal([200, 429, 429]);
    expect(answers[2]!.headers.get('retry-after')).to.equal('60');
    expect(await answers[2]!.json()).to.deep.include({ 'violated-policies': ['default'] });
    expect((await limiter.peek('ada')).resetAfterMs).to.be.at.most(60_000);
  });

  it('a store that takes longer than `wait` is 503, and keeps nothing', async () => {
    const inner = memoryStore();
    const store = around(inner, {
      decide: (query) => new Promise((resolve) => setTimeout(() => resolve(inner.decide(query)), 60)),
    });
    const limiter = createLimiter({ store, limit: 5, window: '1h', timeout: '1s' });
    const url = await serve({ limiter, wait: '20ms' });
    const { status, headers } = await ask(url);
    expect([status, headers.get('retry-after')]).to.deep.equal([503, '1']);
    expect((await limiter.peek('ada')).remaining).to.equal(5);
    const shadow = createLimiter({
      name: 'shadow',
      store,
      limit: 5,
      window: '1h',
      timeout: '1s',
      shadow: true,
    });
    expect((await ask(await serve({ limiter: shadow, wait: '20ms' }))).status).to.equal(200);
    const waited = await shadow.wait('ada', { timeout: '20ms' });
    expect(waited).to.include({ allowed: true, reason: 'store-error' });
  });

  it('a shadow delays no request', async () => {
    const url = await serve({ limit: 1, window: '1h', wait: '10s', shadow: true });
    for (let i = 0; i < 3; i++) expect((await ask(url)).status).to.equal(200);
  });

  it('a request that one of two limiters does not admit in time gets back the charge of the other', async () => {
    const store = memoryStore();
    const first = createLimiter({ name: 'first', store, limit: 10, window: '1h' });
    const app = express();
    app.use(rateLimit({ limiter: first, keyGenerator: () => 'ada', warnings: false }));
    app.use(
      rateLimit({ name: 'second', store, limit: 1, window: '1h', wait: '20ms', keyGenerator: () => 'ada' }),
    );
    app.get('/', (_req, res) => void res.end());
    const server = createServer(app).listen(0, '127.0.0.1');
    servers.push(server);
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    expect([(await ask(url)).status, (await ask(url)).status]).to.deep.equal([200, 429]);
    while ((await first.peek('ada')).remaining !== 9) await new Promise(setImmediate);
  });

  it('refuses invalid options', () => {
    const refused = (options: object) => {
      try {
        rateLimit({ name: `refused ${Math.random()}`, limit: 1, window: '1m', ...options });
        return undefined;
      } catch (error) {
        return error instanceof HeadgateError ? `${error.code}: ${error.message.split('.')[0]}` : error;
      }
    };
    expect(refused({ wait: 'soon' })).to.match(/^HEADGATE_INVALID_OPTION: wait/);
    expect(refused({ wait: 0 })).to.match(/^HEADGATE_INVALID_OPTION: wait/);
    expect(refused({ maxWaitingPerKey: 5 })).to.match(/^HEADGATE_INVALID_OPTION: maxWaitingPerKey/);
    expect(refused({ maxWaiting: 5 })).to.match(/^HEADGATE_INVALID_OPTION: maxWaiting/);
    expect(refused({ maxWaiting: 5, wait: '1s' })).to.equal(undefined);
    const paced = { algorithm: 'leaky-bucket', maxDelay: '1s', maxWaiting: 5 };
    expect(refused(paced)).to.equal(undefined);
  });
});
