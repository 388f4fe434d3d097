// The arguments of `fetch`.
import type { OutboundRequest } from './outbound.js';

export function describe(input: string | URL | Request, init: RequestInit | undefined): OutboundRequest {
  const from = requestIn(input);
  return {
    url: typeof input === 'string' ? input : (from?.url ?? (input as URL).href),
    method: (init?.method ?? from?.method ?? 'GET').toUpperCase(),
    headers: new Headers(init?.headers ?? from?.headers),
  };
}

/** The request, if the first argument is a request, whose class may be undici's instead of the global class. */
export function requestIn(input: string | URL | Request): Request | undefined {
  return typeof input === 'object' && 'url' in input ? input : undefined;
}

/** The properties of the second argument of `fetch`, besides the headers. On a `Request`, the properties are not own properties. */
const INIT_PROPERTIES = [
  ...['method', 'body', 'signal', 'duplex', 'redirect', 'mode', 'credentials', 'cache', 'referrer'],
  ...['referrerPolicy', 'integrity', 'keepalive'],
] as (keyof RequestInit)[];

/** Copies the second argument of `fetch`, as it is at the time of the call. */
export function copyOf(init: RequestInit): RequestInit {
  const read = INIT_PROPERTIES.filter((name) => init[name] !== undefined).map((name) => [name, init[name]]);
  const copy = { ...init, ...Object.fromEntries(read) } as RequestInit;
  return init.body ? { ...copy, body: bodyOf(init.body) } : copy;
}

/** Copies a body, because the body's owner could change it. */
function bodyOf(body: NonNullable<RequestInit['body']>): NonNullable<RequestInit['body']> {
  if (body instanceof URLSearchParams) return new URLSearchParams(body);
  if (body instanceof ArrayBuffer) return body.slice(0);
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice();
  if (!(body instanceof FormData)) return body;
  const copy = new FormData();
  for (const [name, value] of body) copy.append(name, value);
  return copy;
}

/** Whether the body can be sent twice. A stream is consumed by the first call. */
export function isReplayable(input: string | URL | Request, init: RequestInit | undefined): boolean {
  const body: unknown = init?.body ?? requestIn(input)?.body;
  return !(body instanceof ReadableStream) && !(Object(body) as object)[Symbol.asyncIterator as never];
}
