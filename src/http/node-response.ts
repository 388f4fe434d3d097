import type { ServerResponse } from 'node:http';
import type { ServerHttp2Stream } from 'node:http2';
import type { Duplex } from 'node:stream';
import { follow } from './follow.js';
import type { ResponsePort } from './framework.js';

/** A response of HTTP/1, or a response of HTTP/2 with its stream. */
type Response = ServerResponse & { readonly stream?: ServerHttp2Stream };

/** The responses of Node's HTTP/1 and HTTP/2 servers, for the frameworks on these servers. */
export const nodeResponse: ResponsePort<ServerResponse> = {
  getHeader: (res, name) => res.getHeader(name),
  setHeader: (res, name, value) => void res.setHeader(name, value),
  headersSent: (res) => res.headersSent,
  getStatus: (res) => res.statusCode,
  setStatus: (res, status) => void (res.statusCode = status),
  send: (res, body) => {
    res.setHeader('Content-Length', body.length);
    res.end(body);
  },
  hasEnded: (res) => {
    const connection = connectionOf(res);
    // An HTTP/2 stream closes first, and is then destroyed. A socket is destroyed first.
    return res.destroyed || connection?.closed === true || connection?.destroyed === true;
  },
  onEnd: (res: Response, ended) => {
    const { stream } = res;
    const connection = connectionOf(res);
    // Node also emits `finish` for a reset HTTP/2 stream, and before Node 24 for data that a closing socket dropped.
    const finish = stream
      ? () => ended(stream.writableFinished && !stream.aborted && stream.rstCode === 0)
      : () => ended(connection?.destroyed !== true);
    const cut = (): void => ended(false);
    res.once('finish', finish);
    res.once('close', cut);
    // Before Node 24, a response behind another response on the same connection emits no event when the connection closes.
    const unfollow = connection && follow(connection, ['close'], cut);
    return () => {
      res.off('finish', finish);
      res.off('close', cut);
      unfollow?.();
    };
  },
};

/** The HTTP/2 stream or the socket, or `undefined` for a response that a tool created without a connection. */
function connectionOf(res: Response): Duplex | undefined {
  return res.stream ?? (res.req as { socket?: Duplex } | undefined)?.socket;
}
