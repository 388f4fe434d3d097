export * from './stores/redis/redis.js';
