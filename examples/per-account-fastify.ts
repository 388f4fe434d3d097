// The same as per-account.ts, on Fastify: six policies by address, by page and by account, decided together.
//
//   npx tsx examples/per-account-fastify.ts
import Fastify from 'fastify';
import type { Policy } from 'headgate';
import { rateLimitPlugin } from 'headgate/fastify';

const both = (name: string, by?: string): Policy[] => [
  { name: `${name}-minute`, limit: 300, window: '60s', ...(by && { by }) },
  { name: `${name}-burst`, limit: 100, window: '5s', ...(by && { by }) },
];

// In a real application: the account from your authentication. Never trust a header without it.
const accounts = new Map([
  ['token-of-ada', 'ada'],
  ['token-of-bob', 'bob'],
]);

const fastify = Fastify();

await fastify.register(rateLimitPlugin, {
  policies: [...both('address'), ...both('page', 'page'), ...both('account', 'account')],
  keys: {
    page: (request) => request.url.split('?')[0],
    account: (request) => accounts.get(request.headers.authorization ?? ''),
  },
});

fastify.get('*', (request) =>
  request.rateLimit?.policies.map(({ name, key, remaining }) => ({ name, key, remaining })),
);

const port = Number(process.env.PORT ?? 3000);
await fastify.listen({ port });
console.log(`http://localhost:${port}`);
