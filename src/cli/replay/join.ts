import type { LoggedRequest, RequestLine } from './logged-request.js';

/** The maximum of requests that wait for further lines, and of remembered ids. */
const MAX_REQUESTS = 10_000;

/** Lines with the same id belong to different requests if more time than this lies between them, ms. */
const LONGEST_REQUEST = 600_000;

/** Two whole requests with the same id are most likely one if no more time than this lies between them, ms. */
const SOON = 10_000;

interface Begun {
  readonly request: LoggedRequest;
  readonly time: number;
  readonly hasStatus: boolean;
}

/**
 * Puts the lines together that a logger writes about one request. Fastify logs the client when a request comes, and the status at its end.
 * Loggers that are bound to a request, as in nestjs-pino, log the client with each message.
 */
export class Joiner {
  readonly #begun = new Map<string, Begun>();
  /** The times of the last requests that are whole, by id. */
  readonly #done = new Map<string, number>();
  /** The ids from the oldest on. A new iterator would first pass all that were deleted. */
  readonly #oldestBegun = this.#begun.keys();
  readonly #oldestDone = this.#done.keys();
  readonly #timeOf: (request: LoggedRequest) => number | undefined;
  /** Whole requests that repeated the id of another one shortly after it. */
  repeated = 0;

  constructor(timeOf: (request: LoggedRequest) => number | undefined) {
    this.#timeOf = timeOf;
  }

  /** Returns a request of which all lines were read, if there is one: that of this line, or an earlier one. */
  add(request: LoggedRequest): LoggedRequest | undefined {
    const line = request.line?.();
    if (line === undefined) return request;
    const hasClient = request.part('address') !== undefined || request.part('method') !== undefined;
    const hasStatus = request.part('status') !== undefined;
    const begun = this.#begun.get(line.id);
    const found = { request, time: this.#timeOf(request) ?? NaN, hasStatus };
    if (begun === undefined) return hasClient ? this.#first(line, found) : request;
    if (line.begins || found.time - begun.time > LONGEST_REQUEST) return this.#begin(line.id, found);
    if (line.ends) return this.#end(line.id, merged(begun, found));
    if (!hasStatus) return undefined;
    if (begun.hasStatus && hasClient) {
      this.repeated += 1;
      return this.#begin(line.id, found);
    }
    this.#begun.set(line.id, merged(begun, found));
    return undefined;
  }

  /** Returns the requests that did not end. */
  rest(): LoggedRequest[] {
    const requests = [...this.#begun.values()].map(({ request }) => request);
    this.#begun.clear();
    return requests;
  }

  #first(line: RequestLine, found: Begun): LoggedRequest | undefined {
    if (line.ends || found.hasStatus) {
      const before = this.#done.get(line.id);
      if (before !== undefined && Math.abs(found.time - before) <= SOON) this.repeated += 1;
      return this.#end(line.id, found);
    }
    // A message about a request that has ended.
    if (this.#done.has(line.id) && !line.begins) return undefined;
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

  #end(id: string, { request, time }: Begun): LoggedRequest {
    this.#begun.delete(id);
    this.#done.delete(id);
    this.#done.set(id, time);
    if (this.#done.size > MAX_REQUESTS) this.#done.delete(this.#oldestDone.next().value!);
    return request;
  }
}

/** The request of two lines: the time of the first, and the status of the last. */
function merged({ request: first, time, hasStatus }: Begun, { request: last, ...found }: Begun): Begun {
  const request: LoggedRequest = {
    named: first.named,
    field: (name) => first.field(name) ?? last.field(name),
    timeOf: (field) => first.timeOf(field) ?? last.timeOf(field),
    part: (name) =>
      name === 'status' ? (last.part(name) ?? first.part(name)) : (first.part(name) ?? last.part(name)),
  };
  return { request, time, hasStatus: hasStatus || found.hasStatus };
}
