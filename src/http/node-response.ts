import type { ServerResponse } from 'node:http';
import type { ServerHttp2Stream } from 'node:http2';
import type { Duplex } from 'node:stream';
import type { Ending, ResponsePort } from './framework.js';

/** The responses of Node's servers, HTTP/1 and HTTP/2, for the frameworks that run on these. */
export const nodeResponse: ResponsePort<ServerResponse> = {
  getHeader: (res, name) => res.getHeader(name),
  setHeader: (res, name, value) => void res.setHeader(name, value),
  headersSent: (res) => res.headersSent,
  getStatus: (res) => res.statusCode,
  setStatus: (res, status) => void (res.statusCode = status),
  send: (res, status, body) => {
    res.writeHead(status, { 'Content-Type': 'application/problem+json', 'Content-Length': body.length });
    res.end(body);
  },
  onEnd: (res, ended) => new NodeEnding(res, ended),
};

/** A response of HTTP/1 or of HTTP/2, which has its stream. */
type Response = ServerResponse & { readonly stream?: ServerHttp2Stream };

/** Those who want to know when a connection closes. */
const followers = new WeakMap<Duplex, Set<() => void>>();

/**
 * The connection is followed, too: before Node 24, a response that is queued behind another one of its connection emits nothing when
 * that closes.
 */
class NodeEnding implements Ending {
  readonly #response: Response;
  /** An HTTP/2 stream or a socket; undefined for a response that a tool has made without one. */
  readonly #connection: Duplex | undefined;
  readonly #tell: (completed: boolean) => void;
  #told = false;

  constructor(response: Response, tell: (completed: boolean) => void) {
    this.#response = response;
    this.#connection = response.stream ?? (response.req as { socket?: Duplex } | undefined)?.socket;
    this.#tell = tell;
    if (this.look()) return;
    response.once('finish', this.#finish);
    response.once('close', this.#cut);
    if (this.#connection) follow(this.#connection, this.#cut);
  }

  /** Nothing tells of an HTTP/2 stream that was reset without an error while it was sent. */
  look(): boolean {
    const { closed, destroyed } = this.#response;
    if (closed || destroyed || this.#connection?.closed || this.#connection?.destroyed) this.#cut();
    return this.#told;
  }

  stop(): void {
    this.#told = true;
    this.#response.off('finish', this.#finish);
    this.#response.off('close', this.#cut);
    if (this.#connection) followers.get(this.#connection)?.delete(this.#cut);
  }

  /** Node emits `finish` for a reset HTTP/2 stream, too, and before Node 24 for what a closing socket has dropped. */
  readonly #finish = (): void => {
    const { stream } = this.#response;
    if (stream) this.#end(stream.writableFinished && !stream.aborted && stream.rstCode === 0);
    else this.#end(this.#connection?.destroyed !== true);
  };

  readonly #cut = (): void => this.#end(false);

  #end(completed: boolean): void {
    if (this.#told) return;
    this.stop();
    this.#tell(completed);
  }
}

/** One listener per connection: a client may pipeline any number of requests, and Node warns of more than ten listeners. */
function follow(connection: Duplex, closed: () => void): void {
  let all = followers.get(connection);
  if (!all) {
    const made = (all = new Set<() => void>());
    followers.set(connection, made);
    connection.once('close', () => made.forEach((tell) => tell()));
  }
  all.add(closed);
}
