// `limiter.health` and `onHealth`: without any traffic, and while decisions fail for a reason that a simpler call would not show.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { createLimiter, type Health, type Limiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { startServer, type TestServer } from '../../support/servers.js';

const policy = { limit: 1e6, window: '1m', warnings: false } as const;

async function becomes(limiter: Limiter, state: Health['state']): Promise<void> {
  for (let waited = 0; limiter.health.state !== state; waited += 50) {
    assert.ok(waited < 15_000, `${limiter.health.state} instead of ${state}`);
    await sleep(50);
  }
}

describe('the health of a store without traffic', function () {
  this.timeout(60_000);
  let server: TestServer;
  let client: Redis;
  beforeEach(async () => {
    server = await startServer('redis');
    client = new Redis(server.port, { maxRetriesPerRequest: null });
    client.on('error', () => {});
  });
  afterEach(async () => {
    client.disconnect();
    await server.kill('SIGCONT').catch(() => {});
    await server.stop();
  });

  const faults: Readonly<Record<string, [breaks: () => Promise<unknown>, mends: () => Promise<unknown>]>> = {
    'stops answering': [() => server.kill('SIGSTOP'), () => server.kill('SIGCONT')],
    'is READONLY': [() => client.replicaof('127.0.0.1', 1), () => client.replicaof('NO', 'ONE')],
    'has no memory left': [
      async () => {
        await client.config('SET', 'maxmemory-policy', 'noeviction');
        await client.config('SET', 'maxmemory', '1');
      },
      () => client.config('SET', 'maxmemory', '0'),
    ],
  };
  for (const [what, [breaks, mends]] of Object.entries(faults)) {
    it(`that ${what} is down within seconds, is reported once, and is up again by itself`, async () => {
      const states: string[] = [];
      const store = redisStore(client);
      const reader = createLimiter({ name: 'reader', store, ...policy });
      const listener = createLimiter({
        name: 'listener',
        store,
        ...policy,
        onHealth: ({ state }: Health) => states.push(state),
      });
      await reader.consume('a');
      assert.equal(reader.health.state, 'up');
      await breaks();
      await becomes(reader, 'down');
      assert.deepEqual(states, ['down']);
      await mends();
      await becomes(reader, 'up');
      assert.deepEqual(states, ['down', 'up']);
      await Promise.all([reader.close(), listener.close()]);
    });
  }

  it('that is gone is down, even for a limiter without any decision', async () => {
    const limiter = createLimiter({ store: redisStore(client), ...policy, connectTimeout: '500ms' });
    await server.kill('SIGKILL');
    await becomes(limiter, 'down');
    await limiter.close();
  });

  it('costs no call while no caller reads it', async () => {
    const limiter = createLimiter({
      store: redisStore(client, { publish: false, counts: false }),
      ...policy,
    });
    await limiter.consume('a');
    await client.config('RESETSTAT');
    await sleep(2500);
    assert.doesNotMatch(await client.info('commandstats'), /cmdstat_eval/);
    await limiter.close();
  });
});

describe('the health of a store whose decisions all fail', function () {
  this.timeout(60_000);
  const cases: Readonly<Record<string, [policy: object, rights: string[]]>> = {
    'ZADD is not permitted': [{ algorithm: 'concurrency', limit: 1000, lease: '1s' }, ['~*', '-zadd']],
    'GETRANGE is not permitted': [
      { algorithm: 'sliding-log', limit: 1000, window: '1s' },
      ['~*', '-getrange'],
    ],
    'the keys of the limiter are not permitted': [policy, ['~hg:{headgate-probe:*']],
  };
  for (const [what, [options, rights]] of Object.entries(cases)) {
    it(`${what}: it is down all the time, and reported once`, async () => {
      const server = await startServer('redis');
      const admin = new Redis(server.port);
      await admin.call('ACL', 'SETUSER', 'headgate', 'on', '>password', 'resetkeys', '+@all', ...rights);
      const client = new Redis(server.port, { username: 'headgate', password: 'password' });
      const states: string[] = [];
      const limiter = createLimiter({
        store: redisStore(client, { publish: false }),
        name: 'api',
        warnings: false,
        onHealth: ({ state }: Health) => states.push(state),
        ...options,
      } as never);
      const samples: string[] = [];
      for (let i = 0; i < 400; i++) {
        const { degraded } = await limiter.consume(`key ${i % 7}`);
        assert.ok(degraded);
        samples.push(limiter.health.state);
        await sleep(10);
      }
      assert.deepEqual(states, ['down']);
      assert.ok(samples.filter((state) => state === 'up').length < 40, samples.join());
      // The store is used again once the user has the permission.
      await admin.call('ACL', 'SETUSER', 'headgate', '~*', '+@all');
      for (let i = 0; limiter.health.state !== 'up'; i++) {
        assert.ok(i < 100, 'it stays down');
        await sleep(100);
      }
      assert.equal((await limiter.consume('key')).degraded, false);
      await limiter.close();
      for (const each of [admin, client]) each.disconnect();
      await server.stop();
    });
  }
});
