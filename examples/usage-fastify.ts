// The same as usage.ts, on Fastify: customers see what is left of their quotas.
//
//   npx tsx examples/usage-fastify.ts
import Fastify, { type FastifyRequest } from 'fastify';
import { createLimiter } from 'headgate';
import { rateLimitPlugin } from 'headgate/fastify';
import { usagePage } from './usage-page.js';

const limiter = createLimiter({
  name: 'api',
  policies: ['minute=60/1m', 'month=calendar 10000/month unit requests'],
});

// In a real application: the account from your authentication. Never trust a header without it.
const accountOf = (request: FastifyRequest): string => String(request.headers['x-api-key'] ?? 'demo');

const fastify = Fastify();
await fastify.register(rateLimitPlugin, { limiter, keyGenerator: accountOf });

// Without a limit, so that a customer whose quota is spent can still look.
fastify.get('/usage', { config: { rateLimit: false } }, async (request, reply) => {
  const usage = await limiter.usage(accountOf(request));
  reply.header('Cache-Control', 'no-store');
  if (!request.headers.accept?.includes('text/html')) return usage;
  return reply.type('text/html; charset=utf-8').send(usagePage(usage));
});

fastify.get('/', (request) => ({ remaining: request.rateLimit?.remaining }));

const port = Number(process.env.PORT ?? 3000);
await fastify.listen({ port });
console.log(`http://localhost:${port}`);
