import type { ServerResponse } from 'node:http';
import { createFlow } from '../flow.js';
import type { Framework } from '../framework.js';
import type { HttpOptions } from '../options.js';
import { WebReply, webResponse } from '../web-response.js';
import type { Limiter } from '../../limiter/limiter.js';

/** The options of {@link rateLimit}. Callbacks get the `Request`. */
export type RateLimitOptions = HttpOptions<Request, WebReply>;

/** What the platform knows besides the request. */
export interface Connection {
  /** The client's address. Default: what Deno and Bun pass to a handler. */
  ip?: string | undefined;
  /** On Node's servers, the response that Node has made: it tells what was sent. */
  outgoing?: ServerResponse | undefined;
}

/** Answers a request. What the platform passes besides, such as a route's parameters, is passed on. */
export type WebHandler<Rest extends unknown[] = []> = (
  request: Request,
  ...rest: Rest
) => Response | Promise<Response>;

/** The limiter that {@link rateLimit} returns. */
export interface WebRateLimit {
  /** A handler that is limited: `export const GET = limit(handler)`. */
  <Rest extends unknown[]>(handler: WebHandler<Rest>): (request: Request, ...rest: Rest) => Promise<Response>;
  /** Limits a request before `next` answers it. More limiters may follow within `next`, for the same request. */
  (request: Request, next: () => Response | Promise<Response>, connection?: Connection): Promise<Response>;
  /** The limiter: `limit.limiter.reset(key)` forgets what a key was charged, `limit.limiter.close()` frees its name. */
  readonly limiter: Limiter;
}

interface Exchange {
  readonly ip: string | undefined;
  readonly reply: WebReply;
}

/** The requests that a limiter has seen. */
const exchanges = new WeakMap<Request, Exchange>();

const framework: Framework<Request, WebReply> = {
  ...webResponse,
  ip: (request) => exchanges.get(request)?.ip,
};

/** The address that Deno (`info.remoteAddr`) and Bun (`server.requestIP`) tell a handler. */
function addressOf(request: Request, told: unknown): string | undefined {
  const { remoteAddr, requestIP } = Object(told) as {
    remoteAddr?: { hostname?: string };
    requestIP?: (request: Request) => { address: string } | null;
  };
  return remoteAddr?.hostname ?? requestIP?.call(told, request)?.address;
}

/** Runs a limiter around what answers a request, and shares the reply among all limiters of the request. */
export async function around(
  request: Request,
  { ip, outgoing }: Connection,
  decide: (reply: WebReply) => Promise<'next' | 'answered'> | 'next' | 'answered',
  next: () => Response | Promise<Response>,
): Promise<Response> {
  const known = exchanges.get(request);
  const reply = known?.reply ?? new WebReply(request, outgoing);
  if (!known) exchanges.set(request, { ip, reply });
  const respond = async (): Promise<Response> => ((await decide(reply)) === 'next' ? next() : reply.answer());
  return known ? respond() : reply.finish(respond);
}

/**
 * A limiter for whatever answers a `Request` with a `Response`: route handlers of Next.js, SvelteKit and Remix, Bun, Deno, Workers. Without
 * a limit: 1,000 requests a minute per client address. Where the platform does not tell the address, write `clientIp` or `keyGenerator`.
 *
 * @example
 * const limit = rateLimit({ limit: 100, window: '1m', clientIp: (request) => request.headers.get('x-real-ip') ?? undefined })
 * export const GET = limit((request) => Response.json({ ok: true }))
 *
 * @param options the options, or the text of a single policy
 * @throws HeadgateError as `createLimiter`. A request fails with `HEADGATE_NO_CLIENT_IP`, `HEADGATE_INVALID_KEY`, `HEADGATE_INVALID_COST`,
 * what a callback throws, or what the store fails with under `onStoreError: 'throw'`
 */
export function rateLimit(options: RateLimitOptions | string = {}): WebRateLimit {
  const flow = createFlow(framework, options, 'rateLimit');
  const run = (request: Request, next: () => Response | Promise<Response>, connection: Connection) =>
    around(request, connection, (reply) => flow.handle(request, reply), next);
  const limit = (
    first: Request | WebHandler<unknown[]>,
    next?: () => Response | Promise<Response>,
    connection = {},
  ) =>
    typeof first === 'function'
      ? (request: Request, ...rest: unknown[]) =>
          run(request, () => first(request, ...rest), { ip: addressOf(request, rest[0]) })
      : run(first, next!, connection);
  return Object.assign(limit, { limiter: flow.limiter }) as WebRateLimit;
}

export default rateLimit;
