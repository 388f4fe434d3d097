// Koa: a middleware of a few lines. Set `app.proxy` only behind your own proxy: clients are told apart by `ctx.ip`.
//
//   npx tsx examples/koa.ts
import { createLimiter, type CreateLimiterOptions } from 'headgate';
import { clientKey, denial, rateLimitHeaders } from 'headgate/http';
import Koa, { type Middleware } from 'koa';

function rateLimit(options: CreateLimiterOptions): Middleware {
  const limiter = createLimiter(options);
  return async (ctx, next) => {
    const decision = await limiter.consume(clientKey(ctx.ip));
    if (decision.allowed) {
      ctx.set(rateLimitHeaders(decision));
      await next();
    } else {
      const { status, headers, body } = denial(decision);
      ctx.status = status;
      ctx.set(headers);
      ctx.body = body;
    }
  };
}

const app = new Koa();

app.use(rateLimit({ limit: 5, window: '1m' }));
app.use((ctx) => {
  ctx.body = 'Hello\n';
});

const port = Number(process.env.PORT ?? 3000);
app.listen(port, () => console.log(`http://localhost:${port}`));
