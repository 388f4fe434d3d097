// The store accepts only the clients for which the fault tests show that no request counts twice.
import assert from 'node:assert/strict';
import { Cluster, Redis } from 'ioredis';
import { Cluster as ValkeyCluster, Redis as Valkey } from 'iovalkey';
import { createClient, createClientPool, createCluster, createSentinel } from 'redis';
import { HeadgateError } from 'headgate';
import { redisStore, type RedisClient } from 'headgate/redis';

const node = { host: '127.0.0.1', port: 1 };
const rootNodes = [{ url: 'redis://127.0.0.1:1' }];

describe('clients of redisStore', () => {
  const accepted: Record<string, () => unknown> = {
    'Redis of ioredis': () => new Redis({ lazyConnect: true }),
    'Redis of ioredis, for Sentinel': () => new Redis({ lazyConnect: true, sentinels: [node], name: 'x' }),
    'Cluster of ioredis': () => new Cluster([node], { lazyConnect: true }),
    'Redis of iovalkey': () => new Valkey({ lazyConnect: true }),
    'Cluster of iovalkey': () => new ValkeyCluster([node], { lazyConnect: true }),
    'createClient of redis': () => createClient(),
    'createCluster of redis': () => createCluster({ rootNodes }),
  };
  for (const [name, make] of Object.entries(accepted)) {
    it(`${name} is accepted`, () => {
      redisStore(make() as RedisClient);
    });
  }

  const old = { evalSha() {}, isOpen: true, isReady: true, select() {} };
  const unknown = { evalSha() {}, isOpen: true, withCommandOptions() {} };
  const refused: Record<string, readonly [() => unknown, RegExp]> = {
    'createSentinel of redis': [
      () => createSentinel({ name: 'x', sentinelRootNodes: [node] }),
      /createSentinel\(\) .*new Redis\(\{ sentinels, name \}\)/,
    ],
    'createClientPool of redis': [() => createClientPool(), /\bpool\b.*createClient\(\)/],
    'createClient of redis 4': [() => old, /\bredis 4\b.*\b5\b/],
    'what has only the methods of a client': [() => unknown, /new Redis\(url\)/],
    'a pipeline of ioredis': [() => new Redis({ lazyConnect: true }).pipeline(), /new Redis/],
  };
  for (const [name, [make, message]] of Object.entries(refused)) {
    it(`${name} is refused`, () => {
      assert.throws(
        () => redisStore(make() as RedisClient),
        (error) =>
          error instanceof HeadgateError &&
          error.code === 'HEADGATE_INVALID_OPTION' &&
          message.test(error.message),
      );
    });
  }
});
