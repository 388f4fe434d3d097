import type { FastifyRequest, RouteOptions } from 'fastify';
import type { RedisClient } from '../../stores/redis/redis.js';

/** The argument of a custom store's constructor: all options with their defaults, and `timeWindow` in milliseconds. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- each store declares what it takes
export interface FastifyRateLimitOptions {}

/** The context that `errorResponseBuilder` gets. */
export interface errorResponseBuilderContext {
  statusCode: number;
  ban: boolean;
  /** In words: `'1 minute'`. */
  after: string;
  max: number;
  /** Milliseconds. */
  ttl: number;
}

/** The answer of a store: the requests in this window, with denied ones, and the rest of the window in milliseconds. */
export interface Count {
  current: number;
  ttl: number;
}

export interface FastifyRateLimitStoreCtor {
  new (options: FastifyRateLimitOptions): FastifyRateLimitStore;
}

/** A custom store. Stores of Headgate are of another kind: pass `redis`, or migrate to `headgate/fastify`. */
export interface FastifyRateLimitStore {
  incr(
    key: string,
    callback: (error: Error | null, result?: Count) => void,
    timeWindow: number,
    max: number,
  ): void;
  /** `incr` without counting; `{ increment: false }` needs it. */
  read?(
    key: string,
    callback: (error: Error | null, result?: Count) => void,
    timeWindow: number,
    max: number,
  ): void;
  child(routeOptions: RouteOptions & { path: string; prefix: string }): FastifyRateLimitStore;
}

/** The header fields, with and without `enableDraftSpec`. */
export type QuotaField = `${'' | 'x-'}ratelimit-${'limit' | 'remaining' | 'reset'}`;

export interface CreateRateLimitOptions {
  store?: FastifyRateLimitStoreCtor;
  /** Whether a request passes if the store fails. Default `false`: the request fails with the store's error. */
  skipOnError?: boolean;
  /** Default 1000. */
  max?: number | ((req: FastifyRequest, key: string) => number | Promise<number>);
  /** Milliseconds, or `'1 minute'`: 1 ms to 366 days. Default one minute. */
  timeWindow?: number | string | ((req: FastifyRequest, key: string) => number | Promise<number>);
  /** Keys that are not limited. */
  allowList?: string[] | ((req: FastifyRequest, key: string) => boolean | Promise<boolean>);
  keyGenerator?: (req: FastifyRequest) => string | number | Promise<string | number>;
  /** Default 64. */
  ipv6Subnet?: number;
  /** How many 429 answers a client gets in a window before 403. Default -1: never 403. */
  ban?: number;
}

export type RateLimitHook = 'onRequest' | 'preParsing' | 'preValidation' | 'preHandler';

/** The options of `config.rateLimit` and `fastify.rateLimit`. Missing ones come from the plugin. */
export interface RateLimitOptions extends CreateRateLimitOptions {
  /** Default `'onRequest'`. */
  hook?: RateLimitHook;
  /** The most keys in memory, at least 100. Default 1,000,000. */
  cache?: number;
  /** A denied request renews the window. */
  continueExceeding?: boolean;
  /** Each denied request doubles the time until the next is admitted. */
  exponentialBackoff?: boolean;
  /** Limits of one group share one count. */
  groupId?: string;
  errorResponseBuilder?: (req: FastifyRequest, context: errorResponseBuilderContext) => object;
  enableDraftSpec?: boolean;
  /** The fields of a denied request. `false` leaves a field out. */
  addHeaders?: { [field in QuotaField | 'retry-after']?: boolean };
  /** The fields of an admitted request. `false` leaves a field out. */
  addHeadersOnExceeding?: { [field in QuotaField]?: boolean };
  onExceeding?: (req: FastifyRequest, key: string) => void;
  onExceeded?: (req: FastifyRequest, key: string) => void;
  onBanReach?: (req: FastifyRequest, key: string) => void;
}

export interface RateLimitPluginOptions extends RateLimitOptions {
  /** Limit every route that has no `config.rateLimit`. Default `true`. */
  global?: boolean;
  redis?: RedisClient | null;
  /** The beginning of all Redis keys. Default `'fastify-rate-limit-'`. */
  nameSpace?: string;
}

/** The result of a limiter of `fastify.createRateLimit`. */
export type RateLimitResult =
  | { isAllowed: true; key: string }
  | {
      isAllowed: false;
      key: string;
      max: number;
      timeWindow: number;
      remaining: number;
      /** Milliseconds. */
      ttl: number;
      ttlInSeconds: number;
      isExceeded: boolean;
      isBanned: boolean;
    };
