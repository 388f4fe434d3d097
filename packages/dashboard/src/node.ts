import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { MAX_IMPORT_BYTES } from './input.js';
import { connected } from './visitors.js';

/** Parsed requests have their body here, as Express and Fastify leave it. */
type Incoming = IncomingMessage & { readonly body?: unknown };

/** A request of Node's server as a web request with a complete body. @param path the path with the query, as the client sent it */
export async function webRequest(req: Incoming, path: string, isSecure: boolean): Promise<Request> {
  const headers = new Headers();
  for (const [name, value] of Object.entries(req.headers))
    if (!name.startsWith(':') && value !== undefined)
      headers.set(name, Array.isArray(value) ? value.join(', ') : value);
  // HTTP/2 has the host in a field of its own, and the guard reads the usual one.
  const { ':authority': authority } = req.headers;
  if (authority !== undefined && !headers.has('host')) headers.set('host', String(authority));
  const url = new URL(`${isSecure ? 'https' : 'http'}://dashboard.invalid`);
  const [pathname = '', query = ''] = path.split(/\?(.*)/s);
  url.pathname = pathname;
  url.search = query;
  const { method = 'GET' } = req;
  const hasBody = method !== 'GET' && method !== 'HEAD';
  const request = new Request(url, { method, headers, ...(hasBody && { body: await textOf(req) }) });
  return connected(request, req.socket);
}

/** The body. A body that is too large is cut to a length that is still too large. */
async function textOf(req: Incoming): Promise<string> {
  // Parsers of Express 4 set an empty body on requests that they do not read.
  if (req.body !== undefined && req.readableEnded) return textOfParsed(req.body);
  const chunks: Buffer[] = [];
  let rest = MAX_IMPORT_BYTES + 1;
  for await (const chunk of req as AsyncIterable<Buffer>) {
    if (rest > 0) chunks.push(chunk.subarray(0, rest));
    rest -= chunk.length;
  }
  return Buffer.concat(chunks).toString();
}

/** The text of a body that earlier middleware has read: as bytes, as a text, or as JSON. */
function textOfParsed(body: unknown): string {
  if (body instanceof Uint8Array) return Buffer.from(body).toString();
  return typeof body === 'string' ? body : JSON.stringify(body);
}

/** Whether the client has left. The response of an HTTP/2 server has the state of its stream only. */
function hasLeft(res: ServerResponse): boolean {
  const { stream } = res as { readonly stream?: { readonly destroyed: boolean } };
  return stream?.destroyed ?? res.destroyed;
}

/** Writes a web response to Node's. A stream ends when the client leaves, or at once if the client left before the answer. */
export function send(response: Response, res: ServerResponse): void {
  if (hasLeft(res)) return void response.body?.cancel();
  res.statusCode = response.status;
  for (const [name, value] of response.headers) if (name !== 'set-cookie') res.setHeader(name, value);
  // Earlier middleware may have set cookies, too.
  for (const cookie of response.headers.getSetCookie()) res.appendHeader('set-cookie', cookie);
  if (!response.body) return void res.end();
  const body = Readable.fromWeb(response.body as never);
  // A reader that leaves is not an error.
  body.on('error', () => res.destroy());
  res.on('close', () => body.destroy());
  body.pipe(res);
  res.flushHeaders();
}
