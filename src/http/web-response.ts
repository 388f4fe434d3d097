import type { ServerResponse } from 'node:http';
import type { ResponsePort } from './framework.js';
import { nodeResponse } from './node-response.js';

/** The platform's facts about a request's connection. */
export interface WebConnection {
  /** The client's address. @default the address that Deno and Bun pass to a handler */
  ip?: string | undefined;
  /** On Node's servers, the response that Node created, which reports whether everything was sent. */
  outgoing?: ServerResponse | undefined;
}

/** Tells `@hono/node-server` to leave Node's response as it is. Others do not see the field, because the response has begun. */
const ALREADY_SENT = { headers: { 'x-hono-already-sent': 'true' } };

/** Collects the limiters' output until there is a response, for frameworks whose handlers return a `Response`. */
export class WebReply {
  /** The header fields of the limiters. */
  readonly headers: Headers = new Headers();
  /** The status. Without an answer, 499: for a client that left during the request's wait and does not see the status. */
  status = 499;
  /** The body of the answer to a denied request. A `handler` may set it. */
  body: string | null = null;
  readonly #outgoing: ServerResponse | undefined;
  readonly #isHead: boolean;
  readonly #listeners = new Set<(completed: boolean) => void>();
  #hasEnded = false;

  /**
   * @param request the request, whose `signal` is aborted when the client leaves. Some platforms' requests have no signal
   * @param outgoing on Node's servers, the response that the server created, the only source for what was sent
   */
  constructor(
    { method, signal }: Pick<Request, 'method'> & Partial<Pick<Request, 'signal'>>,
    outgoing?: ServerResponse,
  ) {
    this.#isHead = method === 'HEAD';
    this.#outgoing = outgoing;
    if (outgoing || !signal) return;
    signal.addEventListener('abort', () => this.#end(false));
    if (signal.aborted) this.#end(false);
  }

  /** @internal Whether a handler has written to Node's own response. */
  get hasBegun(): boolean {
    return this.#outgoing?.headersSent === true;
  }

  /** @internal */
  get isOpen(): boolean {
    return this.#outgoing !== undefined && nodeResponse.isOpen(this.#outgoing);
  }

  /** @internal */
  cut(): void {
    if (this.#outgoing) nodeResponse.cut(this.#outgoing);
  }

  /** @internal */
  get hasEnded(): boolean {
    return this.#outgoing ? nodeResponse.hasEnded(this.#outgoing) : this.#hasEnded;
  }

  /** @internal */
  get hasLeft(): boolean {
    return this.#outgoing ? nodeResponse.hasLeft(this.#outgoing) : this.#hasEnded;
  }

  /** @internal */
  onEnd(ended: (completed: boolean) => void): () => void {
    if (this.#outgoing) return nodeResponse.onEnd(this.#outgoing, ended);
    this.#listeners.add(ended);
    return () => void this.#listeners.delete(ended);
  }

  #end(completed: boolean): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    for (const ended of this.#listeners) ended(completed);
  }

  /** The response to a request that does not continue. */
  answer(): Response {
    if (!this.hasBegun) return new Response(this.body, this);
    const nothing = new Response(null, ALREADY_SENT);
    // A look at the body makes a real response, whose fields `@hono/node-server` reads, of a response of its own.
    void nothing.body;
    return nothing;
  }

  /**
   * Adds the limiters' header fields to the result of `respond`. To be called once, around all limiters of the request. Without `outgoing`,
   * a response ends when its body has been read. A failure of `respond` counts as a response of status 500, and none, as after Bun's
   * `server.upgrade`, as status 101.
   */
  async finish<Res extends Response | undefined>(respond: () => Promise<Res>): Promise<Res> {
    try {
      const response = await respond();
      if (!response) {
        this.status = 101;
        this.#end(true);
        return response;
      }
      this.status = response.status;
      return withFields(this.#follow(response), this.headers) as Res;
    } catch (error) {
      this.status = 500;
      this.#end(true);
      throw error;
    }
  }

  /** Passes the body on without reading ahead, because a consumer that reads on must have sent the previous chunk. */
  #follow(response: Response): Response {
    if (this.#listeners.size === 0) return response;
    if (this.#isHead || !response.body) {
      this.#end(true);
      return response;
    }
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
      const { done, value } = await reader.read();
      if (!done) return controller.enqueue(value);
      controller.close();
      this.#end(true);
    };
    const cancel = (reason: unknown): Promise<void> => {
      this.#end(false);
      return reader.cancel(reason);
    };
    reader.closed.catch(() => this.#end(false));
    return new Response(new ReadableStream({ pull, cancel }, { highWaterMark: 0 }), response);
  }
}

function withFields(response: Response, fields: Headers): Response {
  try {
    setFields(response, fields);
    return response;
  } catch {
    // The fields of responses from `fetch` and `Response.redirect` cannot be changed.
    const copy = new Response(response.body, response);
    setFields(copy, fields);
    return copy;
  }
}

function setFields({ headers }: Response, fields: Headers): void {
  for (const [name, value] of fields) {
    if (name !== 'set-cookie') headers.set(name, value);
    // A `handler` may have set several cookies.
    else if (!headers.getSetCookie().includes(value)) headers.append(name, value);
  }
}

/** The operations on a {@link WebReply} that limiters need. */
export const webResponse: ResponsePort<WebReply> = {
  getHeader: (reply, name) => reply.headers.get(name),
  setHeader: (reply, name, value) => reply.headers.set(name, value),
  headersSent: (reply) => reply.hasBegun,
  getStatus: (reply) => reply.status,
  setStatus: (reply, status) => void (reply.status = status),
  send: (reply, body) => void (reply.body = body),
  isOpen: (reply) => reply.isOpen,
  cut: (reply) => reply.cut(),
  hasEnded: (reply) => reply.hasEnded,
  hasLeft: (reply) => reply.hasLeft,
  onEnd: (reply, ended) => reply.onEnd(ended),
};
