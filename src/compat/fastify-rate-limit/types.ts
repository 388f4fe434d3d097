import type { FastifyRequest, RouteOptions } from 'fastify';
import type { RedisClient } from '../../stores/redis/redis.js';

/** The argument of a custom store's constructor: all options with their defaults, and `timeWindow` in milliseconds. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- each store declares what it takes
export interface FastifyRateLimitOptions {}

/** The context that `errorResponseBuilder` gets. */
export interface errorResponseBuilderContext {
  /** 429, or 403 after `ban` denials. */
  statusCode: number;
  /** Whether it is 403. */
  ban: boolean;
  /** In words: `'1 minute'`. */
  after: string;
  /** Requests per window. */
  max: number;
  /** The rest of the window, milliseconds. */
  ttl: number;
}

/** The answer of a store: the requests in this window, with denied ones, and the rest of the window in milliseconds. */
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

/** A custom store. Stores of Headgate are of another kind: pass `redis`, or migrate to `headgate/fastify`. */
export interface FastifyRateLimitStore {
  /** Counts a request. */
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
  /** The store of a route. */
  child(routeOptions: RouteOptions & { path: string; prefix: string }): FastifyRateLimitStore;
}

/** The header fields, with and without `enableDraftSpec`. */
export type QuotaField = `${'' | 'x-'}ratelimit-${'limit' | 'remaining' | 'reset'}`;

/** The options of `fastify.createRateLimit`. Missing ones come from the plugin. */
export interface CreateRateLimitOptions {
  /** A custom store. Default: memory, or the plugin's `redis`. */
  store?: FastifyRateLimitStoreCtor;
  /** Whether a request passes if the store fails. Default `false`: the request fails with the store's error. */
  skipOnError?: boolean;
  /** Requests per window and client. Default 1000. */
  max?: number | ((req: FastifyRequest, key: string) => number | Promise<number>);
  /** Milliseconds, or `'1 minute'`: 1 ms to 366 days. Default one minute. */
  timeWindow?: number | string | ((req: FastifyRequest, key: string) => number | Promise<number>);
  /** Keys that are not limited. */
  allowList?: string[] | ((req: FastifyRequest, key: string) => boolean | Promise<boolean>);
  /** Who is limited. Default: the client's address. IPv6 addresses count by their network. */
  keyGenerator?: (req: FastifyRequest) => string | number | Promise<string | number>;
  /** The prefix length by which IPv6 addresses are one client. Default 64. */
  ipv6Subnet?: number;
  /** How many 429 answers a client gets in a window before 403. Default -1: never 403. */
  ban?: number;
}

/** When a request is limited. */
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
  /** Makes the error that a denied request fails with. */
  errorResponseBuilder?: (req: FastifyRequest, context: errorResponseBuilderContext) => object;
  /** The fields `ratelimit-*` in place of `x-ratelimit-*`. Default `false`. */
  enableDraftSpec?: boolean;
  /** The fields of a denied request. `false` leaves a field out. */
  addHeaders?: { [field in QuotaField | 'retry-after']?: boolean };
  /** The fields of an admitted request. `false` leaves a field out. */
  addHeadersOnExceeding?: { [field in QuotaField]?: boolean };
  /** Called for each request that is counted and admitted. */
  onExceeding?: (req: FastifyRequest, key: string) => void;
  /** Called for each request that is denied. */
  onExceeded?: (req: FastifyRequest, key: string) => void;
  /** Called for each request that is answered with 403, after `ban` denials. */
  onBanReach?: (req: FastifyRequest, key: string) => void;
}

/** The options of the plugin: its own limit, and the defaults for its routes' limits. */
export interface RateLimitPluginOptions extends RateLimitOptions {
  /** Limit every route that has no `config.rateLimit`. Default `true`. */
  global?: boolean;
  /** A client of Redis or Valkey. Default: memory. */
  redis?: RedisClient | null;
  /** The beginning of all Redis keys. Default `'fastify-rate-limit-'`. */
  nameSpace?: string;
}

/** The result of a limiter of `fastify.createRateLimit`. */
export type RateLimitResult =
  | {
      /** Whether the key is on the `allowList`: then nothing was counted. */
      isAllowed: true;
      /** Who it is. */
      key: string;
    }
  | {
      /** Whether the key is on the `allowList`. */
      isAllowed: false;
      /** Who is limited. */
      key: string;
      /** Requests per window. */
      max: number;
      /** The length of the window, milliseconds. */
      timeWindow: number;
      /** Requests that are left in this window. */
      remaining: number;
      /** The rest of the window, milliseconds. */
      ttl: number;
      /** The rest of the window, seconds. */
      ttlInSeconds: number;
      /** Whether the request is one too many. */
      isExceeded: boolean;
      /** Whether it is to be answered with 403. */
      isBanned: boolean;
    };
