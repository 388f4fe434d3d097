// Hono on Node.js, by the adapter for whatever answers a Request with a Response.
//
//   npx tsx examples/hono.ts
import { serve, type HttpBindings } from '@hono/node-server';
import { getConnInfo } from '@hono/node-server/conninfo';
import { Hono, type MiddlewareHandler } from 'hono';
import { cors } from 'hono/cors';
import { rateLimit } from './fetch.js';

type Env = { Bindings: HttpBindings };

function limited(...options: Parameters<typeof rateLimit>): MiddlewareHandler<Env> {
  const limit = rateLimit(...options);
  return async (c, next) => {
    const connection = { ip: getConnInfo(c).remote.address, outgoing: c.env.outgoing };
    // What earlier middleware has set, such as CORS, is on a denial, too.
    const { headers } = c.res;
    let isAdmitted = false;
    const response = await limit(c.req.raw, connection, async () => {
      isAdmitted = true;
      await next();
      return c.res;
    });
    for (const [name, value] of isAdmitted ? [] : headers)
      if (!response.headers.has(name) || name === 'set-cookie') response.headers.append(name, value);
    // Otherwise Hono adds the fields of the response that it had before.
    c.res = undefined;
    c.res = response;
  };
}

const app = new Hono<Env>();

app.use(cors());
app.use(limited({ limit: 5, window: '1m' }));
app.get('/', (c) => c.text('Hello\n'));

const port = Number(process.env.PORT ?? 3000);
serve({ fetch: app.fetch, port }, () => console.log(`http://localhost:${port}`));
