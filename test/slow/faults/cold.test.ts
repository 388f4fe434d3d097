// The first decisions of a fresh process: its client still connects, and the server knows no script.
import assert from 'node:assert/strict';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { createLimiter } from 'headgate';
import { redisStore, type RedisClient } from 'headgate/redis';
import { servers } from '../../support/shared-servers.js';
import { startServer } from '../../support/servers.js';
import { freshPrefix } from '../../support/stores.js';
import { clientKinds } from './clients.js';
import { Proxy } from './proxy.js';

const BURST = 5000;

/** The number of calls of each command. */
async function commandStats(port: number): Promise<Record<string, number>> {
  const admin = new Redis(port);
  const text = await admin.info('commandstats');
  admin.disconnect();
  return Object.fromEntries(
    [...text.matchAll(/cmdstat_(\w+):calls=(\d+)/g)].map(([, name, calls]) => [name!, Number(calls)]),
  );
}

describe('a cold start', () => {
  for (const [name, connect] of Object.entries(clientKinds)) {
    it(`far from the server, by ${name}: the first call waits for the connection`, async () => {
      const proxy = new Proxy(servers.redis.port);
      await proxy.open();
      // A connection takes several round trips, and so does the first call.
      proxy.delay = 60;
      for (let i = 0; i < 2; i++) {
        const { client, end } = connect(proxy.port);
        const store = redisStore(client, { prefix: freshPrefix() });
        const limiter = createLimiter({ store, limit: 5, window: '1m', timeout: '300ms' });
        const { degraded, remaining } = await limiter.consume('first');
        assert.deepEqual({ degraded, remaining }, { degraded: false, remaining: 4 });
        await limiter.close();
        end();
      }
      await proxy.close();
    });

    for (const delay of [0, 1]) {
      it(`of ${BURST} decisions at once, ${delay} ms away, by ${name}: the store decides all of them`, async () => {
        const server = await startServer('redis');
        const proxy = new Proxy(server.port);
        await proxy.open();
        proxy.delay = delay;
        const { client, end } = connect(proxy.port);
        const limiter = createLimiter({
          store: redisStore(client, { prefix: freshPrefix(), localDenials: false }),
          policies: 'token-bucket 1000/30d',
          // Enough time for a machine that is busy with other tests. The test is about the number of calls.
          timeout: '2s',
        });
        const decisions = await Promise.all(Array.from({ length: BURST }, () => limiter.consume('hot')));
        assert.equal(decisions.filter(({ degraded }) => degraded).length, 0);
        assert.equal(decisions.filter(({ allowed }) => allowed).length, 1000);
        // In the order of the requests.
        assert.deepEqual(
          decisions.slice(0, 1000).map(({ remaining }) => remaining),
          Array.from({ length: 1000 }, (_, i) => 999 - i),
        );
        await limiter.close();
        end();
        await proxy.close();
        const stats = await commandStats(server.port);
        await server.stop();
        assert.equal(stats['eval'], 1);
        assert.ok(stats['evalsha']! <= BURST / 50, `${stats['evalsha']} calls`);
      });
    }
  }

  it('with a refused connection does not make callers wait', async () => {
    const proxy = new Proxy(servers.redis.port);
    await proxy.open();
    await proxy.close();
    const { client, end } = clientKinds['ioredis 6'](proxy.port);
    const limiter = createLimiter({ store: redisStore(client), policies: '5/1m', connectTimeout: '1m' });
    assert.equal((await limiter.consume('first')).degraded, true);
    await limiter.close();
    end();
  });

  /** The pause of a client before it connects again, ms. */
  const PAUSE = 8000;
  const refused: Record<string, (port: number) => { client: RedisClient; end(): void }> = {
    'ioredis, by Sentinel'(port) {
      const client = new Redis({ sentinels: [{ host: '127.0.0.1', port }], name: 'x' });
      client.on('error', () => {});
      return { client, end: () => client.disconnect() };
    },
    'node-redis that waits'(port) {
      // The pause's timer cannot be cleared, but the process must end.
      const client = createClient({ socket: { port, reconnectStrategy: () => PAUSE } });
      client.on('error', () => {});
      client.connect().catch(() => {});
      return { client, end: () => client.destroy() };
    },
    'node-redis that gives up'(port) {
      const client = createClient({ socket: { port, reconnectStrategy: false } });
      client.on('error', () => {});
      client.connect().catch(() => {});
      return { client, end: () => {} };
    },
  };
  for (const [name, connect] of Object.entries(refused)) {
    it(`with a refused connection does not make callers wait, by ${name}`, async function () {
      this.timeout(PAUSE / 2);
      const proxy = new Proxy(servers.redis.port);
      await proxy.open();
      await proxy.close();
      const { client, end } = connect(proxy.port);
      const store = redisStore(client);
      const limiter = createLimiter({ store, limit: 5, window: '1m', connectTimeout: '1m' });
      assert.equal((await limiter.consume('first')).degraded, true);
      await limiter.close();
      end();
    });
  }

  it('against a server that does not answer ends after `connectTimeout`', async () => {
    const proxy = new Proxy(servers.redis.port);
    await proxy.open();
    proxy.hold();
    const { client, end } = clientKinds['ioredis 6'](proxy.port);
    const store = redisStore(client);
    const limiter = createLimiter({ store, limit: 5, window: '1m', timeout: 10, connectTimeout: 150 });
    const start = performance.now();
    assert.equal((await limiter.consume('first')).degraded, true);
    assert.ok(performance.now() - start >= 150);
    await limiter.close();
    end();
    await proxy.close();
  });
});
