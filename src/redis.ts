export {
  redisStore,
  type CheckableStore,
  type Finding,
  type RedisClient,
  type RedisStoreOptions,
  type SliceOptions,
  type CountOptions,
} from './stores/redis/redis.js';
