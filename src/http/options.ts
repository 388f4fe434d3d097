import type { Decision, DeniedDecision } from '../common/decision.js';
import type { Duration } from '../common/duration.js';
import { INLINE_FIELDS, LIMITER_OPTIONS, type CommonOptions } from '../limiter/options.js';
import type { Limiter } from '../limiter/limiter.js';
import type { NoPolicy, StrictPolicies, StrictPolicy } from '../contract/policy.js';
import type { Cost } from '../contract/costs.js';
import type { MaybePromise } from '../contract/store.js';
import type { KeysOption } from './dimension-keys.js';
import type { HeaderDialect } from './headers.js';
import type { ListOption } from './lists.js';

/** A function of the user's. Its request may have a narrower type than the framework's. */
type Callback<Args extends unknown[], Result> = { call(...args: Args): Result }['call'];

/** The policies of a request. */
export type PoliciesOf<Req> = { call(request: Req): MaybePromise<StrictPolicies> }['call'];

/** The options of all HTTP adapters in addition to the policy. */
export interface RequestOptions<Req, Res> extends CommonOptions {
  /**
   * Which of the `tiers` a request has: a name, or a sync or async function of the request. `undefined`: the policies outside the tiers
   * decide. An unknown tier makes the request fail with `HEADGATE_UNKNOWN_TIER`.
   */
  tier?: string | Callback<[request: Req], MaybePromise<string | undefined>>;
  /**
   * Who is limited: a sync or async function of the request that returns any string. `undefined`: policies without `by` do not apply to
   * this request; if there are no others, it is not limited. Default: the client's address by the framework's settings; for IPv6, the
   * address' network (`ipv6Subnet`).
   */
  keyGenerator?: Callback<[request: Req], MaybePromise<string | undefined>>;
  /**
   * For policies with `by`: a sync or async function per dimension that returns the request's key: `{ account: (req) => req.user?.id }`.
   * `undefined`: policies by that dimension do not apply to the request.
   */
  keys?: KeysOption<Req>;
  /**
   * Who the client is, for the default key, the lists and bans, instead of the framework's address: a sync or async function of the request
   * that returns an IP address, such as a header that your proxy writes anew. `undefined` or null: the request has no address, so it fails
   * with `HEADGATE_NO_CLIENT_IP` where the default key needs one, and is on no list of addresses.
   */
  clientIp?: Callback<[request: Req], MaybePromise<string | null | undefined>>;
  /** For the default key: IPv6 addresses with the same prefix of this length count as one client: 1 to 128, default 56. */
  ipv6Subnet?: number;
  /**
   * Whole units, 0 (only look) to 1e12: a number, or such numbers by policy name, as in `{ tokens: 800 }` (a policy that is not named costs
   * 1), or a sync or async function of the request that returns either. Default 1.
   */
  cost?: Cost | Callback<[request: Req], MaybePromise<Cost>>;
  /**
   * How long a request that is denied waits in line instead, in order of arrival by key: ms or `'10s'`, up to 366 days. At most
   * `maxWaitingPerKey` of a key wait, and `maxWaiting` of all: the next one gets 503. Who is not admitted in time gets `statusCode`, at once
   * if that is certain. A client that leaves loses its place. Default: nobody waits. A denial of who waits counts neither as an attempt nor
   * towards a ban.
   */
  wait?: Duration;
  /** Whether a request is not limited at all. Sync or async. */
  skip?: Callback<[request: Req], MaybePromise<boolean>>;
  /** Who is never limited. */
  allowList?: ListOption<Req>;
  /** Who is always denied, with 403. It takes precedence over the `allowList`. */
  denyList?: ListOption<Req>;
  /**
   * The header fields that tell clients their quota. Default `['draft-6', 'draft-11']`. In any case, denials have `Retry-After` if waiting
   * helps.
   */
  headers?: HeaderDialect | readonly HeaderDialect[] | false;
  /**
   * Tells clients by which key each policy counts them, as the parameter `pk` of draft-11. The key is hashed with this secret of at least
   * 16 characters, which must be the same in all processes. `true`: use a secret of this process; only possible without `store` and
   * `limiter`. `false` (default), or `undefined` as from a missing environment variable: clients are not told.
   */
  partitionKey?: string | boolean;
  /** The status of a denial: 400 to 599, default 429. Denials by a list always have 403, and denials for a failed store 503. */
  statusCode?: number;
  /**
   * Spreads clients that are told the same moment: the `Retry-After` of each denial is later by a random number of whole seconds, up to
   * this, and never earlier than true. A second to 366 days: ms or `'30s'`. A wait that is shorter is at most doubled. The decision and
   * all other fields stay exact. Default: none.
   */
  jitter?: Duration;
  /** Answers denied requests instead of Headgate. Status and headers are already set. */
  handler?: Callback<[request: Req, response: Res, decision: DeniedDecision], unknown>;
  /** Give the cost back if the response was a success. Default `false`. */
  skipSuccessfulRequests?: boolean;
  /** Give the cost back if the response was a failure. Default `false`. */
  skipFailedRequests?: boolean;
  /**
   * Give the cost back if the response was cut off before it was sent completely, which is neither a success nor a failure. Default
   * `false`, because clients could otherwise escape the limit by disconnecting early.
   */
  refundAborted?: boolean;
  /**
   * How long the slots of a concurrency policy are renewed while a response is being sent: ms or `'12h'`, up to 366 days. After that they
   * end with their `lease`. Default `'24h'`.
   */
  renewFor?: Duration;
  /** Whether a completed response was a success. Sync or async. Default: a status below 400. */
  requestWasSuccessful?: Callback<[request: Req, response: Res], MaybePromise<boolean>>;
  /** Receives every decision, for logs and metrics. An error that it throws is reported as a process warning. */
  onDecision?: Callback<[decision: Decision, request: Req], void>;
}

