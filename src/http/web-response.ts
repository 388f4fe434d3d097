import type { ServerResponse } from 'node:http';
import type { ResponsePort } from './framework.js';
import { nodeResponse } from './node-response.js';

/** How it is known that a response ends, besides by reading its body. */
export interface WebEnd {
  /** Is aborted when the client leaves: `request.signal`, if the platform aborts that. */
  readonly signal?: AbortSignal | undefined;
  /** The response that Node's server has made, where there is one. It alone tells exactly what was sent. */
  readonly outgoing?: ServerResponse | undefined;
}

/** What limiters write before there is a response: for frameworks whose handlers return a `Response`. */
export class WebReply {
  readonly headers: Headers = new Headers();
  /** Until somebody has answered, 499: for a client that left while its request was held, and does not see it. */
  status = 499;
  /** Of the answer to a denied request; a `handler` may set it. */
  body: string | null = null;
  readonly #outgoing: ServerResponse | undefined;
  /** Is aborted when the response ends; the reason is whether it was sent whole. */
  readonly #ending = new AbortController();
  #isFollowed = false;

  /** @param end how it is known that the response ends; without it, by reading its body alone */
  constructor(end: WebEnd = {}) {
    const { signal, outgoing } = end;
    this.#outgoing = outgoing;
    signal?.addEventListener('abort', () => this.#ending.abort(false));
    if (signal?.aborted) this.#ending.abort(false);
  }

  /** @internal */
  get hasEnded(): boolean {
    return this.#outgoing ? nodeResponse.hasEnded(this.#outgoing) : this.#ending.signal.aborted;
  }

  /** @internal */
  onEnd(ended: (completed: boolean) => void): () => void {
    if (this.#outgoing) return nodeResponse.onEnd(this.#outgoing, ended);
    this.#isFollowed = true;
    const { signal } = this.#ending;
    const tell = (): void => ended(signal.reason === true);
    signal.addEventListener('abort', tell);
    return () => signal.removeEventListener('abort', tell);
  }

  /** The response to a request that does not go on. */
  answer(): Response {
    return new Response(this.body, this);
  }

  /**
   * What `respond` resolves to, with the limiters' header fields. To be called once, around all limiters of the request. A response has
   * ended when its body was read, unless `outgoing` tells better. If `respond` fails, that counts as a response of status 500.
   */
  async finish(respond: () => Promise<Response>): Promise<Response> {
    try {
      const response = await respond();
      this.status = response.status;
      if (!response.body) this.#ending.abort(true);
      const followed = this.#isFollowed && response.body ? this.#follow(response, response.body) : response;
      return withFields(followed, this.headers);
    } catch (error) {
      this.status = 500;
      this.#ending.abort(true);
      throw error;
    }
  }

  /** Reads nothing ahead, as who reads on has sent what was read before. */
  #follow(response: Response, body: ReadableStream<Uint8Array>): Response {
    const reader = body.getReader();
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
      const { done, value } = await reader.read();
      if (!done) return controller.enqueue(value);
      controller.close();
      this.#ending.abort(true);
    };
    const cancel = (reason: unknown): Promise<void> => {
      this.#ending.abort(false);
      return reader.cancel(reason);
    };
    reader.closed.catch(() => this.#ending.abort(false));
    return new Response(new ReadableStream({ pull, cancel }, { highWaterMark: 0 }), response);
  }
}

function withFields(response: Response, fields: Headers): Response {
  try {
    for (const [name, value] of fields) response.headers.set(name, value);
    return response;
  } catch {
    // The fields of what `fetch` and `Response.redirect` return cannot be set.
    const copy = new Response(response.body, response);
    for (const [name, value] of fields) copy.headers.set(name, value);
    return copy;
  }
}

/** What limiters need of a {@link WebReply}. */
export const webResponse: ResponsePort<WebReply> = {
  getHeader: (reply, name) => reply.headers.get(name),
  setHeader: (reply, name, value) => reply.headers.set(name, value),
  headersSent: () => false,
  getStatus: (reply) => reply.status,
  setStatus: (reply, status) => void (reply.status = status),
  send: (reply, body) => void (reply.body = body),
  hasEnded: (reply) => reply.hasEnded,
  onEnd: (reply, ended) => reply.onEnd(ended),
};
