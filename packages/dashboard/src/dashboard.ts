import type { IncomingMessage, ServerResponse } from 'node:http';
import { inspect } from 'node:util';
import { HeadgateError } from 'headgate';
import { withoutSecrets } from 'headgate/admin';
import { urlOf } from './guard.js';
import { send, webRequest } from './node.js';
import { compileOptions, type DashboardOptions } from './options.js';
import { failed, Service } from './service.js';

/** Options of `dashboard`. */
export interface WebDashboardOptions extends DashboardOptions {
  /** The path of the page: `'/admin/limits'`. @default '' */
  basePath?: string | undefined;
}

/** Facts about a request's connection. */
export interface Connection {
  /** The client's address. It is needed only without `actions` and `auth`. */
  ip?: string | undefined;
}

/** Answers a request with the page, or with its data. */
export interface DashboardHandler {
  (request: Request, connection?: Connection): Promise<Response>;
  /**
   * Answers a request of Node's server.
   *
   * @example
   * createServer(page.node).listen(7420, '127.0.0.1')
   */
  readonly node: (req: IncomingMessage, res: ServerResponse) => void;
  /** Closes a file that the dashboard opened. */
  close(): Promise<void>;
}

const CALLER = {
  name: 'dashboard',
  example:
    "dashboard({ store: redisStore(redis), basePath: '/admin/limits', actions: (request) => sessionOf(request)?.admin ?? null })",
  more: ['basePath'],
};

/**
 * Creates the live page for servers with `Request` handlers: Hono, Next.js, SvelteKit, Bun, Deno. For Express and
 * Fastify, see `headgate-dashboard/express` and `headgate-dashboard/fastify`.
 *
 * @example
 * const page = dashboard({ store, basePath: '/admin/limits', actions: (request) => sessionOf(request)?.admin ?? null })
 * app.all('/admin/limits/*', (c) => page(c.req.raw))
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, and as `createAdmin`
 */
export function dashboard(options: WebDashboardOptions): DashboardHandler {
  const settings = compileOptions(options, CALLER);
  const base = basePathOf(options.basePath ?? '');
  const service = new Service(settings);
  const handler = (request: Request, connection: Connection = {}): Promise<Response> => {
    const { pathname } = urlOf(request);
    const path = pathname.startsWith(base) ? pathname.slice(base.length) : pathname;
    return service.answer({
      request,
      path,
      ip: connection.ip,
      operator: async () => settings.actions?.(request),
    });
  };
  const node = (req: IncomingMessage, res: ServerResponse): void => {
    const isSecure = 'encrypted' in req.socket;
    const answered = webRequest(req, req.url ?? '/', isSecure).then(async (request) => {
      const answer = handler(request, { ip: req.socket.remoteAddress });
      send(await answer.catch(answerOfError), res);
    });
    // The client left while it sent the body, a web request cannot have the method, such as TRACE, or something before the page has answered.
    answered.catch(() => res.destroy());
  };
  return Object.assign(handler, { node, close: () => service.close() });
}

/** The answer to a request that failed, such as one for which `actions` threw. The error is a warning of the process, because visitors must not see it. */
function answerOfError(error: unknown): Response {
  // Any value can be thrown, even one without a text.
  const text = error instanceof Error ? String(error) : inspect(error);
  process.emitWarning(withoutSecrets(`dashboard: a request failed: ${text}`), 'HeadgateWarning');
  return failed({ status: 500, message: 'The request failed. A warning of the server has the cause.' });
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` */
function basePathOf(path: string): string {
  if (typeof path === 'string' && /^(\/[^?#]*)?$/.test(path)) return path.replace(/\/+$/, '');
  throw new HeadgateError('HEADGATE_INVALID_OPTION', "basePath: pass a path such as '/admin/limits'.");
}
