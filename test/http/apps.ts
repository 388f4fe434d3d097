// The adapters under test, each behind the same face: the conformance suite loops over them.
import { once } from 'node:events';
import type { IncomingHttpHeaders, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Readable } from 'node:stream';
import express5, { type ErrorRequestHandler, type RequestHandler } from 'express';
import express4 from 'express4';
import Fastify from 'fastify';
import type { Decision, HeadgateError } from 'headgate';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import type { HttpOptions } from '../../src/http/options.js';

/** What the requests of all frameworks have. */
export interface TestRequest {
  readonly headers: IncomingHttpHeaders;
  readonly url: string;
  readonly ip?: string | undefined;
  readonly rateLimit?: Decision | undefined;
}

/** What the responses of all frameworks have. */
export interface TestResponse {
  statusCode: number;
  send(body: string): unknown;
}

export type TestOptions = HttpOptions<TestRequest, TestResponse>;

export interface Scenario {
  /** On one route, in this order. */
  readonly limiters: readonly TestOptions[];
  /** What the route answers; default 200 and `ok`. */
  readonly answer?: (request: TestRequest) => TestAnswer | Promise<TestAnswer>;
  /** Before the limiters. */
  readonly before?: (response: ServerResponse) => void;
  /** Is told of each request that failed. */
  readonly failed?: (error: HeadgateError) => void;
}

interface TestAnswer {
  readonly status?: number;
  readonly body?: string | Readable;
}

export interface Served {
  readonly url: string;
  readonly port: number;
  /** The server itself, for what only its own listeners can do. */
  readonly server: Server;
  close(): Promise<void>;
}

/** Serves a scenario on all methods of `/`. A failed request is answered with 500 and the error's code. */
export type Serve = (scenario: Scenario) => Promise<Served>;

const serveExpress =
  (express: typeof express5): Serve =>
  async ({ limiters, answer, before, failed }) => {
    const app = express();
    app.set('trust proxy', 'loopback');
    const start: RequestHandler = (_req, res, next) => {
      before?.(res);
      next();
    };
    const end: RequestHandler = async (req, res) => {
      const { status = 200, body = 'ok' } = (await answer?.(req)) ?? {};
      if (res.headersSent) res.end();
      else if (typeof body === 'string') res.status(status).send(body);
      else body.pipe(res.status(status));
    };
    const fail: ErrorRequestHandler = (error: HeadgateError, _req, res, _next) => {
      failed?.(error);
      res.status(500).send(error.code ?? error.message);
    };
    app.all('/', start, ...limiters.map((options) => rateLimit(options)), end);
    app.use(fail);
    const server = app.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return served(server, async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    });
  };

const serveFastify =
  (options: object): Serve =>
  async ({ limiters, answer, before, failed }) => {
    const app = Fastify({ trustProxy: 'loopback', forceCloseConnections: true, ...options });
    app.addHook('onRequest', (_request, reply, done) => {
      before?.(reply.raw);
      done();
    });
    await app.register(rateLimitPlugin, { global: false });
    app.setErrorHandler((error: HeadgateError, _request, reply) => {
      failed?.(error);
      return reply.code(500).send(error.code ?? error.message);
    });
    app.all('/', { config: { rateLimit: limiters } }, async (request, reply) => {
      const { status = 200, body = 'ok' } = (await answer?.(request)) ?? {};
      if (reply.raw.headersSent) {
        reply.hijack();
        reply.raw.end();
        return reply;
      }
      return reply.code(status).send(body);
    });
    await app.listen({ port: 0, host: '127.0.0.1' });
    return served(app.server, () => app.close());
  };

function served(server: Server, close: () => Promise<void>): Served {
  const { port } = server.address() as AddressInfo;
  return { port, url: `http://127.0.0.1:${port}/`, server, close };
}

export const adapters: Readonly<Record<string, Serve>> = {
  'Express 4': serveExpress(express4 as unknown as typeof express5),
  'Express 5': serveExpress(express5),
  'Fastify 5': serveFastify({}),
};

/** Fastify on HTTP/2 without TLS. Express has no HTTP/2. */
export const serveHttp2: Serve = serveFastify({ http2: true });
