import { once } from 'node:events';
import { connect } from 'node:net';
import { Mismatch } from '../expect.js';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

export interface Ask {
  readonly method?: string;
  /** The client's address as a trusted proxy reports it. */
  readonly from?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** Resolves when the response begins. Rejects if it has not begun after `patience` ms. */
export function send(url: string, signal: AbortSignal | undefined, patience: number): Promise<Response> {
  return within(patience, signal, (signal) => fetch(url, { signal }));
}

/** Resolves when the response has ended. Rejects if it has not ended after `patience` ms. */
export function ask(
  url: string,
  { method = 'GET', from, headers = {}, signal }: Ask,
  patience: number,
): Promise<Answer> {
  return within(patience, signal, async (signal) => {
    const forwarded = from === undefined ? {} : { 'x-forwarded-for': from };
    const response = await fetch(url, { method, headers: { ...headers, ...forwarded }, signal });
    const { status } = response;
    return { status, headers: Object.fromEntries(response.headers), text: await response.text() };
  });
}

async function within<T>(
  patience: number,
  given: AbortSignal | undefined,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), patience);
  try {
    return await run(given ? AbortSignal.any([given, late.signal]) : late.signal);
  } catch (error) {
    if (!late.signal.aborted) throw error;
    throw new Mismatch('a request', 'none', 'an answer', `an answer within ${patience} ms`);
  } finally {
    clearTimeout(timer);
  }
}

/** Sends `n` requests in one packet on one connection. Returns the status and header fields of each answer as a text. */
export async function pipeline(url: string, n: number, patience: number): Promise<string[]> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const end = (i: number) => (i === n - 1 ? 'close' : 'keep-alive');
  const request = (i: number) => `GET / HTTP/1.1\r\nHost: localhost\r\nConnection: ${end(i)}\r\n\r\n`;
  socket.write(Array.from({ length: n }, (_, i) => request(i)).join(''));
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  socket.setTimeout(patience, () => socket.destroy());
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

export function fieldsOf({ headers }: Answer): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => /ratelimit|retry-after/.test(name)));
}
