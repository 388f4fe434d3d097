// Faults of single requests: the store is up, and stays up for all other requests.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { createLimiter, HeadgateError, type Policy } from 'headgate';
import { redisStore } from 'headgate/redis';
import { luaFiles } from '../../../src/stores/redis/lua-files.js';
import { servers } from '../../support/shared-servers.js';
import { startServer } from '../../support/servers.js';
import { freshPrefix } from '../../support/stores.js';
import { sleep } from './load.js';

const everyPolicy: readonly Policy[] = [
  { name: 'fixed', algorithm: 'fixed-window', limit: 5, window: '1m' },
  { name: 'sliding', algorithm: 'sliding-window', limit: 5, window: '1m' },
  { name: 'log', algorithm: 'sliding-log', limit: 5, window: '1m' },
  { name: 'bucket', algorithm: 'token-bucket', limit: 5, window: '1m' },
  { name: 'slots', algorithm: 'concurrency', limit: 5, lease: '1m' },
];

async function codeOf(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => assert.fail('it did not reject'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof HeadgateError, String(error));
  return error.code;
}

describe('faults of single requests', () => {
  let client: Redis;
  before(() => (client = new Redis(servers.redis.port)));
  after(() => client.disconnect());

  it('a value of another type under a key fails that key alone, and never the breaker', async () => {
    const prefix = freshPrefix();
    const store = redisStore(client, { prefix });
    for (const [i, policy] of everyPolicy.entries()) {
      const limiter = createLimiter({
        name: `n${i}`,
        store,
        policies: [policy],
        onStoreError: 'throw',
        timeout: '10s',
      });
      await limiter.consume('probe');
      const sample = (await client.keys(`${prefix}:{n${i}:probe*`))[0]!;
      const key = sample.replace('probe', 'bad');
      await client.hset(key, 'a', 'b');
      await client.expire(key, 100);
      for (let n = 0; n < 20; n++) {
        assert.equal(await codeOf(limiter.consume('bad')), 'HEADGATE_STORE_ERROR', policy.algorithm);
        const { allowed, degraded } = await limiter.peek('good');
        assert.ok(allowed && !degraded);
      }
      assert.equal(await codeOf(limiter.peek('bad')), 'HEADGATE_STORE_ERROR');
      assert.equal(limiter.health.state, 'up');
      await limiter.reset('bad');
      assert.ok((await limiter.consume('bad')).allowed, 'reset clears it');
      await limiter.close();
    }
  });

  it('one bad key among several policies charges none', async () => {
    const prefix = freshPrefix();
    const limiter = createLimiter({
      store: redisStore(client, { prefix }),
      policies: everyPolicy,
      onStoreError: 'throw',
      timeout: '10s',
    });
    await limiter.consume('probe');
    const sample = (await client.keys(`${prefix}:{default:probe*log*`))[0]!;
    const bad = sample.replace('probe', 'bad');
    await client.hset(bad, 'a', 'b');
    await client.expire(bad, 100);
    assert.equal(await codeOf(limiter.consume('bad')), 'HEADGATE_STORE_ERROR');
    await client.del(bad);
    const { policies } = await limiter.peek('bad');
    assert.deepEqual(
      policies.map(({ remaining }) => remaining),
      [5, 5, 5, 5, 5],
    );
    await limiter.close();
  });
});

