import type { LoggedRequest, RequestLine } from './logged-request.js';

/** The maximum of requests that wait for further lines. At least as many whole ones are remembered, and at most twice as many. */
const MAX_REQUESTS = 10_000;

/** Lines with the same id belong to different requests if more time than this lies between them, ms. */
const MAX_REQUEST_MS = 600_000;

/** Two whole requests with the same id are most likely one if no more time than this lies between them, ms. */
const MAX_REPEATED_MS = 10_000;

interface Begun {
  readonly request: LoggedRequest;
  readonly time: number;
  hasStatus: boolean;
}

/** A whole request. */
interface Done {
  readonly time: number;
  readonly client: string | undefined;
  /** Whether a line has shown its end, and not only a status, as a line about an error does. */
  readonly hasEnd: boolean;
}

/**
 * Puts the lines together that a logger writes about one request. Fastify logs the client when a request comes, and the status at its end.
 * Loggers that are bound to a request, as in nestjs-pino, log the client with each message.
 */
export class Joiner {
  readonly #begun = new Map<string, Begun>();
  /** The ids from the oldest on. A new iterator would first pass all that were deleted. */
  readonly #oldestBegun = this.#begun.keys();
  /** The last requests that are whole, by id; and those before them. */
  #done = new Map<string, Done>();
  #doneBefore = new Map<string, Done>();
  /** Whole requests that repeated the id of another one shortly after it. */
  repeated = 0;

  /** Returns a request of which all lines were read, if there is one: that of this line, or an earlier one. */
  add(request: LoggedRequest): LoggedRequest | undefined {
    const { line } = request;
    if (line === undefined) return request;
    const hasClient = request.part('address') !== undefined || request.part('method') !== undefined;
    const hasStatus = request.part('status') !== undefined;
    const begun = this.#begun.get(line.id);
    const found = { request, time: request.time ?? NaN, hasStatus };
    if (begun === undefined) return hasClient ? this.#first(line, found) : request;
    if (line.begins || found.time - begun.time > MAX_REQUEST_MS) return this.#begin(line.id, found);
    if (!line.ends && !hasStatus) return undefined;
    if (!line.ends && begun.hasStatus && hasClient) {
      this.repeated += 1;
      return this.#begin(line.id, found);
    }
    begun.request.join(request);
    begun.hasStatus ||= hasStatus;
    if (!line.ends) return undefined;
    this.#begun.delete(line.id);
    return this.#end(line, begun);
  }

  rest(): LoggedRequest[] {
    const requests = [...this.#begun.values()].map(({ request }) => request);
    this.#begun.clear();
    return requests;
  }

  #first(line: RequestLine, found: Begun): LoggedRequest | undefined {
    const before = this.#done.get(line.id) ?? this.#doneBefore.get(line.id);
    if (line.ends || found.hasStatus) {
      const isNear = before !== undefined && Math.abs(found.time - before.time) <= MAX_REPEATED_MS;
      const whole = this.#end(line, found);
      // The end of a request of which a line about an error came before.
      if (isNear && line.ends && !before.hasEnd && before.client === found.request.part('address'))
        return undefined;
      if (isNear) this.repeated += 1;
      return whole;
    }
    // A message about a request that has ended.
    if (before !== undefined && !line.begins) return undefined;
    return this.#begin(line.id, found);
  }

  /** Returns the earlier request with the same id, or the oldest of too many. */
  #begin(id: string, found: Begun): LoggedRequest | undefined {
    const earlier = this.#begun.get(id);
    this.#begun.delete(id);
    this.#begun.set(id, found);
    if (earlier) return earlier.request;
    if (this.#begun.size <= MAX_REQUESTS) return undefined;
    const oldest = this.#oldestBegun.next().value!;
    const { request } = this.#begun.get(oldest)!;
    this.#begun.delete(oldest);
    return request;
  }

  #end({ id, ends }: RequestLine, { request, time }: Begun): LoggedRequest {
    if (this.#done.size === MAX_REQUESTS) {
      this.#doneBefore = this.#done;
      this.#done = new Map();
    }
    this.#done.set(id, { time, client: request.part('address'), hasEnd: ends });
    return request;
  }
}
