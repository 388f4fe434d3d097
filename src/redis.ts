export {
  redisStore,
  type CheckableStore,
  type Finding,
  type LeaseOptions,
  type RedisClient,
  type RedisStoreOptions,
  type TopOptions,
} from './stores/redis/redis.js';
