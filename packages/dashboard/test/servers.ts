// The dashboard in each framework, behind the same small authentication.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import express4 from 'express4';
import fastify from 'fastify';
import { dashboard as webDashboard, type DashboardOptions, type Operator } from 'headgate-dashboard';
import { dashboard } from 'headgate-dashboard/express';
import { dashboardPlugin } from 'headgate-dashboard/fastify';

/** A running server with the page at `url`. */
export interface Site {
  readonly url: string;
  readonly server: Server;
  close(): Promise<void>;
}

/** The options that do not depend on the framework. */
export type Given = Omit<DashboardOptions<never>, 'actions'> & {
  /** Whether there is no option `actions`. */
  readonly isReadOnly?: boolean;
  /** The answer of `actions`. Without it, the operator is the user of the cookie `user`. */
  readonly operator?: unknown;
  /** Whether visitors without the cookie `user` get 401. */
  readonly needsSession?: boolean;
};

const BASE = '/admin/limits';

/** The user in the cookie of a request. */
function userOf(cookies: string | undefined): string | undefined {
  return /(?:^|; )user=(\w+)/.exec(cookies ?? '')?.[1];
}

const operatorOf = (operator: unknown, cookies: string | undefined) => {
  if (operator !== undefined) return operator as Operator;
  const by = userOf(cookies);
  return by === undefined ? null : { by };
};

async function listening(server: Server, host = '127.0.0.1'): Promise<string> {
  if (!server.listening) {
    server.listen(0, host);
    await once(server, 'listening');
  }
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}${BASE}/`;
}

async function site(server: Server, close: () => Promise<unknown>): Promise<Site> {
  const url = await listening(server);
  return {
    ...{ url, server },
    async close() {
      server.closeAllConnections();
      await close();
    },
  };
}

const closed = (server: Server) => async () => {
  server.close();
  await once(server, 'close');
};

function onExpress(create: typeof express, given: Given): Promise<Site> {
  const { isReadOnly, needsSession, operator, ...options } = given;
  const app = create();
  if (needsSession)
    app.use(BASE, (req, res, next) =>
      userOf(req.headers.cookie) === undefined ? void res.status(401).send('Log in.') : next(),
    );
  const actions = (req: IncomingMessage) => operatorOf(operator, req.headers.cookie);
  app.use(BASE, dashboard({ ...options, ...(!isReadOnly && { actions }) }));
  const server = createServer(app as RequestListener);
  return site(server, closed(server));
}

/** Starts the page in each framework. */
export const frameworks: Readonly<Record<string, (given: Given) => Promise<Site>>> = {
  'Express 5': (given) => onExpress(express, given),
  'Express 4': (given) => onExpress(express4 as unknown as typeof express, given),
  'Fastify 5': async ({ isReadOnly, needsSession, operator, ...options }) => {
    const app = fastify();
    const { prefix: _, ...own } = options;
    await app.register(dashboardPlugin, {
      ...{ ...own, prefix: BASE },
      ...(!isReadOnly && { actions: (req) => operatorOf(operator, req.headers.cookie) }),
      ...(needsSession && {
        preHandler: (req, reply, done) =>
          userOf(req.headers.cookie) === undefined ? void reply.code(401).send('Log in.') : done(),
      }),
    });
    await app.ready();
    return site(app.server, () => app.close());
  },
  'Request handlers': async ({ isReadOnly, needsSession, operator, ...options }) => {
    const page = webDashboard({
      ...{ ...options, basePath: BASE },
      ...(!isReadOnly && {
        actions: (request) => operatorOf(operator, request.headers.get('cookie') ?? undefined),
      }),
    });
    const server = createServer((req, res) => {
      if (needsSession && userOf(req.headers.cookie) === undefined) res.writeHead(401).end('Log in.');
      else page.node(req, res);
    });
    return site(server, async () => {
      await closed(server)();
      await page.close();
    });
  },
};

/** Starts the page in Express 5. */
export const startPage = (given: Given): Promise<Site> => frameworks['Express 5']!(given);

/** The cookie and the field with which the page sends changes. */
export async function tokenFields(url: string, user?: string): Promise<Record<string, string>> {
  const response = await fetch(url, { headers: user === undefined ? {} : { cookie: `user=${user}` } });
  const [cookie = ''] = response.headers.getSetCookie();
  const [pair = ''] = cookie.split(';');
  await response.text();
  return {
    cookie: user === undefined ? pair : `${pair}; user=${user}`,
    'x-headgate-token': pair.slice(pair.indexOf('=') + 1),
    'content-type': 'application/json',
    'sec-fetch-site': 'same-origin',
  };
}
