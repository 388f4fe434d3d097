// Redis over HTTP: a handler from Request to Response that holds no connection. The same handler runs on Cloudflare Workers, Vercel Edge,
// Deno and Bun; here it runs on Hono's server for Node.js, behind a proxy that sends the client's address as X-Real-IP.
//
//   UPSTASH_REDIS_REST_URL=https://... UPSTASH_REDIS_REST_TOKEN=... npx tsx examples/upstash.ts
import { serve } from '@hono/node-server';
import { redisStore, upstashRedis } from 'headgate/upstash';
import { rateLimit } from 'headgate/web';

const { UPSTASH_REDIS_REST_URL: url = '', UPSTASH_REDIS_REST_TOKEN: token = '' } = process.env;

const limit = rateLimit({
  name: 'api',
  store: redisStore(upstashRedis({ url, token })),
  limit: 5,
  window: '1m',
  // A request over HTTP takes longer than one over a connection. Until Redis has answered once, `connectTimeout` applies.
  timeout: '1s',
  // The proxy sets this field for each request.
  clientIp: (request) => request.headers.get('x-real-ip') ?? undefined,
});

/** On Cloudflare Workers: `export default { fetch: handler }`. On Vercel: `export const GET = handler`. */
const handler = limit(() => Response.json({ hello: 'world' }));

const port = Number(process.env.PORT ?? 3000);
serve({ fetch: (request) => handler(request), port }, () => console.log(`http://localhost:${port}`));