describe('the permissions that docs/redis.md lists', () => {
  const documented = /ACL SETUSER headgate on >password ~hg:\*([^`]+)```/
    .exec(readFileSync('docs/redis.md', 'utf8'))![1]!
    .trim()
    .split(/\s+/);

  it('are those that the scripts use', () => {
    const calls = JSON.stringify(luaFiles).matchAll(/redis\.p?call\('([A-Z]+)'/g);
    const used = new Set([...calls].map((match) => `+${match[1]!.toLowerCase()}`));
    const ofTheClient = ['+eval', '+evalsha', '+hello', '+info', '+ping'];
    assert.deepEqual([...documented].sort(), [...used, ...ofTheClient].sort());
  });

  it('a missing permission charges no policy: earlier writes are undone', async () => {
    const server = await startServer('redis');
    const admin = new Redis(server.port);
    await admin.call('ACL', 'SETUSER', 'headgate', 'on', '>password', '~hg:*', ...documented, '-setrange');
    const user = new Redis(server.port, { username: 'headgate', password: 'password' });
    const counts = (['fixed-window', 'sliding-window', 'token-bucket'] as const).map((algorithm) => ({
      ...{ name: algorithm, algorithm, limit: 9, window: '1h' },
    }));
    const slots = { name: 'slots', algorithm: 'concurrency', limit: 9, lease: '1h' } as const;
    const log = { name: 'log', algorithm: 'sliding-log', limit: 9, window: '1h' } as const;
    for (const first of [...counts.filter(({ name }) => name !== 'sliding-window'), slots]) {
      const limiter = createLimiter({
        name: first.name,
        store: redisStore(user),
        policies: [first, log],
        onStoreError: 'throw',
        timeout: '10s',
      });
      // Only the second charge of a log needs SETRANGE.
      await limiter.consume('a');
      const left = async () => (await limiter.peek('a')).policies.map(({ remaining }) => remaining);
      assert.deepEqual(await left(), [8, 8]);
      await assert.rejects(limiter.consume('a', { cost: 2 }), { code: 'HEADGATE_STORE_ERROR' });
      assert.deepEqual(await left(), [8, 8], first.name);
      await limiter.close();
    }
    for (const client of [admin, user]) client.disconnect();
    await server.stop();
  });

  it('a refund of several policies that is refused in the middle gives no unit back twice', async () => {
    const server = await startServer('redis');
    const admin = new Redis(server.port);
    await admin.call('ACL', 'SETUSER', 'headgate', 'on', '>password', '~hg:*', ...documented);
    const user = new Redis(server.port, { username: 'headgate', password: 'password' });
    const policies = (['fixed-window', 'sliding-log', 'token-bucket'] as const).map((algorithm): Policy => ({
      name: algorithm,
      algorithm,
      limit: 9,
      window: '1d',
    }));
    const limiter = createLimiter({
      store: redisStore(user),
      policies,
      onStoreError: 'throw',
      timeout: '10s',
    });
    const left = async () => (await limiter.peek('a')).policies.map(({ remaining }) => remaining);
    const [decision] = await Promise.all(Array.from({ length: 6 }, () => limiter.consume('a')));
    await admin.call('ACL', 'SETUSER', 'headgate', '-setrange');
    await decision!.refund();
    await sleep(700);
    assert.deepEqual(await left(), [4, 3, 3]);
    await limiter.close();
    for (const client of [admin, user]) client.disconnect();
    await server.stop();
  });

  for (const right of ['zrem', 'zincrby', 'zscore']) {
    it(`without ${right} no held slot is released, and no release is repeated forever`, async () => {
      const server = await startServer('redis');
      const admin = new Redis(server.port);
      await admin.call('ACL', 'SETUSER', 'headgate', 'on', '>password', '~hg:*', ...documented);
      const user = new Redis(server.port, { username: 'headgate', password: 'password' });
      const limiter = createLimiter({
        ...{ store: redisStore(user), algorithm: 'concurrency', limit: 9, lease: '1h', timeout: '10s' },
        onStoreError: 'throw',
      });
      const held = await Promise.all(Array.from({ length: 6 }, () => limiter.acquire('a')));
      await admin.call('ACL', 'SETUSER', 'headgate', `-${right}`);
      await held[0]!.release();
      await admin.config('RESETSTAT');
      await sleep(700);
      const calls = /cmdstat_evalsha:calls=(\d+)/.exec(await admin.info('commandstats'))?.[1] ?? '0';
      assert.equal(Number(calls), 0, 'it is tried again and again');
      await admin.call('ACL', 'SETUSER', 'headgate', `+${right}`);
      // The slot is held until its lease ends, like every slot.
      assert.equal((await limiter.peek('a')).remaining, 3);
      for (const decision of held.slice(1)) assert.equal(await decision.renew(), true);
      await limiter.close();
      for (const client of [admin, user]) client.disconnect();
      await server.stop();
    });
  }

  for (const kind of ['redis', 'valkey'] as const) {
    it(`are enough on ${kind}, for every operation`, async () => {
      const server = await startServer(kind);
      const admin = new Redis(server.port);
      await admin.call('ACL', 'SETUSER', 'headgate', 'on', '>password', '~hg:*', ...documented);
      const user = new Redis(server.port, { username: 'headgate', password: 'password' });
      const limiter = createLimiter({
        store: redisStore(user),
        policies: everyPolicy,
        ban: { after: 3, within: '1m', for: '1m' },
        onStoreError: 'throw',
        timeout: '10s',
      });
      const decision = await limiter.consume('a', { cost: 2 });
      await decision.settle(1);
      await decision.settle(3);
      await decision.renew();
      await decision.release();
      for (let i = 0; i < 8; i++) await limiter.consume('a');
      await limiter.ban('b', '1m');
      await limiter.peek('b');
      await limiter.unban('b');
      await limiter.refund('a', 2);
      await limiter.reset('a');
      await limiter.close();

      // Without one permission, the store fails with a clear error.
      await admin.call('ACL', 'SETUSER', 'headgate', '-evalsha');
      const denied = createLimiter({ store: redisStore(user), policies: '1/1m', onStoreError: 'throw' });
      assert.equal(await codeOf(denied.consume('a')), 'HEADGATE_STORE_ERROR');
      await denied.close();
      user.disconnect();
      admin.disconnect();
      await server.stop();
    });
  }
});
