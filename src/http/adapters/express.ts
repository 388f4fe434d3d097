import { IncomingMessage, type ServerResponse } from 'node:http';
import type { NextFunction, Request, Response } from 'express';
import type { Decision } from '../../common/decision.js';
import { HeadgateError } from '../../common/errors.js';
import { oncePer } from '../../common/lazy.js';
import { createFlow } from '../flow.js';
import { expressProxy } from './proxies.js';
import { trails, type Framework, type Trail } from '../framework.js';
import { nodeResponse } from '../node-response.js';
import type { HttpOptions } from '../options.js';
import type { Limiter } from '../../limiter/limiter.js';
import type { Spread } from '../../limiter/options.js';
import type { PolicyText } from '../../contract/policy.js';

export type { HeaderDialect } from '../quota-fields.js';

/** The options of {@link rateLimit}. */
export type RateLimitOptions<Req extends Request = Request, Tier extends string = string> = HttpOptions<
  Req,
  Response,
  Tier
>;

/** The middleware that {@link rateLimit} returns. */
export interface RateLimitHandler {
  // Node's types, because with Express' types the parameters of a route would be inferred from the types of the next handlers.
  (req: IncomingMessage, res: ServerResponse, next: NextFunction): void;
  /** The middleware's limiter. `handler.limiter.reset(key)` resets a key's charges, `handler.limiter.close()` frees the limiter's name. */
  readonly limiter: Limiter;
}

declare global {
  // eslint-disable-next-line @typescript-eslint/no-namespace -- Express' types are extended this way
  namespace Express {
    interface Request {
      /** The decision of the last limiter that the request passed. */
      rateLimit?: Decision;
    }
  }
}

// Express' requests get no new property. Each request has a hidden class of its own, so adding a property takes V8 2 µs, and inline caches
// never match. Shared facts are looked up once, on the common prototype.

/** The trail of requests of other servers. They share a hidden class, so the trail is a property. */
const TRAIL = Symbol('headgate.trail');

interface Limited extends Request {
  [TRAIL]?: Trail;
}

/** `req.rateLimit`, on the common prototype of Express' requests. */
const rateLimitProperty = {
  configurable: true,
  enumerable: true,
  get(this: object): Decision | undefined {
    return trails.get(this)?.decision;
  },
  /** Behaves as if the accessor were a plain property. */
  set(this: object, value: unknown): void {
    const description = { value, configurable: true, enumerable: true, writable: true };
    Object.defineProperty(this, 'rateLimit', description);
  },
};

/** For each prototype, whether its requests are in `trails` and have the accessor above. */
const hasAccessor = oncePer(prepare);

/** Cached, because an app's requests have a single prototype, and most servers have a single app. */
let lastPrototype: object | undefined;
let lastTells = false;

function tells(req: Request): boolean {
  const prototype = (Object.getPrototypeOf(req) ?? Object.prototype) as object;
  if (prototype === lastPrototype) return lastTells;
  lastTells = hasAccessor(prototype);
  lastPrototype = prototype;
  return lastTells;
}

const FOR_FASTIFY =
  "this middleware is for Express. Write fastify.register(rateLimitPlugin), imported from 'headgate/fastify'.";

/** Whether a value is a Fastify instance, as in `register`, or a Fastify request, as in a hook. */
function isFastify(value: object): boolean {
  return 'addHook' in value || 'routeOptions' in value;
}

function misplaced(why: string): HeadgateError {
  return new HeadgateError('HEADGATE_INVALID_ARGUMENT', `rateLimit: ${why}`);
}

/** Defines the accessor, unless another property has the name. Returns false for requests of other servers than Express. */
function prepare(prototype: object): boolean {
  let express: object | undefined;
  let known: PropertyDescriptor | undefined;
  // The app's own prototype, the prototypes of its parent apps, and Express'. Requests in tests may lack such prototypes.
  let link: object | null = prototype;
  for (; link && link !== IncomingMessage.prototype; link = Object.getPrototypeOf(link) as object | null) {
    express = link;
    known ??= Object.getOwnPropertyDescriptor(link, 'rateLimit');
  }
  if (!link || !express) {
    if (isFastify(prototype)) throw misplaced(FOR_FASTIFY);
    return false;
  }
  if (known) return known.get === rateLimitProperty.get;
  return Reflect.defineProperty(express, 'rateLimit', rateLimitProperty);
}

/**
 * Requests of connect, socket.io and plain Node have no `ip`. Like Express without a trusted proxy, this uses the address of the
 * connection.
 */
function addressOf(req: Request): string | undefined {
  return req.ip ?? ('ip' in req ? undefined : (req as IncomingMessage).socket?.remoteAddress);
}

const framework: Framework<Request, Response> = {
  handlerSignature: 'handler(req, res, decision)',
  // A denial is not sent with res.send, because an ETag would be useless.
  ...nodeResponse,
  ip: addressOf,
  proxy: expressProxy,
  trail: (req) => (tells(req) ? trails.get(req) : (req as Limited)[TRAIL]),
  keep: (req: Limited, trail) => {
    const told = tells(req);
    if (told) trails.set(req, trail);
    else req[TRAIL] = trail;
    if (!told || Object.hasOwn(req, 'rateLimit')) req.rateLimit = trail.decision;
  },
};

/**
 * Middleware for Express 4 and 5, for `app.use`, a router, or a single route. Several limiters on one request decide one after the other;
 * if a later limiter denies the request, the earlier limiters do not charge. Without a limit: 1,000 requests a minute per client address
 * (`req.ip`). Servers with requests without `ip`, such as connect and socket.io's `io.engine`, may use the middleware, too, with the
 * address of the connection as the client.
 *
 * @example
 * app.use(rateLimit('100/1m'))
 * app.post('/login', rateLimit({ name: 'login', store, limit: 5, window: '15m', keyGenerator: (req) => req.body.email }), login)
 *
 * @param options the options, or the text of a single policy
 * @throws HeadgateError as `createLimiter`. A request fails with `HEADGATE_NO_CLIENT_IP`, `HEADGATE_INVALID_KEY`, `HEADGATE_INVALID_COST`,
 * the error of a callback, or the store's error under `onStoreError: 'throw'`
 */
export function rateLimit<Req extends Request = Request, Given = never, const Tier extends string = string>(
  options: RateLimitOptions<Req, Tier> | Spread<RateLimitOptions<Req>, Given> | PolicyText = {},
): RateLimitHandler {
  if (options instanceof IncomingMessage) {
    throw misplaced('a request is not an object of options. Call the function: app.use(rateLimit()).');
  }
  if (isFastify(Object(options) as object)) throw misplaced(FOR_FASTIFY);
  const flow = createFlow(framework, options as RateLimitOptions | string, 'rateLimit');
  const handler = (req: Request, res: Response, next: NextFunction) => flow.run(req, res, next);
  return Object.assign(handler, { limiter: flow.limiter }) as RateLimitHandler;
}

export default rateLimit;
