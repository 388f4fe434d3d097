export {
  redisStore,
  type CheckableStore,
  type Finding,
  type RedisClient,
  type RedisStoreOptions,
  type SliceOptions,
  type TopOptions,
} from './stores/redis/redis.js';
