import { checkWeight } from '../features/shares/contract/shares.js';
import type { Decision, DeniedDecision } from '../common/decision.js';
import type { Duration } from '../common/duration.js';
import {
  orFunction,
  boolean,
  dependent,
  duration,
  fn,
  integer,
  optional,
  type OptionTable,
} from '../common/options.js';
import {
  INLINE_FIELDS,
  LIMITER_OPTIONS,
  LIMITER_TABLE,
  type CommonOptions,
  type InlinePolicy,
} from '../limiter/options.js';
import type { TiersWith } from '../limiter/tiers.js';
import type { Limiter } from '../limiter/limiter.js';
import type { NoPolicy, StrictPolicies, StrictPolicy } from '../contract/policy.js';
import { checkCosts, UNITS, type Cost } from '../contract/costs.js';
import { checkInteger, MAX_UNITS } from '../common/validate.js';
import type { MaybePromise } from '../contract/store.js';
import { DEFAULT_SUBNET } from './client-key.js';
import { compileKeys, type KeysOption } from './dimension-keys.js';
import { DEFAULT_DIALECTS, type HeaderDialect } from './quota-fields.js';
import { compileList, type List, type ListOption } from './lists.js';

/** A user's callback. Its request may have a narrower type than the framework's. */
type Callback<Args extends unknown[], Result> = { call(...args: Args): Result }['call'];

/** A function that returns the policies of a request. */
export type PoliciesOf<Req> = { call(request: Req): MaybePromise<StrictPolicies> }['call'];

