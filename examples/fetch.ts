// For whatever answers a Request with a Response: Deno, Bun, Workers, Hono. A program that uses it is examples/hono.ts.
import {
  createFlow,
  WebReply,
  webResponse,
  type Framework,
  type HttpOptions,
  type WebEnd,
} from 'headgate/http';

/** What the platform knows of a client: its address, and when it leaves. */
export interface Client extends WebEnd {
  readonly ip: string | undefined;
}

/** The requests that a limiter has seen. */
const exchanges = new WeakMap<Request, { readonly client: Client; readonly reply: WebReply }>();

const framework: Framework<Request, WebReply> = {
  ...webResponse,
  ip: (request) => exchanges.get(request)?.client.ip,
};

/** Limits requests before `next` answers them. More limiters may follow within `next`, for the same request. */
export function rateLimit(options: HttpOptions<Request, WebReply>) {
  const flow = createFlow(framework, options, 'rateLimit');
  return async (request: Request, client: Client, next: () => Promise<Response>): Promise<Response> => {
    const known = exchanges.get(request);
    const reply = known?.reply ?? new WebReply(client);
    const respond = async (): Promise<Response> =>
      (await flow.handle(request, reply)) === 'next' ? next() : reply.answer();
    if (known) return respond();
    exchanges.set(request, { client, reply });
    return reply.finish(respond);
  };
}
