// tRPC: procedures have costs. A denial is the error that tRPC clients understand (TOO_MANY_REQUESTS), with the time to wait.
//
//   npx tsx examples/trpc.ts
import { initTRPC, TRPCError } from '@trpc/server';
import { createHTTPServer } from '@trpc/server/adapters/standalone';
import { createLimiter, type Decision } from 'headgate';
import { clientKey } from 'headgate/http';

interface Context {
  client: string;
}

class Denied extends TRPCError {
  readonly decision: Decision;

  constructor(decision: Decision) {
    super({ code: 'TOO_MANY_REQUESTS', message: 'Too many requests' });
    this.decision = decision;
  }
}

const t = initTRPC
  .context<Context>()
  .meta<{ cost: number }>()
  .create({
    // The fields that a client finds in `error.data`.
    errorFormatter: ({ shape, error }) => ({
      ...shape,
      data: {
        ...shape.data,
        retryAfterMs: error instanceof Denied ? error.decision.retryAfterMs : undefined,
      },
    }),
  });

const limiter = createLimiter({ name: 'trpc', algorithm: 'token-bucket', limit: 10, window: '1m' });

// Clients send several calls in one request. Each call is checked here, so a batch costs the sum of its calls.
const limited = t.procedure.use(async ({ ctx, meta, next }) => {
  const decision = await limiter.consume(ctx.client, { cost: meta?.cost ?? 1 });
  if (!decision.allowed) throw new Denied(decision);
  return next();
});

const router = t.router({
  hello: limited.query(() => 'hello'),
  report: limited.meta({ cost: 5 }).query(() => 'built'),
});

export type AppRouter = typeof router;

const server = createHTTPServer({
  router,
  createContext: ({ req }): Context => ({ client: clientKey(req.socket.remoteAddress) }),
  responseMeta: ({ errors }) => {
    const waits = errors.flatMap((error) =>
      error instanceof Denied ? [error.decision.retryAfterMs ?? 0] : [],
    );
    return waits.length === 0
      ? {}
      : { headers: { 'Retry-After': String(Math.ceil(Math.max(...waits) / 1000)) } };
  },
});

const port = Number(process.env.PORT ?? 3000);
server.listen(port, () => console.log(`http://localhost:${port}`));