/** The options of all HTTP adapters in addition to the policy. */
export type RequestOptions<Req, Res, Tier extends string = string> = Omit<CommonOptions, 'tiers'> & {
  /**
   * Named sets of policies: `{ free: '100/1m', pro: '1000/1m' }`. Each request chooses one. Policies outside the tiers are for
   * requests without a tier.
   */
  tiers?: TiersWith<Tier> | undefined;
  /**
   * The request's tier in `tiers`. A sync or async function of the request returns its name. `undefined`: the policies
   * outside the tiers decide. For an unknown tier the request fails with `HEADGATE_UNKNOWN_TIER`.
   */
  tier?: Tier | Callback<[request: Req], MaybePromise<Tier | undefined>> | undefined;
  /**
   * Returns the key to limit by. It may be async. Any string is a key. `undefined`: policies without `by` do not
   * apply to this request; if the limiter has no other policies, the request is not limited.
   *
   * @default the client's address; of IPv6, its network
   */
  keyGenerator?: Callback<[request: Req], MaybePromise<string | undefined>> | undefined;
  /**
   * Returns the request's key for each dimension in the policies' `by`: `{ account: (req) => req.user?.id }`. Each function is sync or
   * async. `undefined`: policies by the dimension do not apply to the request.
   */
  keys?: KeysOption<Req> | undefined;
  /**
   * Returns the client's IP address, for default keys and lists. It may be async. It replaces the framework's
   * address, for example to read a header that your proxy overwrites. `undefined` or null: the request has no address, so the
   * request is not on any list of addresses, and fails with `HEADGATE_NO_CLIENT_IP` if the default key needs an address.
   */
  clientIp?: Callback<[request: Req], MaybePromise<string | null | undefined>> | undefined;
  /** The prefix length of IPv6 keys, 1 to 128. Addresses with the same prefix count as one client. @default 56 */
  ipv6Subnet?: number | undefined;
  /**
   * The cost of a request in units. A whole number from 0 (charges nothing) to 1e12, or an object of numbers by policy name, as in `{
   * tokens: 800 }` (policies without an entry cost 1), or a sync or async function of the request that returns either. @default 1
   */
  cost?: Cost | Callback<[request: Req], MaybePromise<Cost>> | undefined;
  /**
   * The weight of the request's tenant in `share`: a whole number from 1 to 1,000, or a sync or async function of the request.
   * @default the policy's weight
   */
  weight?: number | Callback<[request: Req], MaybePromise<number>> | undefined;
  /**
   * Returns the request's id of 1 to 255 characters. It may be async. A request whose id was charged gets the same
   * decision again, and is not charged, in any process, at most `repeats` times. Return a header, such as `Idempotency-Key`, only after you have
   * verified that your service made or knows the id: otherwise a client sends different requests with one id, and most are not charged. Any other
   * value, and an id that is too long: the request has no id. `idsFor` sets how long ids are remembered. Cannot be combined with `wait`.
   */
  requestId?: Callback<[request: Req], MaybePromise<string | null | undefined>> | undefined;
  /**
   * The time limit for a denied request to wait in line: ms or `'10s'`, up to 366 days. If
   * `maxWaitingPerKey` requests of a key or `maxWaiting` requests in all already wait, the next request gets 503. A request that is not
   * admitted in time gets `statusCode`: at once if the quota returns later, unless the limiter refunds requests (`skipFailedRequests`,
   * `skipSuccessfulRequests`). A client that leaves loses its place. The denial of a waiting request does not count as an attempt, nor towards a ban.
   *
   * @default requests do not wait
   */
  wait?: Duration | undefined;
  /** Whether to exempt a request from limiting. It may be async. */
  skip?: Callback<[request: Req], MaybePromise<boolean>> | undefined;
  /** Clients that are never limited. */
  allowList?: ListOption<Req> | undefined;
  /** Clients that are always denied, with 403. Takes precedence over the `allowList`. */
  denyList?: ListOption<Req> | undefined;
  /**
   * The formats of the quota's header fields. Every denial has `Retry-After`, if waiting helps.
   *
   * @default ['draft-6', 'draft-11']
   */
  headers?: HeaderDialect | readonly HeaderDialect[] | false | undefined;
  /**
   * Shows the counted key, as `pk` of draft-11. The key is hashed with this secret of at least 16 characters,
   * which must be the same in all processes. `true` uses a secret of this process and is possible only without `store` and `limiter`.
   * `undefined`, as from a missing environment variable, is the same as `false`.
   *
   * @default false
   */
  partitionKey?: string | boolean | undefined;
  /** The status of a denial, 400 to 599. Denials by a list always have 403, denials for a failed store 503. @default 429 */
  statusCode?: number | undefined;
  /**
   * Randomly delays `Retry-After` by up to this time: ms or `'30s'`, a second to 366 days.
   * `Retry-After` is never too early, and a short wait is at most doubled. The decision and all other fields stay exact.
   *
   * @default no delay
   */
  jitter?: Duration | undefined;
  /**
   * Answers a denied request: `handler(req, res, decision)`. Status and headers are
   * already set. Send the answer by the second argument, such as `res.json({ error: 'Slow down' })`: a returned value is not sent.
   */
  handler?: Callback<[request: Req, response: Res, decision: DeniedDecision], unknown> | undefined;
  /** Refund the cost after a successful response, so that only failures count. @default false */
  skipSuccessfulRequests?: boolean | undefined;
  /** Refund the cost after a failed response. @default false */
  skipFailedRequests?: boolean | undefined;
  /**
   * Refund the cost if the response was cut off. Such a response counts neither as success nor as failure. With `true`, clients can escape
   * the limit by disconnecting early. @default false
   */
  refundAborted?: boolean | undefined;
  /**
   * The time for which slots are renewed during a response: ms or `'12h'`, up to 366 days.
   * Afterwards the slots expire with their `lease`. @default '24h'
   */
  renewFor?: Duration | undefined;
  /** Whether a completed response was a success. It may be async. @default a status below 400 */
  requestWasSuccessful?: Callback<[request: Req, response: Res], MaybePromise<boolean>> | undefined;
  /** Receives every decision, for logs and metrics. An error that the callback throws is reported as a process warning. */
  onDecision?: Callback<[decision: Decision, request: Req], void> | undefined;
};

/** The policies of an adapter. */
export interface RequestPolicies<Req> {
  /**
   * The policies, or a sync or async function of the request that returns policies. A function is only for policies that are unknown at the
   * start; for known policies, use `tiers`. State belongs to a policy's name, algorithm and window, so a client whose limit changes keeps
   * its charges. A memory store keeps the state of 1,000 different policies at a time. Never derive policies from data that a client sends.
   */
  policies: StrictPolicies | PoliciesOf<Req>;
  limiter?: undefined;
}

