import type { NextFunction, Request, RequestHandler, Response } from 'express';
import type { Duration } from '../../common/duration.js';
import type { Store as HeadgateStore } from '../../contract/store.js';

// Names and shapes are those of express-rate-limit, so that programs compile with these types.

/** A value that depends on the request, sync or async. */
export type ValueDeterminingMiddleware<T> = (request: Request, response: Response) => T | Promise<T>;

/** Answers a denied request. */
export type RateLimitExceededEventHandler = (
  request: Request,
  response: Response,
  next: NextFunction,
  optionsUsed: Options,
) => unknown;

/** An option of versions before 7. It no longer exists. */
export type RateLimitReachedEventHandler = (
  request: Request,
  response: Response,
  optionsUsed: Options,
) => void;

export type LoggerFn = (error: unknown, message?: string) => void;

export type Logger = { error: LoggerFn; warn: LoggerFn };

/** What is known of one client. */
export type ClientRateLimitInfo = { totalHits: number; resetTime: Date | undefined };

/** What is known of a client whose quota is in use. */
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
  /** Whether its keys belong to this instance alone. */
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

/** A likely mistake that is checked for. */
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

/** Which validations are on. */
export type EnabledValidations = { [name in ValidationName | 'default']?: boolean };

/** The options of express-rate-limit. */
export type Options = {
  /** Default 60,000 ms. */
  windowMs: number;
  /** Requests per window and client. 0 denies all. Default 5. */
  limit: number | ValueDeterminingMiddleware<number>;
  /** The body of a denial: what `response.send` takes, or a function that returns it. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- handlers read its parts
  message: any;
  /** Default 429. */
  statusCode: number;
  /** Whether the fields `X-RateLimit-*` are sent. Default `true`. */
  legacyHeaders: boolean;
  /** The draft whose fields `RateLimit*` are sent. `true` is `'draft-6'`. Default `false`. */
  standardHeaders: boolean | DraftHeadersVersion;
  /** The policy's name in draft 8. Default `'{limit}-in-{window}'`. */
  identifier: string | ValueDeterminingMiddleware<string>;
  /** The seconds in `Retry-After`. It changes nothing else. Default: the time until the window's end. */
  retryAfter?: number | ValueDeterminingMiddleware<number>;
  /** The property of the request that shows what is left. Default `'rateLimit'`. */
  requestPropertyName: string;
  /** Give the request back if its response was a failure. Default `false`. */
  skipFailedRequests: boolean;
  /** Give the request back if its response was a success. Default `false`. */
  skipSuccessfulRequests: boolean;
  /** Who is limited. Default: the client's address. IPv6 addresses count by their network. */
  keyGenerator: ValueDeterminingMiddleware<string>;
  /** The prefix length by which IPv6 addresses are one client: 1 to 128, or `false` for single addresses. Default 56. */
  ipv6Subnet: number | ValueDeterminingMiddleware<number> | false;
  /** Answers a denied request. Default: `statusCode` with the `message`. */
  handler: RateLimitExceededEventHandler;
  /** Requests that are not limited. Default: none. */
  skip: ValueDeterminingMiddleware<boolean>;
  /** Default: a status below 400. */
  requestWasSuccessful: ValueDeterminingMiddleware<boolean>;
  /** Default: a {@link MemoryStore} of its own. */
  store: Store | LegacyStore;
  /** The misconfigurations that are checked, and logged once. Default: all. */
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
  /** Whether a request passes if the store fails. Default `false`: the request fails. */
  passOnStoreError: boolean;
  /** Default: the console. */
  logger: Logger;
};

/** The options of {@link rateLimit}: those of express-rate-limit, a store of Headgate, `name` and `timeout`. */
export type RateLimitOptions = Partial<Omit<Options, 'store'>> & {
  /** Default: a {@link MemoryStore} of its own. */
  store?: Options['store'] | HeadgateStore;
  /** The quota's scope. Limiters that share one store of Headgate need different names. */
  name?: string;
  /** How long the store may take. Default `'100ms'` for a store of Headgate, `'1s'` for others. */
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
  /** Forgets what a client has used. */
  resetKey: (key: string) => void;
  getKey: (key: string) => Promise<ClientRateLimitInfo | undefined> | ClientRateLimitInfo | undefined;
};
