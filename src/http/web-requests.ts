import { isPromise, type MaybePromise } from '../contract/store.js';
import type { Flow } from './flow.js';
import type { Outcome } from './framework.js';
import { WebReply, type WebConnection } from './web-response.js';

interface Exchange {
  readonly ip: string | undefined;
  /** `undefined` once the request has a response. */
  reply: WebReply | undefined;
}

const exchanges = new WeakMap<object, Exchange>();

/** The client's address when the first limiter saw the request. */
export const addressOf = (request: Request): string | undefined => exchanges.get(request)?.ip;

interface PlatformInfo {
  remoteAddr?: { hostname?: string };
  requestIP?: (request: Request) => { address: string } | null;
}

/**
 * Reads the client's address from the values that Deno (`info.remoteAddr`) and Bun (`server.requestIP`) pass to a handler. Bun's server may
 * also be a property.
 */
export function platformAddress(request: Request, info: unknown): string | undefined {
  const { server = info, remoteAddr } = Object(info) as PlatformInfo & { server?: unknown };
  const { requestIP } = Object(server) as PlatformInfo;
  return remoteAddr?.hostname ?? requestIP?.call(server, request)?.address;
}

/** Returns `flow.handle` for requests that may meet a limiter twice at the same time: the second call waits for the first decision. */
export function oneByOne<Req extends object>(flow: Flow<Req, WebReply>): Flow<Req, WebReply>['handle'] {
  const underWay = new WeakMap<Req, Promise<Outcome>>();
  return function handle(request, reply): MaybePromise<Outcome> {
    const again = (): MaybePromise<Outcome> => handle(request, reply);
    const first = underWay.get(request);
    if (first) return first.then(again, again);
    const outcome = flow.handle(request, reply);
    if (!isPromise(outcome)) return outcome;
    const end = (): void => void underWay.delete(request);
    underWay.set(request, outcome);
    outcome.then(end, end);
    return outcome;
  };
}

/**
 * Runs a limiter around the handler of a request. All limiters of the request share the reply.
 *
 * @param id the same object for all limiters of the request
 */
export async function around<Res extends Response | undefined>(
  request: Request,
  { ip, outgoing, id = request }: WebConnection & { readonly id?: object },
  decide: (reply: WebReply) => Promise<Outcome> | Outcome,
  next: () => Res | Promise<Res>,
): Promise<Res | Response> {
  const known = exchanges.get(id);
  const reply = known?.reply ?? new WebReply(request, outgoing);
  const respond = async (): Promise<Res | Response> =>
    (await decide(reply)) === 'next' ? next() : reply.answer();
  if (known?.reply) return respond();
  const exchange: Exchange = { ip: ip ?? known?.ip, reply };
  exchanges.set(id, exchange);
  try {
    return await reply.finish(respond);
  } finally {
    // A program may pass the request to another limiter, which needs a new reply.
    exchange.reply = undefined;
  }
}
