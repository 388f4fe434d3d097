// Koa: an adapter in a few lines. Set `app.proxy` only behind your own proxy: clients are told apart by `ctx.ip`.
//
//   npx tsx examples/koa.ts
import { pathToFileURL } from 'node:url';
import { createFlow, nodeResponse, type Framework, type HttpOptions } from 'headgate/http';
import Koa, { type Context, type Middleware } from 'koa';

/** Koa has one object for a request and its response. */
const framework: Framework<Context, Context> = {
  ip: (ctx) => ctx.ip,
  getHeader: (ctx, name) => ctx.res.getHeader(name),
  setHeader: (ctx, name, value) => ctx.set(name, value),
  headersSent: (ctx) => ctx.headerSent,
  getStatus: (ctx) => ctx.status,
  setStatus: (ctx, status) => void (ctx.status = status),
  send: (ctx, body) => void (ctx.body = body),
  hasEnded: (ctx) => nodeResponse.hasEnded(ctx.res),
  onEnd: (ctx, ended) => nodeResponse.onEnd(ctx.res, ended),
};

export function rateLimit(options: HttpOptions<Context, Context>): Middleware {
  const flow = createFlow(framework, options, 'rateLimit');
  return async (ctx, next) => {
    if ((await flow.handle(ctx, ctx)) === 'next') await next();
  };
}

if (import.meta.url === pathToFileURL(process.argv[1]!).href) {
  const app = new Koa();
  app.use(rateLimit({ limit: 5, window: '1m' }));
  app.use((ctx) => {
    ctx.body = 'Hello\n';
  });
  const port = Number(process.env.PORT ?? 3000);
  app.listen(port, () => console.log(`http://localhost:${port}`));
}
