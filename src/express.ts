import type { Request, RequestHandler, Response } from 'express';
import type { Decision } from './decision.js';
import { Flow, type Framework } from './http/flow.js';
import { compileOptions, HTTP_OPTIONS, type HttpOptions } from './http/options.js';
import { checkShape } from './validate.js';

export type { HeaderDialect } from './http/headers.js';

/** What {@link rateLimit} takes. */
export type RateLimitOptions = HttpOptions<Request, Response>;

declare global {
  // eslint-disable-next-line @typescript-eslint/no-namespace -- how Express' types are extended
  namespace Express {
    interface Request {
      /** The decision of the last limiter that this request has passed. */
      rateLimit?: Decision;
    }
  }
}

const framework: Framework<Request, Response> = {
  ip: (req) => req.ip,
  raw: (res) => res,
  getHeader: (res, name) => res.getHeader(name),
  setHeader: (res, name, value) => void res.setHeader(name, value),
  setStatus: (res, status) => void (res.statusCode = status),
  // Not by res.send: an ETag of a denial is of no use.
  send: (res, status, body) => {
    res.writeHead(status, { 'Content-Type': 'application/problem+json', 'Content-Length': body.length });
    res.end(body);
  },
};

/**
 * Middleware for Express 4 and 5: for `app.use`, for a router, for single routes. Several on one request are decided one after
 * the other; what a later one denies, the earlier ones don't charge.
 *
 * @example
 * app.use(rateLimit({ limit: 100, window: '1m' }))
 * app.post('/login', rateLimit({ name: 'login', store, limit: 5, window: '15m', keyGenerator: (req) => req.body.email }), login)
 *
 * @throws HeadgateError as `createLimiter`; a request fails with `HEADGATE_NO_CLIENT_IP`, `HEADGATE_INVALID_KEY`,
 * `HEADGATE_INVALID_COST`, what a callback throws, or what the store fails with under `onStoreError: 'throw'`
 */
export function rateLimit(options: RateLimitOptions): RequestHandler {
  checkShape('rateLimit', options, HTTP_OPTIONS);
  const flow = new Flow(framework, compileOptions(options));
  return (req, res, next) => flow.handle(req, res, next);
}

export default rateLimit;
