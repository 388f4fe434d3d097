import type { Decision, DeniedDecision } from '../common/decision.js';
import type { Duration } from '../common/duration.js';
import { INLINE_FIELDS, LIMITER_OPTIONS, type CommonOptions } from '../limiter/options.js';
import type { Limiter } from '../limiter/limiter.js';
import type { NoPolicy, StrictPolicies, StrictPolicy } from '../contract/policy.js';
import type { MaybePromise } from '../contract/store.js';
import type { KeysOption } from './dimension-keys.js';
import type { HeaderDialect } from './headers.js';
import type { ListOption } from './lists.js';

/** A function of the user's: it may ask for a request of a type that is narrower than the framework's. */
type Callback<Args extends unknown[], Result> = { call(...args: Args): Result }['call'];

/** The policies of a request. */
export type PoliciesOf<Req> = { call(request: Req): MaybePromise<StrictPolicies> }['call'];

/** What all HTTP adapters take besides the policy. */
export interface RequestOptions<Req, Res> extends CommonOptions {
  /**
   * Which of the `tiers` a request has: a name, or a sync or async function of the request. `undefined`: the policies beside the tiers
   * decide. An unknown tier fails the request with `HEADGATE_UNKNOWN_TIER`.
   */
  tier?: string | Callback<[request: Req], MaybePromise<string | undefined>>;
  /**
   * Who is limited: any string. `undefined`: policies without `by` do not apply to this request. If there are no others, it is not
   * limited. Sync or async. Default: the client's address as the framework knows it, an IPv6 address by its network (`ipv6Subnet`).
   */
  keyGenerator?: Callback<[request: Req], MaybePromise<string | undefined>>;
  /**
   * For policies with `by`: a function for each dimension, which returns the request's key: `{ account: (req) => req.user?.id }`.
   * `undefined`: policies by that dimension do not apply to the request. Sync or async.
   */
  keys?: KeysOption<Req>;
  /** The prefix length by which IPv6 addresses are one client, for the default key: 1 to 128, default 56. */
  ipv6Subnet?: number;
  /** Whole units, 0 (only look) to 1e12: a number, or a sync or async function of the request. Default 1. */
  cost?: number | Callback<[request: Req], MaybePromise<number>>;
  /** Requests that are not limited at all. Sync or async. */
  skip?: Callback<[request: Req], MaybePromise<boolean>>;
  /** Who is never limited. */
  allowList?: ListOption<Req>;
  /** Who is always denied, with 403. It has precedence over the `allowList`. */
  denyList?: ListOption<Req>;
  /**
   * The fields that tell the client its quota. Default `['draft-6', 'draft-11']`. Whatever it is, denials have `Retry-After` if waiting
   * helps.
   */
  headers?: HeaderDialect | readonly HeaderDialect[] | false;
  /**
   * Tells clients by which key each policy counts them, as the parameter `pk` of draft-11. The key is hashed with this secret of 16
   * characters or more, which is the same in all processes. `true`: with a secret of this process, if there is no `store` and no
   * `limiter`. Default `false`: clients are told nothing. `undefined`, as when a variable of the environment is missing, means the same.
   */
  partitionKey?: string | boolean;
  /** The status of a denial: 400 to 599, default 429. (What a list denies is 403, what the store's failure denies is 503.) */
  statusCode?: number;
  /** Answers denied requests in place of Headgate. Status and headers are set already. */
  handler?: Callback<[request: Req, response: Res, decision: DeniedDecision], unknown>;
  /** Give the cost back once the response was a success. Default `false`. */
  skipSuccessfulRequests?: boolean;
  /** Give the cost back once the response was a failure. Default `false`. */
  skipFailedRequests?: boolean;
  /**
   * Give the cost back if the response was cut off before it was sent whole, which is neither a success nor a failure. Default `false`:
   * otherwise clients could avoid the limit by disconnecting early.
   */
  refundAborted?: boolean;
  /**
   * How long the slots of a concurrency policy are renewed for a response that is still being sent: ms or `'12h'`, up to 366
   * days. After that they end with their `lease`. Default `'24h'`.
   */
  renewFor?: Duration;
  /** What counts as a success of a completed response. Sync or async. Default: a status below 400. */
  requestWasSuccessful?: Callback<[request: Req, response: Res], MaybePromise<boolean>>;
  /** Every decision, for logs and metrics. What it throws is reported as a process warning. */
  onDecision?: Callback<[decision: Decision, request: Req], void>;
}

/** Policies of an adapter. */
export interface RequestPolicies<Req> {
  /**
   * The policies, or a sync or async function of the request. A function is for policies that are not known at the start: for those that
   * are, write `tiers`. State belongs to a policy's name, algorithm and window, so a client whose limit changes keeps what it was charged.
   * A memory store keeps the state of 1,000 different policies at a time. Never make policies of what a client sends.
   */
  policies: StrictPolicies | PoliciesOf<Req>;
  limiter?: undefined;
}

/** A limiter in place of the options that make one. */
export type GivenLimiter = {
  [Option in Exclude<keyof CommonOptions, 'enabled' | 'warnings'>]?: undefined;
} & {
  /** A limiter made by `createLimiter`, in place of a policy and of everything else that makes one. */
  limiter: Limiter;
  policies?: undefined;
};

/** Nothing on the quota: 1,000 requests a minute. */
export interface NoQuota {
  policies?: undefined;
  limiter?: undefined;
}

/** The options of an HTTP adapter: a policy inline, or `policies`, or a `limiter`; none of them is 1,000 requests a minute. */
export type HttpOptions<Req, Res> = RequestOptions<Req, Res> &
  ((StrictPolicy & NoQuota) | (NoPolicy & (RequestPolicies<Req> | GivenLimiter | NoQuota)));

/** Options that make a limiter: what `createLimiter` takes, but for those that adapters heed themselves. */
export const OF_LIMITER: readonly string[] = [
  ...LIMITER_OPTIONS.filter((option) => !['onDecision', 'enabled', 'warnings'].includes(option)),
  ...INLINE_FIELDS,
];

/** Options that say what the quota is. */
const OF_QUOTA: readonly string[] = ['limiter', 'policies', 'tiers', ...INLINE_FIELDS];

/** All options that adapters have in common, for `checkShape`. */
export const HTTP_OPTIONS: readonly string[] = [
  ...OF_LIMITER,
  'limiter',
  'tier',
  'keyGenerator',
  'keys',
  'ipv6Subnet',
  'cost',
  'skip',
  'allowList',
  'denyList',
  'headers',
  'partitionKey',
  'statusCode',
  'handler',
  'skipSuccessfulRequests',
  'skipFailedRequests',
  'refundAborted',
  'renewFor',
  'requestWasSuccessful',
  'enabled',
  'warnings',
  'onDecision',
];

/** Whether the options say what the quota is. */
export function hasQuota(options: object): boolean {
  return OF_QUOTA.some((option) => option in options);
}

/** Whether the options make a limiter, or bring one. */
export function bringsLimiter(options: object): boolean {
  return 'limiter' in options || OF_LIMITER.some((option) => option in options);
}

/** `options`, and for what they leave out `defaults`, except for the name and for what does not fit their quota. */
export function withDefaults<T extends object>(options: T, defaults: object): T {
  const without = new Set(['name']);
  if (hasQuota(options)) for (const option of [...OF_QUOTA, 'tier']) without.add(option);
  if ('limiter' in options) for (const option of OF_LIMITER) without.add(option);
  return {
    ...Object.fromEntries(Object.entries(defaults).filter(([option]) => !without.has(option))),
    ...options,
  };
}
