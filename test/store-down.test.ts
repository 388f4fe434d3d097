// A Redis with a wrong set-up is reported by one warning with the cause, and by every message of `headgate:store`.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { expect } from 'chai';
import type { Request, Response } from 'express';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { createLimiter, type LimiterOptions, type Store, type WarningCode } from 'headgate';
import { rateLimit as standIn } from 'headgate/compat/express-rate-limit';
import { instrument } from 'headgate/opentelemetry';
import { redisStore, type RedisClient } from 'headgate/redis';
import type { StoreMessage } from '../src/contract/diagnostics.js';
import { emittedCodes } from '../src/common/warnings.js';
import { freePort, startServer } from './support/servers.js';
import { servers } from './support/shared-servers.js';

interface Mistake {
  readonly title: string;
  connect(): Promise<[RedisClient, end: () => unknown]> | [RedisClient, end: () => unknown];
  readonly cause: RegExp;
  /** The client's deadline for its error. Default `'10s'`: the error comes at once, but the machine may be busy. */
  readonly connectTimeout?: '50ms';
}

const user = 'store-down';

function ioredis(options: object): [RedisClient, () => unknown] {
  const client = new Redis({ port: servers.redis.port, maxRetriesPerRequest: 0, ...options });
  client.on('error', () => {});
  return [client, () => client.disconnect()];
}

const mistakes: readonly Mistake[] = [
  {
    title: 'a wrong password',
    connect: () => ioredis({ username: user, password: 'wrong' }),
    cause: /WRONGPASS/,
  },
  { title: 'a wrong port', connect: async () => ioredis({ port: await freePort() }), cause: /ECONNREFUSED/ },
  {
    title: 'a permission that is missing',
    connect: () => ioredis({ username: user, password: 'right' }),
    cause: /NOPERM/,
  },
  {
    title: 'TLS to a port without it',
    connectTimeout: '50ms',
    connect: () => ioredis({ tls: {} }),
    cause: /\b50 ms\b.*TLS \(rediss:\/\/\)/,
  },
  {
    title: 'TLS to a port without it, by node-redis',
    connectTimeout: '50ms',
    connect: () => {
      const client = createClient({ url: servers.redis.url.replace('redis:', 'rediss:') });
      client.on('error', () => {});
      client.connect().catch(() => {});
      return [client, () => client.destroy()];
    },
    cause: /TLS/,
  },
  {
    title: 'node-redis without connect()',
    connect: () => [createClient({ url: servers.redis.url }), () => {}],
    cause: /connect\(\)/,
  },
];

const modes = ['local', 'allow', 'deny', 'throw'] as const;

