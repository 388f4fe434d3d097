// Clients that leave early, on every adapter: their requests are dropped without a charge, an error, or a held slot.
import { once } from 'node:events';
import { connect as connectHttp2, constants, type ClientHttp2Session } from 'node:http2';
import { connect, type Socket } from 'node:net';
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Catch, Controller, Req, type ArgumentsHost, type ExecutionContext } from '@nestjs/common';
import { expect } from 'chai';
import fc from 'fast-check';
import { createLimiter, type Decision, type HeadgateError, type Policy, type Store } from 'headgate';
import { RateLimit, RateLimitException, RateLimitModule, requestOf } from 'headgate/nestjs';
import { all, decorate, listen, moduleOf, platforms } from '../support/nest.js';
import { runs } from '../support/random.js';
import { memory } from '../support/stores.js';
import { adapters, serveHttp2, type Serve, type TestOptions, type TestRequest } from './apps.js';
import { endings, get } from './hostile.js';
import { around } from '../support/around.js';

const policies: Policy[] = [
  { name: 'slots', algorithm: 'concurrency', limit: 1000, lease: '1h' },
  { name: 'quota', algorithm: 'fixed-window', limit: 1000, window: '1h' },
];

/** Options whose functions get Nest's context. */
function forNest(options: TestOptions): object {
  const wrap = (value: unknown): unknown =>
    typeof value === 'function'
      ? (context: ExecutionContext) => (value as (request: TestRequest) => unknown)(requestOf(context))
      : value;
  const { onDecision, keys, ...rest } = options;
  return {
    ...Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, wrap(value)])),
    ...(keys && { keys: Object.fromEntries(Object.entries(keys).map(([by, of]) => [by, wrap(of)])) }),
    ...(onDecision && { onDecision }),
  };
}

const serveNest =
  (platform: string): Serve =>
  async ({ limiters, answer, before, failed }) => {
    class Root {
      async get(request: TestRequest) {
        await answer?.(request);
        return 'ok';
      }
    }
    Req()(Root.prototype, 'get', 0);
    decorate(Root, 'get', all(), RateLimit(...limiters.map(forNest)));
    Controller()(Root);
    class Failures {
      catch(error: HeadgateError, host: ArgumentsHost) {
        if (!((error as unknown) instanceof RateLimitException)) failed?.(error);
        host
          .switchToHttp()
          .getResponse<{ status(code: number): { send(body: string): void } }>()
          .status(500)
          .send('');
      }
    }
    Catch()(Failures);
    const module = moduleOf([Root], RateLimitModule.forRoot({ global: false }));
    const { app, url } = await listen(module, platforms[platform]!(), (each) => {
      each.use(async (_req: unknown, res: ServerResponse, next: () => void) => {
        await before?.(res);
        next();
      });
      each.useGlobalFilters(new Failures());
    });
    const server = app.getHttpServer() as never;
    return { url, port: Number(new URL(url).port), server, close: () => app.close() };
  };

const served: Readonly<Record<string, Serve>> = {
  ...Object.fromEntries(Object.entries(adapters).map(([name, { serve }]) => [name, serve])),
  'Nest on Express': serveNest('Express'),
  'Nest on Fastify': serveNest('Fastify'),
};

/** A promise that resolves when the test opens it. */
function gate() {
  let arrived = 0;
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return {
    open,
    arrived: () => arrived,
    pass: async () => {
      arrived++;
      await opened;
    },
  };
}

/** Waits until an effect of started work has happened. */
async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(1);
}

/** A server whose events are counted. */
async function open(serve: Serve, options: TestOptions, more: Parameters<Serve>[0] | object = {}) {
  const store = options.store ?? memory();
  const common = { name: 'leaving', store, timeout: '1m', policies } as const;
  const limiter = createLimiter(common);
  const seen = { reached: 0, failures: [] as string[], decisions: [] as Decision[], finished: 0 };
  const app = await serve({
    limiters: [
      { ...common, onDecision: (decision) => void seen.decisions.push(decision), ...options } as TestOptions,
    ],
    answer: () => {
      seen.reached++;
      return {};
    },
    failed: (error) => void seen.failures.push(error.code ?? String(error)),
    ...more,
  });
  const sockets: Socket[] = [];
  return {
    ...{ seen, limiter, store, port: app.port },
    async send(text = get('/')): Promise<Socket> {
      const socket = connect({ port: app.port, host: '127.0.0.1' });
      sockets.push(socket);
      socket.on('error', () => {});
      await once(socket, 'connect');
      socket.write(text);
      return socket;
    },
    /** Resolves when the server has no connection any more. */
    async abandoned(): Promise<void> {
      const count = () => new Promise<number>((resolve) => app.server.getConnections((_, n) => resolve(n)));
      await until(async () => (await count()) === 0);
    },
    async left(key = '127.0.0.1'): Promise<string> {
      return (await limiter.peek(key)).policies.map(({ remaining }) => remaining).join();
    },
    /** Ends all connections. */
    async leave(): Promise<void> {
      for (const socket of sockets) socket.destroy();
      await this.abandoned();
    },
    async close(): Promise<void> {
      for (const socket of sockets) socket.destroy();
      await app.close();
      await limiter.close();
    },
  };
}

