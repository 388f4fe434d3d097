// Hono on Node.js: a middleware of a few lines.
//
//   npx tsx examples/hono.ts
import { serve } from '@hono/node-server';
import { getConnInfo } from '@hono/node-server/conninfo';
import { createLimiter, type CreateLimiterOptions } from 'headgate';
import { clientKey, denial, rateLimitHeaders } from 'headgate/http';
import { Hono } from 'hono';
import { createMiddleware } from 'hono/factory';

function rateLimit(options: CreateLimiterOptions) {
  const limiter = createLimiter(options);
  return createMiddleware(async (c, next) => {
    const decision = await limiter.consume(clientKey(getConnInfo(c).remote.address));
    if (!decision.allowed) {
      const { status, headers, body } = denial(decision);
      return new Response(body, { status, headers });
    }
    for (const [name, value] of Object.entries(rateLimitHeaders(decision))) c.header(name, value);
    return next();
  });
}

const app = new Hono();

app.use(rateLimit({ limit: 5, window: '1m' }));
app.get('/', (c) => c.text('Hello\n'));

const port = Number(process.env.PORT ?? 3000);
serve({ fetch: app.fetch, port }, () => console.log(`http://localhost:${port}`));
