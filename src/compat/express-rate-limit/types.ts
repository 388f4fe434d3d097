import type { NextFunction, Request, RequestHandler, Response } from 'express';
import type { Duration } from '../../common/duration.js';
import type { Store as HeadgateStore } from '../../contract/store.js';

// Names and shapes match express-rate-limit, so that programs compile with these types.

/** A value that depends on the request, sync or async. */
export type ValueDeterminingMiddleware<T> = (request: Request, response: Response) => T | Promise<T>;

/** Answers a denied request. */
export type RateLimitExceededEventHandler = (
  request: Request,
  response: Response,
  next: NextFunction,
  optionsUsed: Options,
) => unknown;

/** An option of versions before 7, which no longer exists. */
export type RateLimitReachedEventHandler = (
  request: Request,
  response: Response,
  optionsUsed: Options,
) => void;

export type LoggerFn = (error: unknown, message?: string) => void;

export type Logger = { error: LoggerFn; warn: LoggerFn };

/** The state of one client. */
export type ClientRateLimitInfo = { totalHits: number; resetTime: Date | undefined };

/** The state of a client with a quota in use. */
export type Client = { totalHits: number; resetTime: Date };

export type IncrementResponse = ClientRateLimitInfo;

export type IncrementCallback = (
  error: Error | undefined,
  totalHits: number,
  resetTime: Date | undefined,
) => void;

/** The store interface of express-rate-limit. */
export type Store = {
  /** Called once, when the limiter is made. */
  init?: (options: Options) => void | Promise<void>;
  get?: (key: string) => Promise<ClientRateLimitInfo | undefined> | ClientRateLimitInfo | undefined;
  increment: (key: string) => Promise<IncrementResponse> | IncrementResponse;
  decrement: (key: string) => Promise<void> | void;
  resetKey: (key: string) => Promise<void> | void;
  resetAll?: () => Promise<void> | void;
  shutdown?: () => Promise<void> | void;
  /** Whether the keys belong to this instance alone. */
  localKeys?: boolean;
  prefix?: string;
};

/** The store interface of version 5 and before. */
export type LegacyStore = {
  incr: (key: string, callback: IncrementCallback) => void;
  decrement: (key: string) => void;
  resetKey: (key: string) => void;
  resetAll?: () => void;
};

export type DraftHeadersVersion = 'draft-6' | 'draft-7' | 'draft-8';

/** A kind of likely mistake that is checked. */
export type ValidationName =
  | 'ip'
  | 'trustProxy'
  | 'xForwardedForHeader'
  | 'forwardedHeader'
  | 'positiveHits'
  | 'unsharedStore'
  | 'singleCount'
  | 'limit'
  | 'draftPolliHeaders'
  | 'onLimitReached'
  | 'headersDraftVersion'
  | 'headersResetTime'
  | 'knownOptions'
  | 'validationsConfig'
  | 'creationStack'
  | 'ipv6Subnet'
  | 'ipv6SubnetOrKeyGenerator'
  | 'keyGeneratorIpFallback'
  | 'windowMs';

/** The validations that are on. */
export type EnabledValidations = { [name in ValidationName | 'default']?: boolean };

/** The options of express-rate-limit. */
export type Options = {
  /** The window, ms. @default 60,000 (a minute) */
  windowMs: number;
  /** Requests per window and client. 0 denies all. @default 5 */
  limit: number | ValueDeterminingMiddleware<number>;
  /** The body of a denial: an argument of `response.send`, or a function that returns it. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- handlers read its parts
  message: any;
  /** The status of a denial. @default 429 */
  statusCode: number;
  /** Whether the fields `X-RateLimit-*` are sent. @default true */
  legacyHeaders: boolean;
  /** The draft of the fields `RateLimit*`, or `false` for none. `true` is `'draft-6'`. @default false */
  standardHeaders: boolean | DraftHeadersVersion;
  /** The policy's name in draft 8. @default '{limit}-in-{window}' */
  identifier: string | ValueDeterminingMiddleware<string>;
  /** The seconds in `Retry-After`, without any other effect. @default the time until the window's end */
  retryAfter?: number | ValueDeterminingMiddleware<number>;
  /** The name of the request's property with the client's quota. @default 'rateLimit' */
  requestPropertyName: string;
  /** Refund the request after a failed response. @default false */
  skipFailedRequests: boolean;
  /** Refund the request after a successful response. @default false */
  skipSuccessfulRequests: boolean;
  /** Returns the key to limit by. IPv6 addresses count by network. @default the client's address */
  keyGenerator: ValueDeterminingMiddleware<string>;
  /** The prefix length by which IPv6 addresses are one client: 1 to 128, or `false` for single addresses. @default 56 */
  ipv6Subnet: number | ValueDeterminingMiddleware<number> | false;
  /** Answers a denied request. @default `statusCode` with the `message` */
  handler: RateLimitExceededEventHandler;
  /** Whether to exempt a request from limiting. @default no request */
  skip: ValueDeterminingMiddleware<boolean>;
  /** Whether a completed response was a success. @default a status below 400 */
  requestWasSuccessful: ValueDeterminingMiddleware<boolean>;
  /** The store of the counts. @default a separate {@link MemoryStore} */
  store: Store | LegacyStore;
  /** The misconfigurations to check, and to log once. @default all */
  validate: boolean | EnabledValidations;
  /**
   * The old name of `legacyHeaders`.
   *
   * @deprecated since version 6 of express-rate-limit
   */
  headers?: boolean;
  /**
   * The old name of `limit`.
   *
   * @deprecated since version 7 of express-rate-limit
   */
  max?: number | ValueDeterminingMiddleware<number>;
  /** Whether a request passes if the store fails. With `false`, the request fails. @default false */
  passOnStoreError: boolean;
  /** The destination of errors and warnings. @default the console */
  logger: Logger;
};

/** The options of {@link rateLimit}: those of express-rate-limit, a store of Headgate, `name` and `timeout`. */
export type RateLimitOptions = Partial<Omit<Options, 'store'>> & {
  /** The store of the counts. @default a separate {@link MemoryStore} */
  store?: Options['store'] | HeadgateStore;
  /** The quota's scope. Limiters on the same store of Headgate need different names. */
  name?: string;
  /** The store's time limit. @default '100ms' for a store of Headgate, '1s' for other stores */
  timeout?: Duration;
};

/** The quota that a request shows. */
export type RateLimitInfo = {
  limit: number;
  used: number;
  remaining: number;
  resetTime: Date | undefined;
  key: string;
};

export type AugmentedRequest = Request & { [key: string]: RateLimitInfo };

/** The middleware. */
export type RateLimitRequestHandler = RequestHandler & {
  /** Resets a client's count. */
  resetKey: (key: string) => void;
  getKey: (key: string) => Promise<ClientRateLimitInfo | undefined> | ClientRateLimitInfo | undefined;
};