type Site = Awaited<ReturnType<typeof open>>;

/** The functions of the options during which a client may leave. */
const during: Readonly<Record<string, (pass: () => Promise<void>) => TestOptions>> = {
  skip: (pass) => ({ skip: () => pass().then(() => false) }),
  clientIp: (pass) => ({ clientIp: ({ ip }) => pass().then(() => ip) }),
  keyGenerator: (pass) => ({ keyGenerator: () => pass().then(() => '127.0.0.1') }),
  'a keyGenerator that reads the address': (pass) => ({
    keyGenerator: (request) => pass().then(() => request.ip),
  }),
  keys: (pass) => ({
    policies: [...policies, { name: 'account', limit: 9, window: '1h', by: 'account' }],
    keys: { account: () => pass().then(() => 'ada') },
    name: 'by-account',
  }),
  denyList: (pass) => ({ denyList: () => pass().then(() => false) }),
  tier: (pass) => ({
    ...{ policies: undefined as never, tiers: { free: policies }, name: 'tiers' },
    tier: () => pass().then(() => 'free'),
  }),
  policies: (pass) => ({ policies: () => pass().then(() => policies), name: 'dynamic' }),
  cost: (pass) => ({ cost: () => pass().then(() => 1) }),
  requestId: (pass) => ({ policies: [policies[1]!], name: 'ids', requestId: () => pass().then(() => 'a') }),
  weight: (pass) => ({ weight: () => pass().then(() => 2) }),
};

for (const [name, serve] of Object.entries(served)) {
  describe(`clients that leave early, on ${name}`, () => {
    let site: Site;
    afterEach(() => site.close());

    for (const [how, end] of Object.entries(endings)) {
      if (how === 'half-closed') continue;

      for (const [who, options, ...fields] of [
        ['clients', {}],
        ['clients of a proxy', {}, 'X-Forwarded-For: 192.0.2.7'],
        ['clients with another key', { keyGenerator: () => '127.0.0.1' }],
        ['clients whose key is the address', { keyGenerator: ({ ip }: TestRequest) => ip!.trim() }],
      ] as [string, TestOptions, ...string[]][]) {
        it(`${who} that were ${how} before the limiter: are dropped`, async () => {
          const { pass, arrived, open: go } = gate();
          let started = 0;
          const before = () => pass().then(() => void started++);
          site = await open(serve, options, { before });
          const sockets = await Promise.all(Array.from({ length: 20 }, () => site.send(get('/', ...fields))));
          await until(() => arrived() === 20);
          sockets.forEach((socket) => end(socket));
          await site.abandoned();
          go();
          await until(() => started === 20);
          // The next client is answered after all of these.
          await once(await site.send(get('/', ...fields)), 'readable');
          const { failures, reached, decisions } = site.seen;
          expect([failures, reached, decisions.length]).to.deep.equal([[], 1, 1]);
          const key = fields.length > 0 ? '192.0.2.7' : '127.0.0.1';
          await until(async () => (await site.left(key)) === '1000,999');
        });
      }
    }

    for (const [option, make] of Object.entries(during)) {
      it(`clients that leave during ${option}: are dropped`, async () => {
        const { pass, arrived, open: go } = gate();
        let passed = 0;
        site = await open(
          serve,
          make(() => pass().finally(() => void passed++)),
        );
        const sockets = await Promise.all([1, 2, 3].map(() => site.send()));
        await until(() => arrived() === 3);
        for (const socket of sockets) socket.resetAndDestroy();
        await site.abandoned();
        go();
        await until(() => passed === 3);
        await once(await site.send(), 'readable');
        const { failures, reached, decisions } = site.seen;
        expect([failures, reached, decisions.length]).to.deep.equal([[], 1, 1]);
      });
    }

    it('skipped requests of clients that have left: go on', async () => {
      const { pass, arrived, open: go } = gate();
      site = await open(serve, { skip: () => true }, { before: pass });
      const socket = await site.send();
      await until(() => arrived() === 1);
      socket.resetAndDestroy();
      await site.abandoned();
      go();
      await until(() => site.seen.reached === 1);
      expect(site.seen.failures).to.deep.equal([]);
    });

    it('a missing address of a client that is there: stays an error', async () => {
      site = await open(serve, { clientIp: async () => undefined });
      await once(await site.send(), 'readable');
      expect(site.seen).to.deep.include({ failures: ['HEADGATE_NO_CLIENT_IP'], reached: 0 });
    });

    for (const options of [
      {},
      { skipFailedRequests: true },
      { wait: '1m' },
      { refundAborted: true },
    ] as const)
      it(`at random moments, with ${JSON.stringify(options)}: every charge is an admission, and no slot stays`, async () => {
        const warnings: Error[] = [];
        const warned = (warning: Error) => void warnings.push(warning);
        process.on('warning', warned);
        const delay = fc.integer({ min: 0, max: 12 });
        const client = fc.record({
          ...{ login: delay, key: delay, store: delay, leaves: delay },
          ends: fc.constantFrom('closed', 'reset', 'half-closed', 'stays'),
          requests: fc.integer({ min: 1, max: 3 }),
        });
        await fc.assert(
          fc.asyncProperty(fc.array(client, { minLength: 20, maxLength: 40 }), async (clients) => {
            const of = ({ headers }: TestRequest) => clients[Number(headers['x-client'])]!;
            let asked = 0;
            const inner = memory();
            const store = slowStore(inner, () => sleep(clients[asked++ % clients.length]!.store));
            let [started, entered] = [0, 0];
            const seen = await open(
              serve,
              {
                store,
                ...options,
                keyGenerator: async (request) => {
                  await sleep(of(request).key);
                  return '127.0.0.1';
                },
              },
              {
                before: async () => {
                  entered++;
                  await sleep(clients[entered % clients.length]!.login);
                  started++;
                },
              },
            );
            site = seen;
            await Promise.all(
              clients.map(async ({ leaves, ends, requests }, i) => {
                const socket = await seen.send(get('/', `X-Client: ${i}`).repeat(requests));
                socket.resume();
                await sleep(leaves);
                endings[ends]?.(socket);
              }),
            );
            await until(() => started === entered);
            await sleep(60);
            for (const socket of [await seen.send(get('/', 'X-Client: 0'))]) await once(socket, 'readable');
            await seen.leave();
            await until(async () => (await seen.left()).startsWith('1000,'));
            const admitted = seen.seen.decisions.filter(({ allowed }) => allowed).length;
            expect(seen.seen.failures).to.deep.equal([]);
            expect(seen.seen.reached).to.equal(admitted);
            const charged = 1000 - Number((await seen.left()).split(',')[1]);
            if ('refundAborted' in options) expect(charged).to.be.at.most(admitted);
            else expect(charged).to.equal(admitted);
            await seen.close();
          }),
          runs('memory', 2, 2),
        );
        process.off('warning', warned);
        expect(warnings).to.deep.equal([]);
      });
  });
}

