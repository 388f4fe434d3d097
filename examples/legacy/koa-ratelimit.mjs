// @ts-nocheck
// A limit with koa-ratelimit. docs/migrating/koa-ratelimit.md has the program after the move.
import Koa from 'koa';
import ratelimit from 'koa-ratelimit';

const app = new Koa();
app.use(
  ratelimit({
    driver: 'memory',
    db: new Map(),
    duration: 60_000,
    max: 3,
    // Your gateway sets this field, after it has verified the account.
    id: (ctx) => ctx.get('x-account') || ctx.ip,
    errorMessage: 'Slow down',
    whitelist: (ctx) => ctx.path === '/health',
    blacklist: (ctx) => ctx.get('x-account') === 'mallory',
  }),
);
app.use((ctx) => {
  ctx.body = 'Hello';
});
app.listen(3000);
