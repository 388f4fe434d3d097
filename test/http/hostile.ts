// Requests and connections of clients that are hostile or have a bad network.
import type { Socket } from 'node:net';

/** A request as text, with these fields. */
export const get = (path: string, ...fields: string[]) =>
  [`GET ${path} HTTP/1.1`, 'Host: localhost', ...fields, '', ''].join('\r\n');

interface Sent {
  readonly text: string;
  /** The number of requests. */
  readonly n: number;
  /** Whether an answer arrives. */
  readonly begins?: boolean;
}

/**
 * The requests of a client on one connection. The server never answers `/?hang`, answers `/?begin` without an end, and `/?long` with more data
 * than sockets buffer.
 *
 * @param more fields of each request
 */
export function sent(...more: string[]): Readonly<Record<string, Sent>> {
  const ask = (path: string, ...fields: string[]) => get(path, ...more, ...fields);
  const post = (...fields: string[]) =>
    ask('/?hang', 'Content-Type: text/plain', ...fields).replace('GET', 'POST');
  return {
    'a request without an answer': { text: ask('/?hang'), n: 1 },
    'a request whose answer has begun': { text: ask('/?begin'), n: 1, begins: true },
    'a request whose answer is long': { text: ask('/?long'), n: 1, begins: true },
    'pipelined requests without an answer': { text: ask('/?hang').repeat(3), n: 3 },
    'pipelined requests after a request without an answer': {
      text: ask('/?hang') + ask('/').repeat(2),
      n: 3,
    },
    'a body that is not finished': { text: `${post('Content-Length: 100')}begun`, n: 1 },
    'a chunked body that is not finished': {
      text: `${post('Transfer-Encoding: chunked')}5\r\nbegun\r\n`,
      n: 1,
    },
    'a pipelined body that is not finished': {
      text: `${ask('/?hang')}${post('Content-Length: 100')}begun`,
      n: 2,
    },
    'a request that expects to continue': { text: post('Content-Length: 100', 'Expect: 100-continue'), n: 1 },
    'pipelined requests before an upgrade': {
      text: ask('/?hang').repeat(2) + ask('/', 'Connection: Upgrade', 'Upgrade: websocket'),
      n: 2,
    },
  };
}

/** The ends of a client's connection. */
export const endings: Readonly<Record<string, (socket: Socket) => unknown>> = {
  closed: (socket) => socket.destroy(),
  reset: (socket) => socket.resetAndDestroy(),
  'half-closed': (socket) => socket.end(),
};
