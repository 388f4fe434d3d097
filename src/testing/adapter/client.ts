import { once } from 'node:events';
import { connect } from 'node:net';

/** A response, read whole. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

export interface Ask {
  readonly method?: string;
  /** The client's address, as a trusted proxy tells it. */
  readonly from?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export async function ask(
  url: string,
  { method = 'GET', from, headers = {}, signal }: Ask = {},
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: from === undefined ? headers : { ...headers, 'x-forwarded-for': from },
    ...(signal ? { signal } : {}),
  });
  const { status } = response;
  return { status, headers: Object.fromEntries(response.headers), text: await response.text() };
}

/** Sends `n` requests in one packet on one connection. Returns the statuses and header fields of the answers, as one text each. */
export async function pipeline(url: string, n: number): Promise<string[]> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const end = (i: number) => (i === n - 1 ? 'close' : 'keep-alive');
  const request = (i: number) => `GET / HTTP/1.1\r\nHost: localhost\r\nConnection: ${end(i)}\r\n\r\n`;
  socket.write(Array.from({ length: n }, (_, i) => request(i)).join(''));
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  await once(socket, 'close');
  return text.split(/(?=HTTP\/1\.1 \d{3} )/);
}

/** The body of a denial: problem details. */
export function problemOf({ text }: Answer): Record<string, unknown> {
  return JSON.parse(text) as Record<string, unknown>;
}

export function remainingOf({ headers }: Answer): number {
  return Number(headers['ratelimit-remaining']);
}

/** The fields of rate limits. */
export function fieldsOf({ headers }: Answer): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => /ratelimit|retry-after/.test(name)));
}
