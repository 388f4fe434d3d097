// The adapters under test behind one interface, for the conformance suite.
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import express5, { type ErrorRequestHandler, type RequestHandler } from 'express';
import express4 from 'express4';
import Fastify from 'fastify';
import type { Decision, DeniedDecision, HeadgateError } from 'headgate';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { rateLimit as overHono } from 'headgate/hono';
import { nodeResponse, type HttpOptions, type WebReply } from 'headgate/http';
import { rateLimit as overKoa } from 'headgate/koa';
import { rateLimit as overWeb } from 'headgate/web';
import { Hono, type Context as HonoContext } from 'hono';
import Koa, { type Context } from 'koa';

/** The properties of requests in all frameworks. */
export interface TestRequest {
  readonly headers: IncomingHttpHeaders;
  readonly url: string;
  readonly ip?: string | undefined;
  readonly rateLimit?: Decision | undefined;
}

/** The properties of responses in all frameworks. */
export interface TestResponse {
  statusCode: number;
  send(body: string): unknown;
}

export type TestOptions = HttpOptions<TestRequest, TestResponse>;

export interface Scenario {
  /** The limiters of a route, in order. */
  readonly limiters: readonly TestOptions[];
  /** The answer of the route. Default 200 and `ok`. */
  readonly answer?: (request: TestRequest) => TestAnswer | Promise<TestAnswer>;
  /** Called before the limiters, with Node's response. The limiters wait for a promise. */
  readonly before?: (response: ServerResponse) => void | Promise<void>;
  /** Called with the error of each request that failed. */
  readonly failed?: (error: HeadgateError) => void;
}

interface TestAnswer {
  readonly status?: number;
  readonly body?: string | Readable;
}

export interface Served {
  readonly url: string;
  readonly port: number;
  /** The server itself, for actions that need the server's own listeners. */
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
    const start: RequestHandler = async (_req, res, next) => {
      await before?.(res);
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
      res.status(500).send(textOf(error));
    };
    app.all('/', start, ...limiters.map((options) => rateLimit(options)), end);
    app.use(fail);
    return listen(createServer(app));
  };

