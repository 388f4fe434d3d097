// A server with the REST API that Upstash documents, over a real Redis: https://upstash.com/docs/redis/features/restapi
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { Command, type Redis } from 'ioredis';

const TOKEN = 'a-token-of-tests';

/** Commands that need a connection of their own. */
const UNAVAILABLE = ['SUBSCRIBE', 'PSUBSCRIBE', 'MONITOR', 'BLPOP', 'CLIENT', 'CONFIG', 'WATCH', 'MULTI'];

/** One request, as the server received it. */
export interface RestRequest {
  readonly path: string;
  readonly commands: readonly (readonly string[])[];
}

/** An answer that a test gives instead of the server's. `'lost'` runs the commands, then closes the connection without an answer. */
export type Instead = { readonly status: number; readonly body: string } | 'lost' | 'stalled';

export interface RestServer {
  readonly url: string;
  readonly token: string;
  /** The requests so far. */
  readonly requests: RestRequest[];
  /** Decides about the next requests. Undefined: the server answers. */
  instead: ((request: RestRequest) => Instead | undefined) | undefined;
  close(): Promise<void>;
}

export async function startRest(redis: Redis, port = 0): Promise<RestServer> {
  const server = createServer((req, res) => void answer(req, res));
  await once(server.listen(port, '127.0.0.1'), 'listening');
  const rest: RestServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    token: TOKEN,
    requests: [],
    instead: undefined,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const send = (status: number, body: unknown) =>
      void res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (req.headers.authorization !== `Bearer ${TOKEN}`) return send(401, { error: 'Unauthorized' });
    const encoding = req.headers['upstash-encoding'] ?? 'json';
    if (encoding !== 'base64' && encoding !== 'json') return send(400, { error: 'Unknown encoding' });
    if (req.method !== 'POST') return send(405, { error: 'Method Not Allowed' });
    const body = JSON.parse(await text(req)) as string[] | string[][];
    const path = req.url!;
    const isAlone = path === '/';
    const commands = (isAlone ? [body] : body) as string[][];
    const request = { path, commands };
    rest.requests.push(request);
    const instead = rest.instead?.(request);
    if (instead === 'stalled') return;
    if (typeof instead === 'object') return void res.writeHead(instead.status).end(instead.body);
    const isBase64 = encoding === 'base64';
    const results = await Promise.all(commands.map((command) => run(command, isBase64)));
    if (instead === 'lost') return void req.socket.destroy();
    if (isAlone) send('error' in results[0]! ? 400 : 200, results[0]);
    else send(200, results);
  }

  async function run([name = '', ...args]: readonly string[], isBase64: boolean): Promise<object> {
    if (UNAVAILABLE.includes(name.toUpperCase()))
      return { error: `ERR Command is not available: '${name}'. See https://upstash.com/docs/redis` };
    try {
      const reply = await redis.sendCommand(new Command(name, args, { replyEncoding: null }));
      return { result: encoded(reply, isBase64) };
    } catch (error) {
      return { error: (error as Error).message };
    }
  }
  return rest;
}

function encoded(reply: unknown, isBase64: boolean): unknown {
  if (Array.isArray(reply)) return reply.map((each) => encoded(each, isBase64));
  if (!Buffer.isBuffer(reply)) return reply;
  const words = reply.toString();
  return isBase64 && words !== 'OK' ? reply.toString('base64') : words;
}
