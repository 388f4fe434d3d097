// The stores under test: suites loop over them.
import { Redis } from 'ioredis';
import { createLimiter, memoryStore, type Clock, type CreateLimiterOptions, type Store } from 'headgate';
import { redisStore } from 'headgate/redis';
import { servers } from './hooks.js';

/** Makes a store without state. The clock is the store's own by default. */
export type CreateStore = (clock?: Clock) => Store;

/** Clients of the shared servers, for what a test does besides the store. */
export const clients = { redis: new Redis(servers.redis.port), valkey: new Redis(servers.valkey.port) };
after(() => Object.values(clients).forEach((client) => client.disconnect()));

let made = 0;

/** A prefix of its own makes a Redis store empty. */
export const freshPrefix = () => `t${(made++).toString(36)}`;

const onRedis =
  (client: Redis): CreateStore =>
  (clock) =>
    redisStore(client, clock ? { clock, prefix: freshPrefix() } : { prefix: freshPrefix() });

export const memory: CreateStore = (clock) => memoryStore(clock ? { clock } : {});
export const redis = onRedis(clients.redis);
export const valkey = onRedis(clients.valkey);
export const stores = { memory, redis, valkey };

/** Redis expires keys by real time: a test's time lies far enough ahead that nothing expires but by the test's clock. */
export const START = Date.now() + 10 * 24 * 3_600_000;

/** Time that passes when the test says so. */
export class TestClock {
  now = START;
  readonly read = (): number => this.now;
}

/** A limiter whose store's failures are the test's, however slow this machine is. */
export function limiterOn(store: Store, options: CreateLimiterOptions) {
  return createLimiter({ onStoreError: 'throw', timeout: '1m', ...options, store });
}
