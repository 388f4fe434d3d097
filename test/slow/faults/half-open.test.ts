// A connection that is dead without a sign: the client's own timeout detects the loss, unless Headgate's probes keep the timeout from ending.
import assert from 'node:assert/strict';
import { mock } from 'node:test';
import { Cluster, Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { Redis as Valkey } from 'iovalkey';
import { createClient, createCluster } from 'redis';
import { createLimiter, memoryStore } from 'headgate';
import { redisStore, type RedisClient } from 'headgate/redis';
import { startCluster } from '../../support/cluster.js';
import { startServer, type TestServer } from '../../support/servers.js';
import { freshPrefix } from '../../support/stores.js';
import { sleep, until } from './load.js';
import { Proxy } from './proxy.js';
import { around } from '../../support/around.js';

// The value of docs/redis.md, but shorter.
const SOCKET_TIMEOUT_MS = 1000;
const ioredisOptions = { socketTimeout: SOCKET_TIMEOUT_MS, retryStrategy: () => 50 };
const nodeRedisOptions = {
  socket: { socketTimeout: SOCKET_TIMEOUT_MS, reconnectStrategy: () => 50 },
  pingInterval: 250,
};

interface Made {
  readonly client: RedisClient;
  end(): void;
}

function ioredis(client: Redis | Redis5 | Valkey | Cluster): Made {
  (client as Redis).on('error', () => {});
  return { client, end: () => client.disconnect() };
}

const clients: Record<string, (port: number) => Made> = {
  'ioredis 6': (port) => ioredis(new Redis(port, ioredisOptions)),
  'ioredis 5': (port) => ioredis(new Redis5(port, ioredisOptions)),
  iovalkey: (port) => ioredis(new Valkey(port, ioredisOptions)),
  'node-redis'(port) {
    const client = createClient({ ...nodeRedisOptions, socket: { port, ...nodeRedisOptions.socket } });
    client.on('error', () => {});
    client.connect().catch(() => {});
    return { client, end: () => client.destroy() };
  },
};

/** Makes a connection die under load. Checks that the store decides again, and its counts. */
async function die(client: RedisClient, proxy: Proxy): Promise<void> {
  const limiter = createLimiter({
    store: redisStore(client, { prefix: freshPrefix() }),
    policies: '10/10m',
    localShare: 1,
  });
  await until(async () => !(await limiter.consume('connected')).degraded);
  const asked: string[] = [];
  const ask = async (): Promise<boolean> => {
    const key = `key-${asked.length}`;
    asked.push(key);
    return (await limiter.consume(key)).degraded;
  };
  // At the second death the server knows every script, including the probe's.
  for (const death of ['first', 'second']) {
    // Some calls are on their way when the connection dies.
    const underWay = Array.from({ length: 20 }, ask);
    proxy.swallow();
    await Promise.all([...underWay, until(async () => limiter.health.state === 'down' || !(await ask()))]);
    assert.equal(limiter.health.state, 'down', `nobody noticed the ${death} death`);
    // Load continues while the store is down.
    const load = setInterval(() => void ask(), 5);
    try {
      await until(() => limiter.health.state === 'up', 3 * SOCKET_TIMEOUT_MS);
    } finally {
      clearInterval(load);
    }
    // A busy machine may delay single answers.
    await until(async () => !(await ask()));
  }
  await sleep(50);
  for (const key of asked) {
    const { remaining, degraded } = await limiter.peek(key);
    assert.equal(degraded, false);
    assert.ok(remaining >= 9, `${key} was counted ${10 - remaining} times`);
  }
  await limiter.close();
}

/** Collected from before the first test on, because a test of another file may trigger the warning, which comes once per process. */
const warnings: NodeJS.ErrnoException[] = [];
process.on('warning', (warning) => warnings.push(warning));

describe('a connection that is dead without a sign', function () {
  this.timeout(30_000);
  let server: TestServer;
  before(async () => (server = await startServer('redis')));
  after(() => server.stop());

  for (const [name, connect] of Object.entries(clients)) {
    it(`is closed by the client’s socketTimeout, and no request is counted twice, by ${name}`, async () => {
      const proxy = new Proxy(server.port);
      await proxy.open();
      const { client, end } = connect(proxy.port);
      try {
        await die(client, proxy);
      } finally {
        end();
        await proxy.close();
      }
    });
  }

  for (const name of ['ioredis', 'node-redis'] as const) {
    it(`is closed by the client’s socketTimeout in a cluster, by ${name}`, async () => {
      const cluster = await startCluster('redis', 1, ['--cluster-announce-ip', '127.0.0.1']);
      const [{ port }] = cluster.servers as [TestServer];
      const proxy = new Proxy(port);
      await proxy.open();
      const address = { host: '127.0.0.1', port: proxy.port };
      const map = { [`127.0.0.1:${port}`]: address };
      const url = `redis://127.0.0.1:${proxy.port}`;
      const nodeRedis = createCluster({
        rootNodes: [{ url }],
        defaults: nodeRedisOptions,
        nodeAddressMap: map,
      });
      const made =
        name === 'ioredis'
          ? ioredis(new Cluster([address], { redisOptions: ioredisOptions, natMap: map }))
          : {
              client: nodeRedis.on('error', () => {}) as unknown as RedisClient,
              end: () => nodeRedis.destroy(),
            };
      try {
        if (name === 'node-redis') await nodeRedis.connect();
        await die(made.client, proxy);
      } finally {
        made.end();
        await proxy.close();
        await cluster.stop();
      }
    });
  }

  it('is reported once, if the client does not notice', async () => {
    let questions = 0;
    const hangs = new Promise<never>(() => {});
    const store = around(memoryStore(), { decide: () => (questions++, hangs), whenReady: () => hangs });
    const limiter = createLimiter({ store, limit: 1, window: '1s', timeout: 5, connectTimeout: 5 });
    try {
      await until(async () => {
        await limiter.consume('a');
        return limiter.health.state === 'down';
      });
      const before = questions;
      // A probe asks twice at once.
      await until(() => questions > before);
      // The limiter's timer for this question runs in real time, and so does the pause between probes.
      mock.timers.enable({ apis: ['setTimeout'] });
      const enabled = performance.now();
      while (performance.now() - enabled < 50) await new Promise(setImmediate);
      for (let second = 0; second < 20; second++) {
        if (second < 10) assert.equal(questions, before + 2, 'it writes on a connection that may be dead');
        mock.timers.tick(1000);
        for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
      }
      mock.timers.reset();
      await until(() => questions > before + 2);
      await limiter.close();
    } finally {
      mock.timers.reset();
    }
    assert.equal(warnings.filter(({ code }) => code === 'HEADGATE_SILENT_CONNECTION').length, 1);
  });
});
