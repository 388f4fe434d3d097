// Hono on Node.js. Behind a proxy, read the client's address from its header: `clientIp: (c) => c.req.header('x-real-ip')`.
//
//   npx tsx examples/hono.ts
import { serve } from '@hono/node-server';
import { rateLimit } from 'headgate/hono';
import { Hono } from 'hono';
import { cors } from 'hono/cors';

const app = new Hono();

app.use(cors());
app.use(rateLimit({ limit: 5, window: '1m' }));
app.get('/', (c) => c.text('Hello\n'));

const port = Number(process.env.PORT ?? 3000);
serve({ fetch: app.fetch, port }, () => console.log(`http://localhost:${port}`));