describe('a Redis that is set up wrongly', () => {
  const { emitWarning } = process;
  let warned: string[] = [];
  let admin: Redis;

  before(async () => {
    admin = new Redis(servers.redis.port);
    await admin.call('ACL', 'SETUSER', user, 'on', '>right', '~hg:*', '+info', '+ping');
  });
  after(async () => {
    await admin.call('ACL', 'DELUSER', user);
    admin.disconnect();
  });
  beforeEach(() => {
    warned = [];
    emittedCodes.clear();
    process.emitWarning = ((message: string, options: { code?: string }) => {
      // Stores of other suites that are down are still probed now and then.
      if (options.code === 'HEADGATE_STORE_DOWN' && !/failed: (away|down)/.test(message))
        warned.push(message);
      else emittedCodes.delete(options.code as WarningCode);
    }) as typeof emitWarning;
  });
  afterEach(() => (process.emitWarning = emitWarning));

  const short = { limit: 5, window: '1m', connectTimeout: '50ms', timeout: '50ms' } as const;

  /** Sends requests until the store is down. */
  async function fail(store: Store, options: Partial<LimiterOptions> = {}): Promise<void> {
    const limiter = createLimiter({ ...short, store, ...options });
    await limiter.consume('key').catch(() => {});
    while (limiter.health.state === 'up') {
      await limiter.consume('key').catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await limiter.close();
  }

  for (const { title, connect, cause, connectTimeout = '10s' } of mistakes) {
    describe(title, () => {
      for (const onStoreError of modes) {
        it(`${onStoreError}: one warning, at the first request, with the cause`, async () => {
          const [client, end] = await connect();
          const limiter = createLimiter({
            ...short,
            timeout: connectTimeout,
            connectTimeout,
            store: redisStore(client),
            onStoreError,
          });
          await limiter.consume('key').catch(() => {});
          expect(warned).to.have.length(1);
          expect(warned[0]).to.match(cause);
          expect(warned[0]).to.match(/ See node_modules\/headgate\/docs\/errors\.md#headgate_store_down$/);
          expect(warned[0]!.match(/See/g)).to.have.length(1);
          await limiter.close();
          end();
        });

        it(`${onStoreError}: headgate:store carries the error`, async () => {
          const [client, end] = await connect();
          const messages: StoreMessage[] = [];
          const listen = (message: unknown) => void messages.push(message as StoreMessage);
          subscribe('headgate:store', listen);
          try {
            await fail(redisStore(client), { onStoreError });
          } finally {
            unsubscribe('headgate:store', listen);
          }
          expect(messages.length).to.be.at.least(1);
          for (const { error, degraded } of messages) {
            expect(error)
              .to.be.an('error')
              .with.property('code')
              .that.matches(/^HEADGATE_STORE_/);
            expect(degraded).to.equal(onStoreError !== 'throw');
          }
          end();
        });
      }
    });
  }

  for (const { title, connect, cause } of mistakes.slice(0, 2)) {
    it(`${title}: the warning has the cause even if the client failed before the first decision`, async () => {
      const [client, end] = await connect();
      const store = redisStore(client);
      await new Promise<unknown>((resolve) => void (client as Redis).once('error', resolve));
      const limiter = createLimiter({ ...short, connectTimeout: '10s', store });
      await limiter.consume('key');
      expect(warned).to.have.length(1);
      expect(warned[0]).to.match(cause);
      await limiter.close();
      end();
    });
  }

  it('node-redis while it waits to connect again: no decision waits with it', async () => {
    const server = await startServer('redis');
    const client = createClient({ url: server.url, socket: { reconnectStrategy: () => 500 } });
    client.on('error', () => {});
    await client.connect();
    const reconnecting = new Promise<void>((resolve) => void client.once('reconnecting', resolve));
    const options = { limit: 5, window: '1m', onStoreError: 'throw', timeout: '10s' } as const;
    const limiter = createLimiter({ ...options, store: redisStore(client) });
    await limiter.consume('key');
    await server.stop();
    await reconnecting;
    const error: unknown = await limiter.consume('key').catch((thrown: unknown) => thrown);
    expect(String(error)).to.contain('reconnecting');
    await limiter.close();
    client.destroy();
  });

  it('a server without EVALSHA: the warning names the command, and not the client', async () => {
    const server = await startServer('redis', { args: ['--rename-command', 'EVALSHA', 'gone'] });
    const client = new Redis(server.port);
    const limiter = createLimiter({ ...short, connectTimeout: '10s', store: redisStore(client) });
    await limiter.consume('203.0.113.7');
    expect(warned).to.have.length(1);
    expect(warned[0])
      .to.match(/unknown command 'evalsha'\. /)
      .and.not.to.include('203.0.113.7');
    await limiter.close();
    client.disconnect();
    await server.stop();
  });

  const broken = (): Store => {
    const reject = () => Promise.reject(new Error('ECONNREFUSED'));
    return { decide: reject, adjust: reject, lease: reject, reset: reject, ban: reject };
  };

  it('a store that worked before: one warning, once it is down', async () => {
    let isUp = true;
    const working = createLimiter({ limit: 5, window: '1m' });
    const inner = broken();
    const store: Store = {
      ...inner,
      decide: (query) =>
        isUp
          ? Promise.resolve({ now: Date.now(), step: 1, ban: 0, verdicts: [0, 4, 60_000] })
          : inner.decide(query),
    };
    const limiter = createLimiter({ ...short, timeout: '10s', store });
    expect((await limiter.consume('key')).degraded).to.equal(false);
    isUp = false;
    await limiter.consume('key');
    expect(warned).to.deep.equal([]);
    await fail(store, { name: 'other' });
    await fail(store, { name: 'another' });
    expect(warned).to.have.length(1);
    expect(warned[0]).to.match(/ECONNREFUSED/);
    await limiter.close();
    await working.close();
  });

  it('names the deciding option of the stand-in for express-rate-limit', async () => {
    const limit = standIn({ store: broken(), timeout: '50ms', logger: { error() {}, warn() {} } });
    await limit({ ip: '127.0.0.1' } as Request, {} as Response, () => {});
    expect(warned).to.have.length(1);
    expect(warned[0]).to.match(/passOnStoreError.* headgate:health/);
  });

  it('no warning if onHealth or a subscriber of the health listens, or if the warning is silenced', async () => {
    await fail(broken(), { onHealth: () => {} });
    await fail(broken(), { warnings: false });
    await fail(broken(), { warnings: ['HEADGATE_STORE_DOWN'] });
    const listen = () => {};
    subscribe('headgate:health', listen);
    await fail(broken());
    unsubscribe('headgate:health', listen);
    expect(warned).to.deep.equal([]);
    await fail(broken());
    expect(warned).to.have.length(1);
  });

  it('a warning beside metrics, which nobody may scrape, and beside a subscriber of the times of the store', async () => {
    const stop = instrument();
    const listen = () => {};
    subscribe('headgate:store', listen);
    await fail(broken());
    unsubscribe('headgate:store', listen);
    stop();
    expect(warned).to.have.length(1);
  });
});

describe('the minute in which Redis fails', () => {
  for (const [localShare, locally] of [
    [1, 10],
    [0.5, 5],
    [1 / 4, 2],
  ] as const)
    it(`admits 3 by Redis and ${locally} in this process, with localShare: ${localShare}`, async () => {
      const server = await startServer('redis');
      const client = new Redis(server.port);
      client.on('error', () => {});
      const limiter = createLimiter({
        ...{
          name: 'api',
          store: redisStore(client),
          policies: 'fixed-window 10/1h',
          localShare,
          warnings: false,
        },
      });
      const ask = async (count: number): Promise<number> => {
        let admitted = 0;
        for (let i = 0; i < count; i++) if ((await limiter.consume('ada')).allowed) admitted++;
        return admitted;
      };
      expect(await ask(3)).to.equal(3);
      await server.stop();
      expect(await ask(17)).to.equal(locally);
      await limiter.close();
      client.disconnect();
    });
});
