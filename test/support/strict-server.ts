// A partner's server with a strict limit: a log of when calls arrived, whatever its answers were.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A call as it arrived, ms. */
export interface Arrival {
  readonly at: number;
  /** What the caller says of itself: its process, and when it made the call (ms since 1970). */
  readonly process: string;
  readonly came: number;
  readonly status: number;
}

export class StrictServer {
  readonly arrivals: Arrival[] = [];
  violations = 0;
  /** Calls that arrived in a pause. */
  paused = 0;
  /** Answers in place of the log's, if it returns true. */
  answer: (request: IncomingMessage, response: ServerResponse) => boolean = () => false;
  readonly #limit: number;
  readonly #window: number;
  readonly #log: number[] = [];
  #until = 0;
  readonly #server = createServer((request, response) => this.#take(request, response));

  constructor(limit: number, window = 1000) {
    this.#limit = limit;
    this.#window = window;
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  /** Denies everything for a time, and tells the callers so. */
  pause(ms: number): void {
    this.#until = performance.now() + ms;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #take(request: IncomingMessage, response: ServerResponse): void {
    const at = performance.now();
    request.resume();
    const log = this.#log;
    while (log.length > 0 && log[0]! <= at - this.#window) log.shift();
    const left = this.#until - at;
    let status = 200;
    if (left > 0) {
      this.paused++;
      response.setHeader('retry-after', Math.ceil(left / 1000));
      status = 429;
    } else if (log.length >= this.#limit) {
      this.violations++;
      response.setHeader('retry-after', 1);
      status = 429;
    } else {
      log.push(at);
    }
    const { 'x-process': process = '', 'x-came': came = '0' } = request.headers;
    this.arrivals.push({ at, process: String(process), came: Number(came), status });
    response.statusCode = status;
    if (!this.answer(request, response))
      response.setHeader('content-type', 'application/json').end('{"ok":true}');
  }
}
