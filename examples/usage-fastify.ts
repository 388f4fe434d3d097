// The same as usage.ts, on Fastify: customers see what is left of their quotas.
//
//   npx tsx examples/usage-fastify.ts
import Fastify, { type FastifyRequest } from 'fastify';
import { createLimiter } from 'headgate';
import { rateLimitPlugin } from 'headgate/fastify';
import { clientKey } from 'headgate/http';
import { usagePage } from './usage-page.js';

const limiter = createLimiter({
  name: 'api',
  policies: ['minute=60/1m', 'month=calendar 10000/month unit requests'],
});

// In a real application: your customers by API key. A visitor without a valid key is limited by address.
const customers = new Map([['key-of-ada', 'ada']]);
const accountOf = ({ headers, ip }: FastifyRequest): string =>
  customers.get(String(headers['x-api-key'])) ?? `ip:${clientKey(ip)}`;

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
