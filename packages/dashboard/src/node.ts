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
  if (req.body !== undefined) return typeof req.body === 'string' ? req.body : JSON.stringify(req.body);
  const chunks: Buffer[] = [];
  let rest = MAX_IMPORT_BYTES + 1;
  for await (const chunk of req as AsyncIterable<Buffer>) {
    if (rest > 0) chunks.push(chunk.subarray(0, rest));
    rest -= chunk.length;
  }
  return Buffer.concat(chunks).toString();
}

/** Writes a web response to Node's. A stream ends when the client leaves. */
export function send(response: Response, res: ServerResponse): void {
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