/** The policies of an adapter. */
export interface RequestPolicies<Req> {
  /**
   * The policies, or a sync or async function of the request. Use a function only for policies that are not known at the start. For known
   * ones, use `tiers`. State belongs to a policy's name, algorithm and window, so a client whose limit changes keeps its charges. A memory
   * store keeps the state of 1,000 different policies at a time. Never derive policies from what a client sends.
   */
  policies: StrictPolicies | PoliciesOf<Req>;
  limiter?: undefined;
}

/** A limiter in place of the options that make one. */
export type GivenLimiter = {
  [Option in Exclude<keyof CommonOptions, 'enabled' | 'warnings'>]?: undefined;
} & {
  /** A limiter made by `createLimiter`. It replaces the policy, and all other options that make a limiter. */
  limiter: Limiter;
  policies?: undefined;
};

/** No quota is given: it is 1,000 requests a minute. */
export interface NoQuota {
  policies?: undefined;
  limiter?: undefined;
}

/** The options of an HTTP adapter: a policy inline, `policies`, or a `limiter`. Without any of these: 1,000 requests a minute. */
export type HttpOptions<Req, Res> = RequestOptions<Req, Res> &
  ((StrictPolicy & NoQuota) | (NoPolicy & (RequestPolicies<Req> | GivenLimiter | NoQuota)));

/** Options that make a limiter: those of `createLimiter`, except for those that the adapters handle themselves. */
export const OF_LIMITER: readonly string[] = [
  ...LIMITER_OPTIONS.filter((option) => !['onDecision', 'enabled', 'warnings'].includes(option)),
  ...INLINE_FIELDS,
];

/** Options that determine the quota. */
const OF_QUOTA: readonly string[] = ['limiter', 'policies', 'tiers', ...INLINE_FIELDS];

/** The options that all adapters have, for `checkShape`. */
export const HTTP_OPTIONS: readonly string[] = [
  ...OF_LIMITER,
  'limiter',
  'tier',
  'keyGenerator',
  'clientIp',
  'keys',
  'ipv6Subnet',
  'cost',
  'wait',
  'skip',
  'allowList',
  'denyList',
  'headers',
  'partitionKey',
  'statusCode',
  'jitter',
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

/**
 * The options without those that are undefined, for which defaults then stand in. What determines the quota stays, because a setting that
 * is missing must be an error, and not the default quota.
 */
function definedOptions(options: object): object {
  const given = Object.entries(options).filter(
    ([option, value]) => value !== undefined || OF_QUOTA.includes(option),
  );
  return Object.fromEntries(given);
}

/** Whether the options determine the quota. */
export function hasQuota(options: object): boolean {
  return OF_QUOTA.some((option) => option in options);
}

/** Whether the options make a limiter, or contain one. */
export function bringsLimiter(options: object): boolean {
  const given = definedOptions(options);
  return 'limiter' in given || OF_LIMITER.some((option) => option in given);
}

/** The options of a plugin or a module that may be meant for the limiters of routes alone, even beside a quota of its own. */
export const FOR_ROUTES: ReadonlySet<string> = new Set(['keys', 'maxWaiting', 'maxWaitingPerKey']);

/** The names of those defaults that stand in for options. */
export function namesOfDefaults(options: object, defaults: object): ReadonlySet<string> {
  return new Set(Object.keys(defaults).filter((name) => options[name as keyof typeof options] === undefined));
}

/** The options with `defaults` for those that are left out. The name, and defaults that do not fit the options' quota, are not used. */
export function withDefaults<T extends { limiter?: unknown }>(options: T, defaults: object): T {
  const without = new Set(['name']);
  if (hasQuota(options)) for (const option of [...OF_QUOTA, 'tier']) without.add(option);
  if (options.limiter !== undefined) for (const option of OF_LIMITER) without.add(option);
  return {
    ...Object.fromEntries(Object.entries(defaults).filter(([option]) => !without.has(option))),
    ...definedOptions(options),
  } as T;
}
