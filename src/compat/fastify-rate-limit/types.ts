import type { FastifyRequest, RouteOptions } from 'fastify';
import type { RedisClient } from '../../stores/redis.js';

/** What a store of one's own is constructed with: all options, with their defaults, and `timeWindow` in milliseconds. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- what a store takes is its own affair
export interface FastifyRateLimitOptions {}

/** What `errorResponseBuilder` is told. */
export interface errorResponseBuilderContext {
  statusCode: number;
  ban: boolean;
  /** In words: `'1 minute'`. */
  after: string;
  max: number;
  /** Milliseconds. */
  ttl: number;
}

/** What a store answers: requests in this window, denied ones included, and its rest in milliseconds. */
export interface Count {
  current: number;
  ttl: number;
}

export interface FastifyRateLimitStoreCtor {
  new (options: FastifyRateLimitOptions): FastifyRateLimitStore;
}

/** A store of one's own. Those of Headgate are not of this kind: pass `redis`, or migrate to `headgate/fastify`. */
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

/** Fields with `enableDraftSpec`, and without. */
export type QuotaField = `${'' | 'x-'}ratelimit-${'limit' | 'remaining' | 'reset'}`;

export interface CreateRateLimitOptions {
  store?: FastifyRateLimitStoreCtor;
  /** Default `false`: what the store fails with, the request fails with. */
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
  /** So many 429s in a window, then 403s. Default -1: never. */
  ban?: number;
}

export type RateLimitHook = 'onRequest' | 'preParsing' | 'preValidation' | 'preHandler';

/** What `config.rateLimit` and `fastify.rateLimit` take. What is missing is as the plugin has it. */
export interface RateLimitOptions extends CreateRateLimitOptions {
  /** Default `'onRequest'`. */
  hook?: RateLimitHook;
  /** The most keys that are kept in memory, at least 100. Default 1,000,000. */
  cache?: number;
  /** A denied request renews the window. */
  continueExceeding?: boolean;
  /** Each denied request doubles the time until the next is admitted. */
  exponentialBackoff?: boolean;
  /** Limits of one group share one count. */
  groupId?: string;
  errorResponseBuilder?: (req: FastifyRequest, context: errorResponseBuilderContext) => object;
  enableDraftSpec?: boolean;
  /** Of a denied request; `false` leaves a field out. */
  addHeaders?: { [field in QuotaField | 'retry-after']?: boolean };
  /** Of an admitted one. */
  addHeadersOnExceeding?: { [field in QuotaField]?: boolean };
  onExceeding?: (req: FastifyRequest, key: string) => void;
  onExceeded?: (req: FastifyRequest, key: string) => void;
  onBanReach?: (req: FastifyRequest, key: string) => void;
}

export interface RateLimitPluginOptions extends RateLimitOptions {
  /** Limit every route that has no `config.rateLimit`. Default `true`. */
  global?: boolean;
  redis?: RedisClient | null;
  /** What all Redis keys begin with. Default `'fastify-rate-limit-'`. */
  nameSpace?: string;
}

/** What a limiter of `fastify.createRateLimit` answers. */
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
