// Fastify with Redis: all processes that share the Redis share the quota.
//
//   REDIS_URL=redis://localhost:6379 npx tsx examples/fastify-redis.ts
import Fastify from 'fastify';
import { rateLimitPlugin } from 'headgate/fastify';
import { redisStore } from 'headgate/redis';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const fastify = Fastify();

await fastify.register(rateLimitPlugin, { global: true, store: redisStore(redis), limit: 5, window: '1m' });

fastify.get('/', (request) => ({ remaining: request.rateLimit?.remaining }));

const port = Number(process.env.PORT ?? 3000);
await fastify.listen({ port });
console.log(`http://localhost:${port}`);