const serveFastify =
  (options: object): Serve =>
  async ({ limiters, answer, before, failed }) => {
    const app = Fastify({ trustProxy: 'loopback', forceCloseConnections: true, ...options });
    app.addHook('onRequest', async (_request, reply) => before?.(reply.raw));
    await app.register(rateLimitPlugin, { global: false });
    app.setErrorHandler((error: HeadgateError, _request, reply) => {
      failed?.(error);
      return reply.code(500).send(textOf(error));
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

const serveKoa: Serve = ({ limiters, answer, before, failed }) => {
  const app = new Koa({ proxy: true });
  app.use(async (ctx, next) => {
    await before?.(ctx.res);
    // Koa must not end a response that Koa has not begun.
    if (ctx.headerSent) ctx.respond = false;
    try {
      await next();
    } catch (error) {
      failed?.(error as HeadgateError);
      ctx.status = 500;
      ctx.body = textOf(error);
    }
  });
  const response = (ctx: Context): TestResponse => ({
    statusCode: ctx.status,
    send: (body) => (ctx.body = body),
  });
  for (const options of limiters) app.use(overKoa(translate(options, response)));
  app.use(async (ctx: Context) => {
    const { status = 200, body = 'ok' } = (await answer?.(ctx)) ?? {};
    if (ctx.headerSent) return void ctx.res.end();
    ctx.status = status;
    ctx.body = body;
  });
  // Koa reports clients that disconnect as errors.
  app.on('error', () => {});
  return listen(createServer((req, res) => void app.callback()(req, res)));
};

/** Hono's server, because Node has no server for handlers that return a `Response`. */
const serveFetch =
  (exactly: boolean): Serve =>
  ({ limiters, answer, before, failed }) => {
    const response = (reply: WebReply): TestResponse => ({
      statusCode: reply.status,
      send: (body) => (reply.body = body),
    });
    const limits = limiters.map((options) => overWeb(translate(options, response)));
    const respond = async (request: TestRequest): Promise<Response> => {
      const { status = 200, body = 'ok' } = (await answer?.(request)) ?? {};
      return new Response(typeof body === 'string' ? body : (Readable.toWeb(body) as ReadableStream), {
        status,
      });
    };
    const serve = async (plain: Request, { incoming, outgoing }: HttpBindings): Promise<Response> => {
      const { url, headers, socket } = incoming;
      const gone = new AbortController();
      nodeResponse.onEnd(outgoing, () => gone.abort());
      const { signal } = gone;
      await before?.(outgoing);
      const ip = (headers['x-forwarded-for'] as string | undefined) ?? socket.remoteAddress;
      const request = Object.create(plain, own({ url, headers, ip, signal })) as Request;
      const connection = { ip, ...(exactly && { outgoing }) };
      const pass = (i: number): Promise<Response> =>
        limits[i]?.(request, () => pass(i + 1), connection) ?? respond(request as unknown as TestRequest);
      try {
        return await pass(0);
      } catch (error) {
        failed?.(error as HeadgateError);
        return new Response(textOf(error), { status: 500 });
      }
    };
    const listener = getRequestListener(serve as never, { overrideGlobalObjects: false });
    return listen(createServer((incoming, outgoing) => void listener(incoming, outgoing)));
  };

/** The request as the tests' callbacks read it, from Hono's context. */
const viewOf = (c: HonoContext): TestRequest => {
  const { headers, url = '', socket } = (c.env as HttpBindings).incoming;
  const ip = (headers['x-forwarded-for'] as string | undefined) ?? socket.remoteAddress;
  return { headers, url, ip, rateLimit: c.get('rateLimit') };
};

/** Options whose callbacks get Hono's context. */
function forHono(options: TestOptions): Parameters<typeof overHono>[0] {
  const wrap = (value: unknown): unknown =>
    typeof value === 'function'
      ? (c: HonoContext, ...rest: unknown[]) => (value as (...args: unknown[]) => unknown)(viewOf(c), ...rest)
      : value;
  const entries = Object.entries(options).map(([name, value]: [string, unknown]) => {
    if (name === 'enabled' || name === 'onHealth') return [name, value];
    if (name === 'onDecision' && typeof value === 'function')
      return [
        name,
        (decision: Decision, c: HonoContext) =>
          (value as (d: Decision, r: TestRequest) => unknown)(decision, viewOf(c)),
      ];
    if (name === 'keys')
      return [name, Object.fromEntries(Object.entries(value as object).map(([by, own]) => [by, wrap(own)]))];
    return [name, wrap(value)];
  });
  const response = (reply: WebReply): TestResponse => ({
    statusCode: reply.status,
    send: (body) => (reply.body = body),
  });
  return translate(
    {
      clientIp: wrap(({ ip }: TestRequest) => ip) as never,
      ...(Object.fromEntries(entries) as TestOptions),
    },
    response,
  );
}

const serveHono: Serve = ({ limiters, answer, before, failed }) => {
  const app = new Hono<{ Bindings: HttpBindings }>();
  app.use(async (c, next) => {
    await before?.(c.env.outgoing);
    await next();
  });
  app.onError((error, c) => {
    failed?.(error as HeadgateError);
    return c.text(textOf(error), 500);
  });
  for (const options of limiters) app.use(overHono(forHono(options)));
  app.all('/', async (c) => {
    const { status = 200, body = 'ok' } = (await answer?.(viewOf(c))) ?? {};
    return new Response(typeof body === 'string' ? body : (Readable.toWeb(body) as ReadableStream), {
      status,
    });
  });
  const listener = getRequestListener(app.fetch, { overrideGlobalObjects: false });
  return listen(createServer((incoming, outgoing) => void listener(incoming, outgoing)));
};

/** Options for a framework with other responses than in the tests. */
function translate<Req, Res>(
  options: TestOptions,
  response: (res: Res) => TestResponse,
): HttpOptions<Req, Res> {
  const { handler, requestWasSuccessful: wasSuccessful } = options;
  return {
    ...options,
    ...(handler && {
      handler: (req: TestRequest, res: Res, decision: DeniedDecision) =>
        handler(req, response(res), decision),
    }),
    ...(wasSuccessful && {
      requestWasSuccessful: (req: TestRequest, res: Res) => wasSuccessful(req, response(res)),
    }),
  } as HttpOptions<Req, Res>;
}

/** Own properties that replace accessors. */
function own(values: object): PropertyDescriptorMap {
  const entries = Object.entries(values) as [string, unknown][];
  return Object.fromEntries(entries.map(([name, value]) => [name, { value, writable: true }]));
}

function textOf(error: unknown): string {
  const { code, message } = error as HeadgateError;
  return code ?? message;
}

async function listen(server: Server): Promise<Served> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return served(server, async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
}

function served(server: Server, close: () => Promise<void>): Served {
  const { port } = server.address() as AddressInfo;
  return { port, url: `http://127.0.0.1:${port}/`, server, close };
}

/** An adapter, and the abilities of its framework. */
export interface Adapter {
  readonly serve: Serve;
  /** Whether a response can have been sent before a limiter decides. */
  readonly sendsBefore: boolean;
  /** Whether the adapter knows the sent part of a response. Otherwise it only knows the part that was read. */
  readonly knowsSent: boolean;
}

const onNode = { sendsBefore: true, knowsSent: true };
const onWeb = { sendsBefore: false };

export const adapters: Readonly<Record<string, Adapter>> = {
  'Express 4': { serve: serveExpress(express4 as unknown as typeof express5), ...onNode },
  'Express 5': { serve: serveExpress(express5), ...onNode },
  'Fastify 5': { serve: serveFastify({}), ...onNode },
  'Koa 3': { serve: serveKoa, ...onNode },
  Hono: { serve: serveHono, ...onWeb, knowsSent: true },
  Web: { serve: serveFetch(false), ...onWeb, knowsSent: false },
  'Web on Node': { serve: serveFetch(true), ...onWeb, knowsSent: true },
};

/** Fastify on HTTP/2 without TLS. Express has no HTTP/2. */
export const serveHttp2: Serve = serveFastify({ http2: true });
