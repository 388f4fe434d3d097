// @ts-nocheck
// A limit with hono-rate-limiter. docs/migrating/hono-rate-limiter.md has the program after the move.
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { rateLimiter } from 'hono-rate-limiter';

const app = new Hono();
app.use(
  rateLimiter({
    windowMs: 60_000,
    limit: 3,
    standardHeaders: 'draft-6',
    // Your gateway sets this field, after it has verified the account.
    keyGenerator: (c) => c.req.header('x-account') ?? 'anonymous',
    skip: (c) => c.req.path === '/health',
  }),
);
app.get('*', (c) => c.text('Hello'));
const listen = (port, hostname) => serve({ fetch: app.fetch, port, hostname });
listen(3000);
