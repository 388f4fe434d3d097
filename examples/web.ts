// A handler that answers a Request with a Response, as in Next.js, SvelteKit, Remix, Bun and Deno; here on Hono's server for Node.js.
//
//   npx tsx examples/web.ts
import { serve, type HttpBindings } from '@hono/node-server';
import { rateLimit } from 'headgate/web';

const limit = rateLimit({ limit: 5, window: '1m', clientIp: (request) => addresses.get(request) });

/** In a route of Next.js: `export const GET = limit((request) => ...)`. */
const GET = limit(() => Response.json({ hello: 'world' }));

// Node's own server has no Request, so this map keeps the sender of each. Behind a proxy, `clientIp` would read the proxy's header.
const addresses = new WeakMap<Request, string | undefined>();
const fetch = (request: Request, { incoming }: HttpBindings): Promise<Response> => {
  addresses.set(request, incoming.socket.remoteAddress);
  return GET(request);
};

const port = Number(process.env.PORT ?? 3000);
serve({ fetch: fetch as never, port }, () => console.log(`http://localhost:${port}`));
