import { readFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import express, { type ErrorRequestHandler } from 'express';
import Fastify from 'fastify';
import { HeadgateError, type Store } from 'headgate';
import { rateLimit } from 'headgate/express';
import { rateLimitPlugin } from 'headgate/fastify';
import { holdOf, rows, type Row, type Wish } from './algorithms.js';

/** A server of the demo. Both servers have the same paths, and share their quotas: same names, same store, same keys. */
export interface DemoServer {
  readonly framework: string;
  readonly url: string;
  /** Each row whose requests are held has its own address, because a browser opens at most six connections per address. */
  readonly lanes: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

/** What the page requests first. */
interface Info {
  where: string;
  servers: DemoServer[];
}

const TYPES = { html: 'text/html', css: 'text/css', js: 'text/javascript' };

/** The page, which both servers have. */
const page = (['html', 'css', 'js'] as const).map((type) => {
  const file = type === 'html' ? 'index.html' : `page.${type}`;
  return {
    path: type === 'html' ? '/' : `/${file}`,
    type: TYPES[type],
    content: readFileSync(new URL(`page/${file}`, import.meta.url), 'utf8'),
  };
});

/** The page of one server also requests the other one, so it must be allowed to read its headers. */
const CORS = { 'access-control-allow-origin': '*', 'access-control-expose-headers': '*' };

/** The options of both adapters for a row, independent of the type of request. */
function optionsOf(row: Row, store: Store) {
  return {
    name: row.name,
    store,
    policies: (request: { query: unknown }) => row.policies(request.query as Wish),
    cost: (request: { query: unknown }) => Number((request.query as Wish).cost ?? 1),
    // Only a demo may trust what clients say about who they are.
    keyGenerator: (request: { query: unknown; ip?: string | undefined }) =>
      (request.query as Wish).key ?? request.ip,
  };
}

function createExpress(store: Store, info: Info): RequestListener {
  const app = express();
  app.use((_req, res, next) => {
    res.set(CORS);
    next();
  });
  for (const { path, type, content } of page) app.get(path, (_req, res) => res.type(type).send(content));
  app.get('/demo.json', (_req, res) => res.json({ ...info, rows }));
  for (const row of rows) {
    app.get(`/${row.name}`, rateLimit(optionsOf(row, store)), async (req, res) => {
      await sleep(holdOf(row.name, req.query));
      res.send(`${row.name} on Express: welcome\n`);
    });
  }
  const refuse: ErrorRequestHandler = (error, _req, res, next) => {
    if (error instanceof HeadgateError && !res.headersSent) res.status(400).send(`${mistakeOf(error)}\n`);
    else next(error);
  };
  app.use(refuse);
  return app;
}

async function createFastify(store: Store, info: Info): Promise<RequestListener> {
  const fastify = Fastify();
  fastify.addHook('onRequest', (_request, reply, done) => {
    reply.headers(CORS);
    done();
  });
  await fastify.register(rateLimitPlugin, { global: false });
  for (const { path, type, content } of page)
    fastify.get(path, (_request, reply) => reply.type(type).send(content));
  fastify.get('/demo.json', () => ({ ...info, rows }));
  for (const row of rows) {
    fastify.get(
      `/${row.name}`,
      { config: { rateLimit: optionsOf(row, store) } as object },
      async (request) => {
        await sleep(holdOf(row.name, request.query as Wish));
        return `${row.name} on Fastify: welcome\n`;
      },
    );
  }
  fastify.setErrorHandler((error, _request, reply) => {
    if (error instanceof HeadgateError) return reply.code(400).send(`${mistakeOf(error)}\n`);
    throw error;
  });
  await fastify.ready();
  return (req, res) => fastify.routing(req, res);
}

/** Starts both servers on free ports of the loopback interface. */
export async function startServers(store: Store, where: string): Promise<DemoServer[]> {
  const info: Info = { where, servers: [] };
  info.servers.push(await start('Express', createExpress(store, info)));
  info.servers.push(await start('Fastify', await createFastify(store, info)));
  return info.servers;
}

async function start(framework: string, listener: RequestListener): Promise<DemoServer> {
  const main = await listen(listener);
  const lanes: [string, Server][] = [];
  for (const { name, holds } of rows) if (holds) lanes.push([name, await listen(listener)]);
  return {
    framework,
    url: urlOf(main),
    lanes: Object.fromEntries(lanes.map(([name, server]) => [name, urlOf(server)])),
    async close() {
      await Promise.all([main, ...lanes.map(([, server]) => server)].map(close));
    },
  };
}

async function listen(listener: RequestListener): Promise<Server> {
  const server = createServer(listener);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, '127.0.0.1', resolve);
  });
  return server;
}

function urlOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function close(server: Server): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve));
  server.closeAllConnections();
  await closed;
}

/** Clients are normally not told what is wrong with policies. In the demo, they wrote them. */
function mistakeOf({ message, cause }: HeadgateError): string {
  return cause instanceof Error ? cause.message : message;
}
