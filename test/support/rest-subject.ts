// The store over HTTP in the form that headgate-testing expects.
import type { Clock, Store } from 'headgate';
import { redisStore, upstashRedis } from 'headgate/upstash';
import type { StoreUnderTest } from 'headgate-testing';
import { runsOf } from './kit.js';
import type { RestServer } from './rest-server.js';
import { clients, freshPrefix } from './stores.js';

/** @param rest called for each store, because the server starts after the checks were made */
export function restSubject(rest: () => RestServer, onServer: number): StoreUnderTest {
  const prefixes = new WeakMap<Store, string>();
  const create = (clock: Clock, prefix: string) => {
    const { url, token } = rest();
    const store = redisStore(upstashRedis({ url, token }), { clock, prefix });
    prefixes.set(store, prefix);
    return store;
  };
  return {
    createStore: (clock) => create(clock, freshPrefix()),
    createSibling: (store, clock) => create(clock, prefixes.get(store)!),
    entries: async (store) => {
      const names = await clients.redis.keys(`${prefixes.get(store)}:*`);
      const ends = await Promise.all(names.map((name) => clients.redis.pexpiretime(name)));
      return names.map((name, i) => ({ name, expiresAt: ends[i]! < 0 ? undefined : ends[i] }));
    },
    ordered: true,
    runs: runsOf('redis', 0, onServer),
  };
}
