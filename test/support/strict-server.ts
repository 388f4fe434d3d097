// A partner's server with a strict limit. It logs the arrival of every call, whatever it answers.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A call as it arrived, ms. */
export interface Arrival {
  readonly at: number;
  /** The caller's own data: its process, and when it sent the call (ms since 1970). */
  readonly process: string;
  readonly came: number;
  readonly status: number;
}

export class StrictServer {
  readonly arrivals: Arrival[] = [];
  violations = 0;
  /** The number of calls that arrived in a pause. */
  paused = 0;
  /** Answers instead of the limit, if it returns true. */
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

  /** Denies all calls for a time, and sends the callers the remaining time. */
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
    const rest = this.#until - at;
    let status = 200;
    if (rest > 0) {
      this.paused++;
      response.setHeader('retry-after', Math.ceil(rest / 1000));
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
