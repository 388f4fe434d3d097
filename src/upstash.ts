export {
  upstashRedis,
  type UpstashLike,
  type UpstashOptions,
  type UpstashRedis,
} from './stores/redis/clients/upstash.js';
export { redisStore } from './stores/redis/upstash.js';
export type {
  CheckableStore,
  Finding,
  RedisStoreOptions,
  SliceOptions,
  CountOptions,
} from './stores/redis/redis.js';