describe('clients that leave early, on Fastify 5 with HTTP/2', () => {
  for (const how of ['streams', 'session'])
    it(`before the limiter, by closing their ${how}: are dropped`, async () => {
      const { pass, arrived, open: go } = gate();
      let started = 0;
      const site = await open(serveHttp2, {}, { before: () => pass().then(() => void started++) });
      const request = (session: ClientHttp2Session) =>
        session
          .request({ ':path': '/' })
          .on('error', () => {})
          .resume();
      const connectTo = () => connectHttp2(`http://127.0.0.1:${site.port}`).on('error', () => {});
      const session = connectTo();
      const streams = [1, 2, 3].map(() => request(session));
      await until(() => arrived() === 3);
      if (how === 'session') session.destroy();
      else streams.forEach((stream) => stream.close(constants.NGHTTP2_CANCEL));
      for (const stream of streams) if (!stream.closed) await once(stream, 'close');
      if (how === 'session') await site.abandoned();
      const next = how === 'session' ? connectTo() : session;
      // The server reads this request after the ends of the streams.
      const last = request(next);
      await until(() => arrived() === 4);
      go();
      await once(last, 'close');
      const { failures, reached, decisions } = site.seen;
      expect([started, failures, reached, decisions.length]).to.deep.equal([4, [], 1, 1]);
      next.destroy();
      await site.close();
    });
});

describe('many limiters of a request', () => {
  for (const [name, serve] of Object.entries(served))
    it(`do not warn of a leak, on ${name}`, async () => {
      const warnings: Error[] = [];
      const warned = (warning: Error) => void warnings.push(warning);
      process.on('warning', warned);
      const limiters = Array.from({ length: 20 }, (_, i): TestOptions => {
        return { name: `limiter ${i}`, store: memory(), policies, skipFailedRequests: true };
      });
      const site = await open(serve, {}, { limiters });
      await once(await site.send(), 'readable');
      await site.close();
      process.off('warning', warned);
      expect(warnings).to.deep.equal([]);
    });
});

/** A store whose decisions take some time. */
function slowStore(inner: Store, delay: () => Promise<void>): Store {
  return around(inner, {
    async decide(query) {
      if (!query.peek) await delay();
      return inner.decide(query);
    },
  });
}
