// The stores under test: suites loop over them.
import { Redis } from 'ioredis';
import { memoryStore, type Clock, type Store } from 'headgate';
import { redisStore } from 'headgate/redis';
import { mapStore } from '../../examples/map-store.js';
import { perServer, servers } from './shared-servers.js';

export { limiterOn, START, TestClock } from './clock.js';

/** Creates a store without state. The default clock is the store's own. */
export type CreateStore = (clock?: Clock) => Store;

/** Clients of the shared servers, for changes that a test makes without the store. */
export const clients = perServer((kind) => new Redis(servers[kind].port));
after(() => Object.values(clients).forEach((client) => client.disconnect()));

let prefixes = 0;

/** A new prefix, which makes a Redis store empty. */
export const freshPrefix = () => `t${(prefixes++).toString(36)}`;

const onServers = perServer(
  (kind): CreateStore =>
    (clock) =>
      redisStore(clients[kind], clock ? { clock, prefix: freshPrefix() } : { prefix: freshPrefix() }),
);

export const memory: CreateStore = (clock) => memoryStore(clock ? { clock } : {});
export const map: CreateStore = (clock) => mapStore(clock);
export const redis: CreateStore = (clock) => onServers.redis(clock);

/** Memory, a store that keeps bytes, and Redis and Valkey if there are servers. */
export const stores = { memory, map, ...onServers };
