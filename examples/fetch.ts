// For whatever answers a Request with a Response: Deno, Bun, Workers, Hono. A program that uses it is examples/hono.ts.
import type { ServerResponse } from 'node:http';
import { createFlow, WebReply, webResponse, type Framework, type HttpOptions } from 'headgate/http';

/** What the platform knows besides the request. */
export interface Connection {
  /** The client's address. */
  readonly ip: string | undefined;
  /** On Node's servers, the response that Node has made: it tells what was sent. */
  readonly outgoing?: ServerResponse;
}

/** The requests that a limiter has seen. */
const exchanges = new WeakMap<Request, { readonly ip: string | undefined; readonly reply: WebReply }>();

const framework: Framework<Request, WebReply> = {
  ...webResponse,
  ip: (request) => exchanges.get(request)?.ip,
};

/** Limits requests before `next` answers them. More limiters may follow within `next`, for the same request. */
export function rateLimit(options: HttpOptions<Request, WebReply>) {
  const flow = createFlow(framework, options, 'rateLimit');
  return async (
    request: Request,
    { ip, outgoing }: Connection,
    next: () => Promise<Response>,
  ): Promise<Response> => {
    const known = exchanges.get(request);
    const reply = known?.reply ?? new WebReply(request, outgoing);
    const respond = async (): Promise<Response> =>
      (await flow.handle(request, reply)) === 'next' ? next() : reply.answer();
    if (known) return respond();
    exchanges.set(request, { ip, reply });
    return reply.finish(respond);
  };
}
