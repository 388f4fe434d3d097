import type { DefaultState, Middleware, ParameterizedContext } from 'koa';
import type { Decision } from '../../common/decision.js';
import { createFlow } from '../flow.js';
import { weakTrails, type Framework } from '../framework.js';
import { nodeResponse } from '../node-response.js';
import { keepFields } from './koa-errors.js';
import { koaProxy } from './proxies.js';
import type { HttpOptions } from '../options.js';
import type { Limiter } from '../../limiter/limiter.js';
import type { PolicyText } from '../../contract/policy.js';

/** The context of Koa. */
export type Context = ParameterizedContext;

/** The options of {@link rateLimit}. Callbacks get Koa's context. */
export type RateLimitOptions<Tier extends string = string> = HttpOptions<Context, Context, Tier>;

/** The middleware that {@link rateLimit} returns. */
export type RateLimitHandler = Middleware & {
  /** The middleware's limiter. `handler.limiter.reset(key)` resets a key's charges, `handler.limiter.close()` frees the limiter's name. */
  readonly limiter: Limiter;
};

/** Koa has a single object for a request and its response. */
const framework: Framework<Context, Context> = {
  handlerSignature: 'handler(ctx, ctx, decision)',
  ...weakTrails,
  // With `app.proxy`, this is an address from X-Forwarded-For: without `maxIpsCount` the first one, which a client can forge.
  ip: (ctx) => ctx.ip,
  proxy: koaProxy,
  getHeader: (ctx, name) => ctx.res.getHeader(name),
  setHeader: (ctx, name, value) => ctx.set(name, value),
  headersSent: (ctx) => ctx.headerSent,
  getStatus: (ctx) => ctx.status,
  setStatus: (ctx, status) => void (ctx.status = status),
  send: (ctx, body) => void (ctx.body = body),
  isOpen: (ctx) => nodeResponse.isOpen(ctx.res),
  cut: (ctx) => nodeResponse.cut(ctx.res),
  hasEnded: (ctx) => nodeResponse.hasEnded(ctx.res),
  hasLeft: (ctx) => nodeResponse.hasLeft(ctx.res),
  onEnd: (ctx, ended) => nodeResponse.onEnd(ctx.res, ended),
  keep: (ctx, trail) => {
    weakTrails.keep(ctx, trail);
    (ctx.state as DefaultState & { rateLimit?: Decision }).rateLimit = trail.decision;
  },
};

/**
 * Middleware for Koa 2 and 3. Without a limit: 1,000 requests a minute per client address (`ctx.ip`). The decision is at
 * `ctx.state.rateLimit`.
 *
 * @example
 * app.use(rateLimit('100/1m'))
 *
 * @param options the options, or the text of a single policy
 * @throws HeadgateError as `rateLimit` of `headgate/web`
 */
export function rateLimit<const Tier extends string = string>(
  options: RateLimitOptions<Tier> | PolicyText = {},
): RateLimitHandler {
  const flow = createFlow(framework, options, 'rateLimit');
  const handler: Middleware = async (ctx, next) => {
    try {
      if ((await flow.handle(ctx, ctx)) === 'next') await next();
    } catch (error) {
      keepFields(ctx);
      throw error;
    }
  };
  return Object.assign(handler, { limiter: flow.limiter });
}

export default rateLimit;
