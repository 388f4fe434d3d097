import type { FastifyRequest, RouteOptions } from 'fastify';
import type { RedisClient } from '../../stores/redis/redis.js';

/** The argument of a custom store's constructor: all options with their defaults, and `timeWindow` in milliseconds. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- each store declares its own options
export interface FastifyRateLimitOptions {}

/** The context that `errorResponseBuilder` receives. */
export interface errorResponseBuilderContext {
  /** 429, or 403 after `ban` denials. */
  statusCode: number;
  /** Whether the status is 403. */
  ban: boolean;
  /** In words: `'1 minute'`. */
  after: string;
  /** Requests per window. */
  max: number;
  /** The rest of the window, milliseconds. */
  ttl: number;
}

/** The answer of a store: the number of requests in the current window, including denied requests, and the remaining time in milliseconds. */
export interface Count {
  /** Requests in this window. */
  current: number;
  /** The rest of the window, milliseconds. */
  ttl: number;
}

/** The class of a custom store. */
export interface FastifyRateLimitStoreCtor {
  new (options: FastifyRateLimitOptions): FastifyRateLimitStore;
}

/** A custom store. A store of Headgate does not fit here: pass `redis`, or migrate to `headgate/fastify`. */
export interface FastifyRateLimitStore {
  /** Counts a request. */
  incr(
    key: string,
    callback: (error: Error | null, result?: Count) => void,
    timeWindow: number,
    max: number,
  ): void;
  /** Reads a count without counting. Required for `{ increment: false }`. */
  read?(
    key: string,
    callback: (error: Error | null, result?: Count) => void,
    timeWindow: number,
    max: number,
  ): void;
  /** The store of a route. */
  child(routeOptions: RouteOptions & { path: string; prefix: string }): FastifyRateLimitStore;
}

/** The header fields, with and without `enableDraftSpec`. */
export type QuotaField = `${'' | 'x-'}ratelimit-${'limit' | 'remaining' | 'reset'}`;

/** The options of `fastify.createRateLimit`. Missing options come from the plugin. */
export interface CreateRateLimitOptions {
  /** A custom store. @default memory, or the plugin's `redis` */
  store?: FastifyRateLimitStoreCtor;
  /** Whether a request passes if the store fails. With `false`, the request fails with the store's error. @default false */
  skipOnError?: boolean;
  /** Requests per window and client. @default 1000 */
  max?: number | ((req: FastifyRequest, key: string) => number | Promise<number>);
  /** The window: milliseconds or `'1 minute'`, 1 ms to 366 days. @default 1 minute */
  timeWindow?: number | string | ((req: FastifyRequest, key: string) => number | Promise<number>);
  /** Keys that are not limited. */
  allowList?: string[] | ((req: FastifyRequest, key: string) => boolean | Promise<boolean>);
  /** Returns the key to limit by. IPv6 addresses count by network. @default the client's address */
  keyGenerator?: (req: FastifyRequest) => string | number | Promise<string | number>;
  /** The prefix length by which IPv6 addresses are one client. @default 64 */
  ipv6Subnet?: number;
  /** The number of 429 answers to a client in a window before 403, or -1 for never 403. @default -1 */
  ban?: number;
}

/** The hook that limits a request. */
export type RateLimitHook = 'onRequest' | 'preParsing' | 'preValidation' | 'preHandler';

/** The options of `config.rateLimit` and `fastify.rateLimit`. Missing options come from the plugin. */
export interface RateLimitOptions extends CreateRateLimitOptions {
  /** The hook that limits a request. @default 'onRequest' */
  hook?: RateLimitHook;
  /** The maximum number of keys in memory, at least 100. @default 1,000,000 */
  cache?: number;
  /** Whether a denied request renews the window. @default false */
  continueExceeding?: boolean;
  /** Whether each denied request doubles the time until the next admission. @default false */
  exponentialBackoff?: boolean;
  /** The name of a group of limits that share one count. */
  groupId?: string;
  /** Creates the error of a denied request. */
  errorResponseBuilder?: (req: FastifyRequest, context: errorResponseBuilderContext) => object;
  /** Whether the fields are `ratelimit-*` instead of `x-ratelimit-*`. @default false */
  enableDraftSpec?: boolean;
  /** The fields of a denied request. `false` omits a field. */
  addHeaders?: { [field in QuotaField | 'retry-after']?: boolean };
  /** The fields of an admitted request. `false` omits a field. */
  addHeadersOnExceeding?: { [field in QuotaField]?: boolean };
  /** Called for each request that is counted and admitted. */
  onExceeding?: (req: FastifyRequest, key: string) => void;
  /** Called for each request that is denied. */
  onExceeded?: (req: FastifyRequest, key: string) => void;
  /** Called for each request that is answered with 403, after `ban` denials. */
  onBanReach?: (req: FastifyRequest, key: string) => void;
}

/** The options of the plugin: the plugin's own limit, and the defaults for the limits of routes. */
export interface RateLimitPluginOptions extends RateLimitOptions {
  /** Whether to limit every route without `config.rateLimit`. @default true */
  global?: boolean;
  /** A client of Redis or Valkey. @default memory */
  redis?: RedisClient | null;
  /** The prefix of all Redis keys. @default 'fastify-rate-limit-' */
  nameSpace?: string;
}

/** The result of a limiter of `fastify.createRateLimit`. */
export type RateLimitResult =
  | {
      /** Whether the key is on the `allowList`, in which case the request was not counted. */
      isAllowed: true;
      /** The key on the list. */
      key: string;
    }
  | {
      /** Whether the key is on the `allowList`. */
      isAllowed: false;
      /** The limited key. */
      key: string;
      /** Requests per window. */
      max: number;
      /** The length of the window, milliseconds. */
      timeWindow: number;
      /** The remaining requests in this window. */
      remaining: number;
      /** The rest of the window, milliseconds. */
      ttl: number;
      /** The rest of the window, seconds. */
      ttlInSeconds: number;
      /** Whether the request exceeds the limit. */
      isExceeded: boolean;
      /** Whether the answer should be 403. */
      isBanned: boolean;
    };
