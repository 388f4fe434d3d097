import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Context, MiddlewareHandler } from 'hono';
import type { Decision } from '../../common/decision.js';
import { around, oneByOne, platformAddress } from '../web-requests.js';
import { createFlow } from '../flow.js';
import type { Framework, Outcome } from '../framework.js';
import type { HttpOptions } from '../options.js';
import { webResponse, type WebReply } from '../web-response.js';
import type { Limiter } from '../../limiter/limiter.js';
import type { PolicyText } from '../../contract/policy.js';

/** The options of {@link rateLimit}. Callbacks get Hono's context. */
export type RateLimitOptions<Tier extends string = string> = HttpOptions<Context, WebReply, Tier>;

/** The middleware that {@link rateLimit} returns. */
export type RateLimitHandler = MiddlewareHandler & {
  /** The middleware's limiter. `handler.limiter.reset(key)` resets a key's charges, `handler.limiter.close()` frees the limiter's name. */
  readonly limiter: Limiter;
};

declare module 'hono' {
  interface ContextVariableMap {
    /** The decision of the last limiter that the request passed. Undefined without one: `enabled`, `skip`, a key of `undefined`. */
    rateLimit: Decision | undefined;
  }
}

/** The values that Hono passes on from Node's server. */
const bindingsOf = (c: Context) => Object(c.env) as { incoming?: IncomingMessage; outgoing?: ServerResponse };

const framework: Framework<Context, WebReply> = {
  handlerSignature: 'handler(c, reply, decision)',
  ...webResponse,
  ip: (c) => bindingsOf(c).incoming?.socket.remoteAddress ?? platformAddress(c.req.raw, c.env),
};

/**
 * Middleware for Hono on Node.js, Bun, Deno and others. Without a limit: 1,000 requests a minute per client address, which is the address
 * of the connection. Behind a proxy, set `clientIp`.
 *
 * @example
 * app.use(rateLimit('100/1m'))
 * app.post('/login', rateLimit({ name: 'login', store, limit: 5, window: '15m' }), login)
 *
 * @param options the options, or the text of a single policy
 * @throws HeadgateError as `rateLimit` of `headgate/web`
 */
export function rateLimit<const Tier extends string = string>(
  options: RateLimitOptions<Tier> | PolicyText = {},
): RateLimitHandler {
  const flow = createFlow(framework, options, 'rateLimit');
  const handle = oneByOne(flow);
  const handler: MiddlewareHandler = async (c, next) => {
    let isAdmitted = false;
    const decide = async (reply: WebReply): Promise<Outcome> => {
      try {
        return await handle(c, reply);
      } catch (error) {
        // Hono answers an error with a new response.
        for (const [name, value] of reply.headers) c.header(name, value);
        throw error;
      } finally {
        const { rateLimit: decision } = c as { rateLimit?: Decision };
        if (decision) c.set('rateLimit', decision);
      }
    };
    const goOn = async (): Promise<Response> => {
      isAdmitted = true;
      await next();
      return c.res;
    };
    // Middleware may replace `c.req.raw`, such as Hono's bodyLimit, but not the context.
    const connection = { outgoing: bindingsOf(c).outgoing, id: c };
    const response = await around(c.req.raw, connection, decide, goOn);
    // A denial includes the fields of earlier middleware, such as CORS. A look at `c.res` before the handler's response makes Hono copy that
    // response, which breaks one that the handler has sent itself.
    for (const [name, value] of isAdmitted ? [] : c.res.headers)
      if (!response.headers.has(name) || name === 'set-cookie') response.headers.append(name, value);
    // Without this, Hono adds the fields of the previous response.
    c.res = undefined;
    c.res = response;
  };
  return Object.assign(handler, { limiter: flow.limiter });
}

export default rateLimit;
