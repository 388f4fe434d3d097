// The errors of clients without a listener of the user: the process goes on, a warning comes once, and listeners do not pile up.
import { once, type EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { Cluster, Redis } from 'ioredis';
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis5';
import { Cluster as ValkeyCluster, Redis as Valkey } from 'iovalkey';
import { createClient, createCluster } from 'redis';
import { createClient as createClient5, createCluster as createCluster5 } from 'redis5';
import { createLimiter, type CreateLimiterOptions } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { redisStore, type RedisClient } from 'headgate/redis';
import { emittedCodes } from '../../src/common/warnings.js';
import { startCluster, type TestCluster } from '../support/cluster.js';
import { startServer, type TestServer } from '../support/servers.js';
import { freshPrefix } from '../support/stores.js';

interface Made {
  readonly client: unknown;
  /** Begins to connect, if the client has not begun when it was made. */
  connect?(): Promise<unknown>;
  end(): unknown;
}

const host = '127.0.0.1';
const retry = { retryStrategy: () => 20 };

const clients: Readonly<Record<string, (port: number) => Made>> = {
  'ioredis 6'(port) {
    const client = new Redis({ host, port, ...retry });
    return { client, end: () => client.disconnect() };
  },
  'ioredis 5'(port) {
    const client = new Redis5({ host, port, ...retry });
    return { client, end: () => client.disconnect() };
  },
  iovalkey(port) {
    const client = new Valkey({ host, port, ...retry });
    return { client, end: () => client.disconnect() };
  },
  'node-redis 6'(port) {
    const client = createClient({ socket: { host, port, reconnectStrategy: () => 20 } });
    return { client, connect: () => client.connect(), end: () => client.destroy() };
  },
  'node-redis 5'(port) {
    const client = createClient5({ socket: { host, port, reconnectStrategy: () => 20 } });
    return { client, connect: () => client.connect(), end: () => client.destroy() };
  },
};

const clusters: Readonly<Record<string, (cluster: TestCluster) => Made>> = {
  'ioredis 6'({ servers }) {
    const client = new Cluster(servers.map(({ port }) => ({ host, port })));
    return { client, end: () => client.disconnect() };
  },
  'ioredis 5'({ servers }) {
    const client = new Cluster5(servers.map(({ port }) => ({ host, port })));
    return { client, end: () => client.disconnect() };
  },
  'ioredis 6 with reconnectOnError: () => 2'({ servers }) {
    const nodes = servers.map(({ port }) => ({ host, port }));
    const client = new Cluster(nodes, { redisOptions: { reconnectOnError: () => 2 } });
    return { client, end: () => client.disconnect() };
  },
  iovalkey({ servers }) {
    const client = new ValkeyCluster(servers.map(({ port }) => ({ host, port })));
    return { client, end: () => client.disconnect() };
  },
  'node-redis 6'({ servers }) {
    const client = createCluster({ rootNodes: servers.map(({ url }) => ({ url })) });
    return { client, connect: () => client.connect(), end: () => client.destroy() };
  },
  'node-redis 5'({ servers }) {
    const client = createCluster5({ rootNodes: servers.map(({ url }) => ({ url })) });
    return { client, connect: () => client.connect(), end: () => client.destroy() };
  },
};

const limiterOn = (client: unknown, options: Pick<CreateLimiterOptions, 'timeout'> = {}) =>
  createLimiter({
    store: redisStore(client as RedisClient, { prefix: freshPrefix(), localDenials: false }),
    policies: '1000/1h',
    ...options,
  });

describe('errors of clients', function () {
  this.timeout(30_000);

  for (const [name, make] of Object.entries(clients)) {
    it(`${name}: the process goes on when the server dies, and limits hold; a warning comes once`, async () => {
      const server = await startServer('redis');
      const { client, connect, end } = make(server.port);
      const limiter = limiterOn(client);
      await connect?.();
      expect((await limiter.consume('ada')).degraded).to.equal(false);
      emittedCodes.delete('HEADGATE_CLIENT_ERROR');
      await server.kill('SIGKILL');
      while (!emittedCodes.has('HEADGATE_CLIENT_ERROR')) await sleep(5);
      expect((await limiter.consume('ada')).degraded).to.equal(true);
      const again = await startServer('redis', { port: server.port });
      while ((await limiter.consume('ada')).degraded) await sleep(10);
      await limiter.close();
      end();
      await again.stop();
    });

    it(`${name}: one listener for any number of stores and admins, until the last is closed; the user's goes on`, async () => {
      const server = await startServer('redis');
      const { client, connect, end } = make(server.port);
      await connect?.();
      const emitter = client as EventEmitter;
      const before = emitter.listenerCount('error');
      const others = (): number =>
        ['ready', 'close', 'end', 'reconnecting'].reduce((sum, each) => sum + emitter.listenerCount(each), 0);
      const stores = [redisStore(client as RedisClient), redisStore(client as RedisClient, { slices: true })];
      const begun = others();
      for (let i = 0; i < 50; i++) stores.push(redisStore(client as RedisClient));
      const admin = createAdmin(client as RedisClient);
      expect([emitter.listenerCount('error') - before, others()]).to.deep.equal([1, begun]);
      emittedCodes.delete('HEADGATE_CLIENT_ERROR');
      const heard = once(emitter, 'end').catch((error: Error) => error.message);
      const errors: unknown[] = [];
      emitter.on('error', (error) => errors.push(error));
      emitter.emit('error', new Error('lost'));
      expect(errors).to.have.length(1);
      expect(emittedCodes.has('HEADGATE_CLIENT_ERROR')).to.equal(false);
      await heard;
      for (const store of stores) {
        expect(emitter.listenerCount('error') - before).to.equal(2);
        await store.close?.();
      }
      await admin.close();
      expect(emitter.listenerCount('error') - before).to.equal(1);
      end();
      await server.stop();
    });
  }

  it('an admin alone listens, too', async () => {
    const server = await startServer('redis');
    const client = createClient({ socket: { host, port: server.port, reconnectStrategy: () => 20 } });
    const admin = createAdmin(client);
    await client.connect();
    await admin.limiters();
    emittedCodes.delete('HEADGATE_CLIENT_ERROR');
    await server.kill('SIGKILL');
    while (!emittedCodes.has('HEADGATE_CLIENT_ERROR')) await sleep(5);
    await admin.close();
    client.destroy();
  });
});

describe('the first decisions of a process', function () {
  this.timeout(30_000);
  let cluster: TestCluster;
  let server: TestServer;
  before(async () => {
    [cluster, server] = await Promise.all([startCluster('redis'), startServer('redis')]);
  });
  after(() => Promise.all([cluster.stop(), server.stop()]));

  // No server knows the script.
  beforeEach(async () => {
    for (const { port } of [...cluster.servers, server]) {
      const control = new Redis(port);
      await control.script('FLUSH');
      control.disconnect();
    }
  });

  const all = [
    ...Object.entries(clients).map(([name, make]) => [name, () => make(server.port)] as const),
    ...Object.entries(clusters).map(([name, make]) => [`${name}, a cluster`, () => make(cluster)] as const),
  ];
  for (const [name, make] of all) {
    it(`wait for ${name}, although nobody has awaited its connection`, async () => {
      const { client, connect, end } = make();
      const connected = connect?.();
      // A server of a busy machine answers late. A decision that does not wait for the connection is degraded at once.
      const limiter = limiterOn(client, { timeout: '10s' });
      try {
        const decisions = await Promise.all(
          Array.from({ length: 20 }, (_, i) => limiter.consume(`key ${i}`)),
        );
        expect(decisions.filter(({ degraded }) => degraded)).to.have.length(0);
        await connected;
      } finally {
        await limiter.close();
        end();
      }
    });
  }
});
