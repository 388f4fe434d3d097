/**
 * The dashboard for Express 4 and 5.
 *
 * @module
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { NextFunction, Request } from 'express';
import { send, webRequest } from './node.js';
import { compileOptions, type DashboardOptions } from './options.js';
import { Service } from './service.js';

export type { DashboardOptions, Operator } from './options.js';

/** The middleware that {@link dashboard} returns. */
export interface DashboardMiddleware {
  (req: IncomingMessage, res: ServerResponse, next: NextFunction): void;
  /** Closes a file that the dashboard opened. */
  close(): Promise<void>;
}

/** The path of the page is that of the mount, so there is no option `basePath`. */
const CALLER = {
  name: 'dashboard',
  example:
    "app.use('/admin/limits', requireAdmin, dashboard({ store: redisStore(redis), actions: (req) => ({ by: req.user.email }) }))",
};

/**
 * Creates the live page as middleware of Express 4 and 5. Put your authentication before it.
 *
 * @example
 * app.use('/admin/limits', requireAdmin, dashboard({ store, actions: (req) => ({ by: req.user.email }) }))
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, and as `createAdmin`
 */
export function dashboard<Req extends Request = Request>(
  options: DashboardOptions<Req>,
): DashboardMiddleware {
  const settings = compileOptions(options, CALLER);
  const service = new Service(settings);
  const answer = async (req: Request, res: ServerResponse): Promise<void> => {
    const request = await webRequest(req, req.originalUrl, req.secure);
    const response = await service.answer({
      request,
      path: req.path,
      // Not `req.ip`, which a client may set if Express trusts a proxy.
      ip: req.socket.remoteAddress,
      operator: async () => settings.actions?.(req as Req),
    });
    send(response, res);
  };
  const middleware = (req: IncomingMessage, res: ServerResponse, next: NextFunction): void =>
    void answer(req as Request, res).catch(next);
  return Object.assign(middleware, { close: () => service.close() });
}

export default dashboard;
