import { addressOf, around, oneByOne, platformAddress } from '../web-requests.js';
import { createFlow } from '../flow.js';
import type { Framework } from '../framework.js';
import type { HttpOptions } from '../options.js';
import { webResponse, type WebConnection, type WebReply } from '../web-response.js';
import type { Limiter } from '../../limiter/limiter.js';
import type { PolicyText } from '../../contract/policy.js';

export type { WebConnection };

/** The options of {@link rateLimit}. Callbacks get the `Request`. */
export type RateLimitOptions<Tier extends string = string> = HttpOptions<Request, WebReply, Tier>;

/**
 * Answers a request. Further arguments of the platform, such as a route's parameters, are passed on. Bun's handlers return nothing after
 * `server.upgrade`.
 */
export type WebHandler<
  Rest extends unknown[] = [],
  Req extends Request = Request,
  Res extends Response | undefined = Response,
> = (request: Req, ...rest: Rest) => Res | Promise<Res>;

/** The limiter that {@link rateLimit} returns. */
export interface WebRateLimit {
  /** Wraps a handler: `export const GET = limit(handler)`. The handler may take a subclass of `Request`, such as `NextRequest`. */
  <Rest extends unknown[], Req extends Request, Res extends Response | undefined>(
    handler: WebHandler<Rest, Req, Res>,
  ): (request: Req, ...rest: Rest) => Promise<Res | Response>;
  /** Limits a request before `next` answers it. More limiters may follow within `next`, for the same request. */
  (request: Request, next: () => Response | Promise<Response>, connection?: WebConnection): Promise<Response>;
  /** The limiter. `limit.limiter.reset(key)` resets a key's charges, `limit.limiter.close()` frees the limiter's name. */
  readonly limiter: Limiter;
}

const framework: Framework<Request, WebReply> = {
  handlerSignature: 'handler(request, reply, decision)',
  ...webResponse,
  ip: addressOf,
};

/**
 * Creates a limiter for handlers that answer a `Request` with a `Response`: Next.js, SvelteKit, Remix, Bun, Deno, Workers. Without a limit:
 * 1,000 requests a minute per client address. If the platform does not provide the address, set `clientIp` or `keyGenerator`.
 *
 * @example
 * const limit = rateLimit({ limit: 100, window: '1m', clientIp: (request) => request.headers.get('x-real-ip') ?? undefined })
 * export const GET = limit((request) => Response.json({ ok: true }))
 *
 * @param options the options, or the text of a single policy
 * @throws HeadgateError as `createLimiter`. A request fails with `HEADGATE_NO_CLIENT_IP`, `HEADGATE_INVALID_KEY`, `HEADGATE_INVALID_COST`,
 * the error of a callback, or the store's error under `onStoreError: 'throw'`
 */
export function rateLimit<const Tier extends string = string>(
  options: RateLimitOptions<Tier> | PolicyText = {},
): WebRateLimit {
  const flow = createFlow(framework, options, 'rateLimit');
  const handle = oneByOne(flow);
  const run = (request: Request, next: () => Response | Promise<Response>, connection: WebConnection) =>
    around(request, connection, (reply) => handle(request, reply), next);
  const limit = (
    first: Request | WebHandler<unknown[]>,
    next?: () => Response | Promise<Response>,
    connection = {},
  ) =>
    typeof first === 'function'
      ? (request: Request, ...rest: unknown[]) =>
          run(request, () => first(request, ...rest), { ip: platformAddress(request, rest[0]) })
      : run(first, next!, connection);
  return Object.assign(limit, { limiter: flow.limiter }) as WebRateLimit;
}

export default rateLimit;
