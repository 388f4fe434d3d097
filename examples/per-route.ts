// Per-route limits: a default for all routes, a stricter one, one for a costly operation, and a route without a limit.
//
//   npx tsx examples/per-route.ts
import Fastify from 'fastify';
import { rateLimitPlugin } from 'headgate/fastify';

const fastify = Fastify();

await fastify.register(rateLimitPlugin, { global: true, limit: 100, window: '1m' });

fastify.get('/', () => 'up to 100 a minute, shared by all routes without a limit of their own');

fastify.get('/search', { config: { rateLimit: { limit: 5, window: '10s' } } }, () => 'up to 5 in 10 s');

fastify.get(
  '/export',
  { config: { rateLimit: { algorithm: 'concurrency', limit: 1, lease: '1m' } } },
  async () => {
    await new Promise((resolve) => setTimeout(resolve, 500));
    return 'one at a time';
  },
);

fastify.get('/health', { config: { rateLimit: false } }, () => 'never limited');

const port = Number(process.env.PORT ?? 3000);
await fastify.listen({ port });
console.log(`http://localhost:${port}`);
