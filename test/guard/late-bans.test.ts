// A denial that begins a fresh ban, when its answer comes after the limiter's timeout, or never.
import assert from 'node:assert/strict';
import { Redis } from 'ioredis';
import { createLimiter } from 'headgate';
import { redisStore } from 'headgate/redis';
import { until } from '../slow/faults/load.js';
import { Proxy } from '../slow/faults/proxy.js';
import { servers } from '../support/shared-servers.js';
import { clients, freshPrefix, TestClock } from '../support/stores.js';

const BAN_MS = 1000;

describe('a fresh ban', () => {
  const proxy = new Proxy(servers.redis.port);
  let client: Redis;

  before(async () => {
    await proxy.open();
    client = new Redis(proxy.port);
    client.on('error', () => {});
  });

  after(async () => {
    client.disconnect();
    await proxy.close();
  });

  for (const [how, lose] of [
    ['late', () => proxy.hold()],
    ['lost', () => proxy.cutNextReply()],
  ] as const) {
    for (const onStoreError of ['deny', 'local', 'allow'] as const) {
      it(`forgets the charges although its answer is ${how}, with onStoreError: '${onStoreError}'`, async () => {
        const clock = new TestClock();
        const options = { clock: clock.read, prefix: freshPrefix(), publish: false } as const;
        const policy = {
          algorithm: 'fixed-window',
          limit: 2,
          window: '1d',
          ban: { after: 1, for: BAN_MS, fresh: true },
        } as const;
        const common = { ...policy, name: 'late', warnings: false } as const;
        const store = redisStore(client, options);
        const limiter = createLimiter({ ...common, store, onStoreError, timeout: '100ms' });
        // Another process, whose calls do not pass the proxy.
        const other = createLimiter({ ...common, store: redisStore(clients.redis, options), timeout: '20s' });
        await until(async () => !(await limiter.peek('k')).degraded);
        for (let i = 0; i < 2; i++) assert.equal((await limiter.consume('k')).allowed, true);
        lose();
        assert.equal((await limiter.consume('k')).degraded, true);
        await until(async () => (await other.peek('k')).reason === 'banned');
        proxy.release();
        clock.advance(BAN_MS);
        const { allowed, remaining } = await other.peek('k');
        assert.deepEqual({ allowed, remaining }, { allowed: true, remaining: 2 });
        await limiter.close();
        await other.close();
      });
    }
  }
});
