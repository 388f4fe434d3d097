// What a client can send to: the routes of a sample's app, or a route behind a sample's limiter.
import { Agent, createServer, request as httpRequest, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Controller } from '@nestjs/common';
import express, { type Express, type RequestHandler } from 'express';
import type { FastifyInstance } from 'fastify';
import { Hono, type MiddlewareHandler } from 'hono';
import { RateLimitModule, type RateLimitModuleOptions } from 'headgate/nestjs';
import type { WebRateLimit } from 'headgate/web';
import Koa, { type Middleware } from 'koa';
import { all, decorate, listen, moduleOf, platforms } from '../../support/nest.js';
import type { Sample } from './samples.js';
import type { Created } from './stand-ins.js';

/** A request of a client. */
export interface Sent {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

export interface Received {
  readonly status: number;
  /** Header fields by name in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
}

/** The handlers behind the limiters: how many requests have reached one, and whether handlers throw. */
export class Handlers {
  reached = 0;
  throws = false;

  /** Counts a request, and throws if handlers throw. */
  reach(): void {
    this.reached++;
    if (this.throws) throw new Error('A handler throws.');
  }
}

/** A route that a client can send requests to. */
export interface Target {
  readonly method: string;
  readonly path: string;
  send(request: Sent): Promise<Received>;
}

/** The address of the client, which the proxy in front of a sample reports. */
export const CLIENT = '203.0.113.9';

/** The route that is added if a sample has none. */
const ADDED = '/attack';

type Send = Target['send'];
type Cleanup = (close: () => unknown) => void;

const agent = new Agent({ keepAlive: true });

/** Sends requests to a server by one connection at a time. */
async function sendTo(server: Server, onEnd: Cleanup): Promise<Send> {
  if (!server.listening) await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  onEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return ({ method, path, headers, body }) =>
    new Promise((resolve, reject) => {
      const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
      const options = { agent, port, host: '127.0.0.1', method, path, headers: { ...headers, ...length } };
      const sent = httpRequest(options, (response) => {
        response.resume().once('error', reject);
        response.once('end', () =>
          resolve({ status: response.statusCode!, headers: response.headers as Received['headers'] }),
        );
      });
      sent.once('error', reject).end(body);
    });
}

/** Sends requests to a function that answers a `Request`. */
function sendWith(answer: (request: Request) => Response | Promise<Response>): Send {
  return async ({ method, path, headers, body }) => {
    const init = { method, headers, ...(body !== undefined && method !== 'GET' && { body }) };
    const respond = async () => answer(new Request(`http://localhost${path}`, init));
    const response = await respond().catch((error: unknown) => {
      const { statusCode = 500 } = error as { statusCode?: number };
      return new Response(String(error), { status: statusCode });
    });
    await response.text();
    return { status: response.status, headers: Object.fromEntries(response.headers) };
  };
}

const methodsOf = (send: Send, methods: readonly string[] = ['GET', 'POST'], path = ADDED): Target[] =>
  methods.map((method) => ({ method, path, send }));

/** The routes of an Express app. If the app has none, a route is added, below the path of its limiter. */
async function targetsOfExpress(
  app: Express,
  handlers: Handlers,
  onEnd: Cleanup,
  code = '',
): Promise<Target[]> {
  app.set('env', 'test');
  const [, below = ''] = /app\.use\(\s*'([^']+)'/.exec(code) ?? [];
  interface Layer {
    route?: { path: unknown; methods: Record<string, boolean>; stack: { handle: RequestHandler }[] };
  }
  const layersOf = () => (app as unknown as { router: { stack: Layer[] } }).router.stack;
  if (!layersOf().some(({ route }) => route)) app.all(below + ADDED, (_req, res) => void res.send('reached'));
  const routes = layersOf().flatMap(({ route }) => (route ? [route] : []));
  for (const { stack } of routes) {
    const last = stack.at(-1)!;
    const { handle } = last;
    // A limiter without a handler behind it.
    if (stack.length === 1 && 'limiter' in handle) continue;
    last.handle = (...args: Parameters<RequestHandler>) => {
      handlers.reach();
      return handle(...args);
    };
  }
  const send = await sendTo(createServer(app), onEnd);
  return routes.flatMap(({ path, methods }) => {
    const url = typeof path === 'string' ? path.replace(/:\w+/g, '1') : '/';
    const names = Object.keys(methods).map((name) => name.toUpperCase());
    return methodsOf(send, url.endsWith(ADDED) ? undefined : names, url);
  });
}

async function targetsOfKoa(app: Koa, handlers: Handlers, onEnd: Cleanup): Promise<Target[]> {
  app.silent = true;
  const last = app.middleware.pop()!;
  if ('limiter' in last) app.use(last);
  app.use((ctx, next) => {
    handlers.reach();
    if (!('limiter' in last)) return last(ctx, next) as Promise<void>;
    ctx.body = 'reached';
    return undefined;
  });
  const listener = app.callback() as RequestListener;
  return methodsOf(await sendTo(createServer(listener), onEnd), ['GET'], '/');
}

function targetsOfHono(app: Hono, handlers: Handlers): Target[] {
  app.onError((_error, c) => c.text('failed', 500)); // Hono would print each error.
  app.all(ADDED, (c) => {
    handlers.reach();
    return c.text('reached');
  });
  const env = { incoming: { socket: { remoteAddress: CLIENT } } };
  const send = sendWith((request) => app.fetch(request, env));
  const own = app.routes.filter(({ method, path }) => method !== 'ALL' && !path.includes('*'));
  return [...own.flatMap(({ method, path }) => methodsOf(send, [method], path)), ...methodsOf(send)];
}

interface FastifyApp {
  app: FastifyInstance;
  routes: { method: string; path: string }[];
}

async function targetsOfFastify(created: FastifyApp, handlers: Handlers, onEnd: Cleanup): Promise<Target[]> {
  const { app, routes } = created;
  const hasRoutes = routes.length > 0;
  if (!hasRoutes)
    app.all(ADDED, () => {
      handlers.reach();
      return 'reached';
    });
  await app.ready();
  app.server.listen(0, '127.0.0.1');
  onEnd(() => app.close());
  await new Promise((resolve) => app.server.once('listening', resolve));
  const send = await sendTo(app.server, () => {});
  if (!hasRoutes) return methodsOf(send);
  return routes
    .filter(({ method }) => method !== 'HEAD')
    .flatMap(({ method, path }) => methodsOf(send, [method], path.replace('*', '/').replace(/:\w+/g, '1')));
}

async function targetsOfNest(options: RateLimitModuleOptions, handlers: Handlers, onEnd: Cleanup) {
  class Root {
    get() {
      handlers.reach();
      return 'reached';
    }
  }
  decorate(Root, 'get', all());
  Controller(ADDED)(Root);
  const { app } = await listen(moduleOf([Root], RateLimitModule.forRoot(options)), platforms['Express']!());
  onEnd(() => app.close());
  return methodsOf(await sendTo(app.getHttpServer() as Server, () => {}));
}

/** The routes behind one of the limiters that a sample has created. */
async function targetsOfLimiter({ kind, value }: Created, handlers: Handlers, onEnd: Cleanup) {
  switch (kind) {
    case 'express': {
      const app = express().use(express.json(), value as RequestHandler);
      return targetsOfExpress(app, handlers, onEnd);
    }
    case 'koa':
      return targetsOfKoa(new Koa().use(value as Middleware), handlers, onEnd);
    case 'hono': {
      return targetsOfHono(new Hono().use(value as MiddlewareHandler), handlers);
    }
    case 'web': {
      const answer = () => {
        handlers.reach();
        return new Response('reached');
      };
      const limit = value as WebRateLimit;
      return methodsOf(sendWith((request) => limit(request, answer, { ip: CLIENT })));
    }
    case 'nestjs':
      return targetsOfNest(value as RateLimitModuleOptions, handlers, onEnd);
    default:
      return [];
  }
}

async function targetsOfApp(
  { kind, value }: Created,
  handlers: Handlers,
  onEnd: Cleanup,
  { code }: Sample,
): Promise<Target[]> {
  switch (kind) {
    case 'express app':
      return targetsOfExpress(value as Express, handlers, onEnd, code);
    case 'fastify app':
      return targetsOfFastify(value as FastifyApp, handlers, onEnd);
    case 'koa app':
      return targetsOfKoa(value as Koa, handlers, onEnd);
    case 'hono app':
      return targetsOfHono(value as Hono, handlers);
    case 'node app': {
      const server = value as Server;
      if (server.listenerCount('request') === 0) return [];
      const listener: RequestListener = (req, res) => void server.emit('request', req, res);
      return methodsOf(await sendTo(createServer(listener), onEnd), ['GET', 'POST'], '/');
    }
    case 'fetch app': {
      const answer = value as (request: Request, env: object) => Response;
      const env = { incoming: { socket: { remoteAddress: CLIENT } } };
      return methodsOf(
        sendWith((request) => answer(request, env)),
        ['GET', 'POST'],
        '/',
      );
    }
    default:
      return [];
  }
}

/**
 * The routes of a sample's apps, or, if the sample has no app, routes behind each of its limiters.
 *
 * @param onEnd is called with functions that end the servers
 */
export async function targetsOf(
  sample: Sample,
  created: readonly Created[],
  handlers: Handlers,
  onEnd: Cleanup,
): Promise<Target[]> {
  // These servers answer with what a package that is not here or a session decides, so the limiter is attacked alone.
  const isForeign = /from '(socket\.io|graphql-yoga)'/.test(sample.code);
  const apps = isForeign ? [] : created.filter(({ kind }) => kind.endsWith(' app'));
  const found: Target[] = [];
  for (const app of apps) found.push(...(await targetsOfApp(app, handlers, onEnd, sample)));
  if (found.length > 0) return found;
  for (const limiter of created) found.push(...(await targetsOfLimiter(limiter, handlers, onEnd)));
  return found;
}
