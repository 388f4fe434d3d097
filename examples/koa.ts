// Koa. The key is `ctx.ip`, so set `app.proxy` only behind your own proxy.
//
//   npx tsx examples/koa.ts
import { rateLimit } from 'headgate/koa';
import Koa from 'koa';

const app = new Koa();

app.use(rateLimit({ limit: 5, window: '1m' }));
app.use((ctx) => {
  ctx.body = 'Hello\n';
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
