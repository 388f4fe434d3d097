import type { ServerResponse } from 'node:http';
import type { ServerHttp2Stream } from 'node:http2';
import type { Duplex } from 'node:stream';
import { onClosed, reportsClosing } from './closed-connections.js';
import type { Leaving, ResponsePort } from './framework.js';

/** The error code of HTTP/2. A constant of its own, because the builds for the edge have no node:http2. */
const INTERNAL_ERROR = 2;

type Response = ServerResponse & { readonly stream?: ServerHttp2Stream };

/** The responses of Node's HTTP/1 and HTTP/2 servers, for the frameworks on these servers. */
export const nodeResponse: ResponsePort<ServerResponse> &
  Leaving<ServerResponse> &
  Required<Pick<ResponsePort<ServerResponse>, 'isOpen' | 'cut'>> = {
  getHeader: (res, name) => res.getHeader(name),
  setHeader: (res, name, value) => void res.setHeader(name, value),
  headersSent: (res) => res.headersSent,
  getStatus: (res) => res.statusCode,
  setStatus: (res, status) => void (res.statusCode = status),
  send: (res, body) => {
    res.setHeader('Content-Length', body.length);
    res.end(body);
  },
  isOpen: (res) => !res.writableEnded && !nodeResponse.hasEnded(res),
  cut: (res: Response) => {
    if (res.stream) res.stream.close(INTERNAL_ERROR);
    else res.destroy();
  },
  // An HTTP/2 stream closes first, and is then destroyed. A socket is destroyed first.
  hasEnded: (res: Response) =>
    res.destroyed || (res.stream ?? res.req?.socket)?.destroyed === true || res.stream?.closed === true,
  hasLeft: (res: Response) => {
    const { stream, req } = res;
    // A connection that the client has reset misses its address before Node reports the reset. A Unix socket has neither address.
    const wasReset = req?.socket?.remoteAddress === undefined && req?.socket?.localAddress !== undefined;
    if (!wasReset && !nodeResponse.hasEnded(res)) return false;
    return !(res.headersSent && (stream ? isWhole(stream) : res.writableFinished));
  },
  onEnd: (res: Response, ended) => {
    const { callbacks, stop } = listeners.get(res) ?? listenTo(res);
    callbacks.add(ended);
    return () => {
      if (callbacks.delete(ended) && callbacks.size === 0) stop();
    };
  },
};

/** The listener of a response, for all limiters of the response, because Node warns of more than ten listeners. */
interface EndListener {
  readonly callbacks: Set<(completed: boolean) => void>;
  stop(): void;
}

/** The listeners of responses that have not ended. */
const listeners = new WeakMap<Response, EndListener>();

function listenTo(res: Response): EndListener {
  const callbacks: EndListener['callbacks'] = new Set();
  const { stream } = res;
  // Undefined for a response that a tool created without a connection.
  const connection: Duplex | undefined = stream ?? res.req?.socket;
  const stop = (): void => {
    listeners.delete(res);
    res.off('finish', finish);
    res.off('close', close);
    unfollow?.();
  };
  const end = (completed: boolean): void => {
    stop();
    for (const ended of callbacks) ended(completed);
  };
  // Node also emits `finish` for a reset HTTP/2 stream, and before Node 24 for data that a closing socket dropped.
  const finish = stream ? () => end(isWhole(stream)) : () => end(connection?.destroyed !== true);
  const cut = (): void => end(false);
  // Without a connection of Node, the response is emulated, and may emit `close` at once before `finish`.
  const close = (): void => {
    if (reportsClosing(connection)) return cut();
    queueMicrotask(() => {
      if (listeners.get(res) === listener) cut();
    });
  };
  // Before Node 24, a response behind another response on the same connection emits no event when the connection closes.
  const unfollow = connection && onClosed(connection, ['close'], cut);
  res.once('finish', finish);
  res.once('close', close);
  const listener = { callbacks, stop };
  listeners.set(res, listener);
  return listener;
}

/** Whether an HTTP/2 stream was sent completely. A stream that the client resets finishes, too. */
function isWhole({ writableFinished, aborted, rstCode }: ServerHttp2Stream): boolean {
  return writableFinished && !aborted && rstCode === 0;
}