/** A limiter, in place of the options that create a limiter. */
export type GivenLimiter = {
  [Option in Exclude<keyof CommonOptions, 'enabled' | 'warnings'>]?: undefined;
} & {
  /** In place of the options that create a limiter. */
  limiter: Limiter;
  policies?: undefined;
};

/** No quota option: 1,000 requests a minute. */
export interface NoQuota {
  policies?: undefined;
  limiter?: undefined;
}

/** A policy inline. */
export interface InlineQuota extends InlinePolicy {
  limiter?: undefined;
}

/** The options of an HTTP adapter: a policy inline, `policies`, or a `limiter`. Without any of these: 1,000 requests a minute. */
export type HttpOptions<Req, Res, Tier extends string = string> = RequestOptions<Req, Res, Tier> &
  ((StrictPolicy & InlineQuota) | (NoPolicy<'weight'> & (RequestPolicies<Req> | GivenLimiter | NoQuota)));

/** @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_INVALID_COST` */
function checkFixedCost(option: string, cost: unknown): Cost {
  return typeof cost === 'object' ? checkCosts(cost) : checkInteger(option, cost, 0, MAX_UNITS);
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- one table serves the requests and responses of all frameworks
type Any = any;

const list = optional<ListOption<Any>, List<Any>>(
  'addresses, networks and keys, or a function',
  (option, members) => compileList(option, members as ListOption<Any>),
);

/** The rows of `RequestOptions` that concern requests and responses. The remaining rows are in `LIMITER_TABLE`. */
export const REQUEST_TABLE = {
  limiter: dependent('a limiter that `createLimiter` made'),
  tier: dependent('the name of a tier, or a function'),
  keyGenerator: fn(),
  keys: optional('an object of functions', compileKeys),
  clientIp: fn(),
  ipv6Subnet: integer(1, 128, DEFAULT_SUBNET),
  cost: orFunction<Cost, (request: Any) => MaybePromise<Cost>>(UNITS, checkFixedCost, 1),
  weight: optional<
    number | ((request: Any) => MaybePromise<number>),
    number | ((request: Any) => MaybePromise<number>)
  >('1 to 1000, or a function', (option, weight) =>
    typeof weight === 'function' ? (weight as () => number) : checkWeight(option, weight),
  ),
  requestId: fn(),
  wait: duration(),
  skip: fn(),
  allowList: list,
  denyList: list,
  headers: dependent('dialects, or `false`', DEFAULT_DIALECTS),
  partitionKey: dependent('a secret, or boolean', false),
  statusCode: integer(400, 599, 429),
  jitter: duration(undefined, { least: 1000 }),
  handler: fn(),
  skipSuccessfulRequests: boolean(false),
  skipFailedRequests: boolean(false),
  refundAborted: boolean(false),
  renewFor: duration('24h', { usual: 'long' }),
  requestWasSuccessful: fn(),
  enabled: LIMITER_TABLE.enabled,
  warnings: LIMITER_TABLE.warnings,
  onDecision: fn(),
} satisfies OptionTable<
  Omit<RequestOptions<Any, Any>, Exclude<keyof CommonOptions, 'enabled' | 'warnings'>> &
    Pick<GivenLimiter, 'limiter'>
>;

/** Options that create a limiter: the options of `createLimiter`, except the options handled by adapters. */
export const OF_LIMITER: readonly string[] = [
  ...LIMITER_OPTIONS.filter((option) => !(option in REQUEST_TABLE)),
  ...INLINE_FIELDS,
];

export const OF_QUOTA: readonly string[] = ['limiter', 'policies', 'tiers', ...INLINE_FIELDS];

/** The option names of every adapter, for `checkShape`. */
export const HTTP_OPTIONS: readonly string[] = [...OF_LIMITER, ...Object.keys(REQUEST_TABLE)];

export function hasQuota(options: object): boolean {
  return OF_QUOTA.some((option) => option in options);
}
