import type { Outcome } from './framework.js';
import { WebReply, type Connection } from './web-response.js';

interface Exchange {
  readonly ip: string | undefined;
  /** Undefined once there is a response. */
  reply: WebReply | undefined;
}

/** The requests that limiters have seen. */
const exchanges = new WeakMap<object, Exchange>();

/** The address that came with a request when its first limiter saw it. */
export const addressOf = (request: Request): string | undefined => exchanges.get(request)?.ip;

interface Told {
  remoteAddr?: { hostname?: string };
  requestIP?: (request: Request) => { address: string } | null;
}

/** The address that Deno (`info.remoteAddr`) and Bun (`server.requestIP`) pass on, Bun's server also as a property. */
export function toldAddress(request: Request, told: unknown): string | undefined {
  const { server = told, remoteAddr } = Object(told) as Told & { server?: unknown };
  const { requestIP } = Object(server) as Told;
  return remoteAddr?.hostname ?? requestIP?.call(server, request)?.address;
}

/**
 * Runs a limiter around what answers a request, and shares the reply among all limiters of the request.
 *
 * @param id the same object for all limiters of the request
 */
export async function around(
  request: Request,
  { ip, outgoing }: Connection,
  decide: (reply: WebReply) => Promise<Outcome> | Outcome,
  next: () => Response | Promise<Response>,
  id: object = request,
): Promise<Response> {
  const known = exchanges.get(id);
  const reply = known?.reply ?? new WebReply(request, outgoing);
  const respond = async (): Promise<Response> => ((await decide(reply)) === 'next' ? next() : reply.answer());
  if (known?.reply) return respond();
  const exchange: Exchange = { ip: ip ?? known?.ip, reply };
  exchanges.set(id, exchange);
  try {
    return await reply.finish(respond);
  } finally {
    // A program may go on to another limiter, whose response is another one.
    exchange.reply = undefined;
  }
}
