import { inBackground } from '../common/background.js';
import type { Decision } from '../common/decision.js';
import { DEFAULT_DIMENSION, type Key } from '../contract/key.js';
import type { Duration } from '../common/duration.js';
import { HeadgateError, invalidOption, show } from '../common/errors.js';
import {
  boolean,
  checkOptionsOf,
  dependent,
  duration,
  fn,
  optional,
  readOptions,
  type OptionTable,
} from '../common/options.js';
import { assembleLimiter, checkOptions, givenLimiter } from './create-limiter.js';
import {
  CREATING_OPTIONS,
  optionsOf,
  type ConsumeOptions,
  type CreateLimiterOptions,
  type JointPolicies,
  type LimiterOptions,
} from './options.js';
import type { Limiter } from './limiter.js';
import type { TiersWith } from './tiers.js';
import type { NoPolicy, Policy } from '../contract/policy.js';
import type { MaybePromise, Store } from '../contract/store.js';
import { checkCapacity, checkCosts, UNITS, type Cost } from '../contract/costs.js';
import { checkBoolean, checkFunction } from '../common/validate.js';
import { deniedError } from './waiting/wait-errors.js';

/** The limiter to use, or the options of a new limiter. `Own` are options with a different meaning here. */
export type LimitedBy<Own extends string = never> =
  | ({
      /** In place of the options that create a limiter. */
      limiter: Limiter;
    } & { [Option in Exclude<keyof (LimiterOptions & NoPolicy & JointPolicies), Own>]?: undefined })
  | (CreateLimiterOptions & { limiter?: undefined });

/** Options computed from the arguments of a call. */
export interface CallOptions<
  This,
  KeyArgs extends unknown[],
  CostArgs extends unknown[],
  Tier extends string = string,
> {
  /**
   * Returns the key of a call, by its arguments. An object has a key for each dimension, and `undefined` leaves the call unlimited.
   * Policies with `by` need the option. @default all calls share one quota
   */
  key?: ((this: This, ...args: KeyArgs) => MaybePromise<Key | undefined>) | undefined;
  /** The tier of a call. @default the policies outside the tiers */
  tier?: Tier | ((this: This, ...args: KeyArgs) => MaybePromise<Tier | undefined>) | undefined;
  /** Named sets of policies: `{ free: '100/1m', pro: '1000/1m' }`. Each call chooses one. */
  tiers?: TiersWith<Tier> | undefined;
  /** The cost of a call. Whole units, 0 (only look) to 1e12, or units by policy name, or a function of the arguments. @default 1 */
  cost?: Cost | ((this: This, ...args: CostArgs) => MaybePromise<Cost>) | undefined;
  /**
   * Whether to wait until the call is admitted. With a `timeout`, at most `maxWaiting` calls wait, and
   * `maxWaitingPerKey` of a key; without the option `key` the calls share a single key. Without a `timeout`, any number of calls wait, unless
   * you set these options. @default false
   */
  wait?: boolean | { timeout?: Duration | undefined } | undefined;
}

/** The substitute for a denied call: a function, or the name of a method of the same object. */
export type Fallback<This, Args extends unknown[], Result> =
  | { fallback?: undefined; passArgs?: undefined }
  | {
      /** Answers a denied call. Without a fallback, a denied call throws `HEADGATE_DENIED`. */
      fallback: string | symbol | ((this: This) => Result);
      /** Whether the fallback gets the arguments of the call. @default false */
      passArgs?: false | undefined;
    }
  | {
      /** Answers a denied call. It gets the arguments of the call. */
      fallback: string | symbol | ((this: This, ...args: Args) => Result);
      /** Whether the fallback gets the arguments of the call. @default false */
      passArgs: true;
    };

/** A limited function, which returns a promise even if the original does not. */
export interface RateLimitedFunction<This, Args extends unknown[], Result> {
  (this: This, ...args: Args): Promise<Result>;
  /** The limiter that limits the function. */
  readonly limiter: Limiter;
}

export type AnyFunction = (this: unknown, ...args: unknown[]) => unknown;

/** The options of either form, for code after the types were checked. */
export interface AnyOptions {
  readonly limiter?: Limiter | undefined;
  readonly key?: ((this: unknown, ...args: unknown[]) => MaybePromise<Key | undefined>) | undefined;
  readonly tier?:
    string | ((this: unknown, ...args: unknown[]) => MaybePromise<string | undefined>) | undefined;
  readonly cost?: Cost | ((this: unknown, ...args: unknown[]) => MaybePromise<Cost>) | undefined;
  readonly wait?: boolean | { timeout?: Duration | undefined } | undefined;
  readonly fallback?: string | symbol | AnyFunction | undefined;
  readonly passArgs?: boolean | undefined;
  readonly store?: Store | undefined;
}

export const CALL_TABLE = {
  limiter: dependent('a limiter that `createLimiter` made'),
  key: fn(),
  tier: optional('the name of a tier, or a function', (option, tier) =>
    typeof tier === 'string' ? tier : checkFunction(option, tier),
  ),
  cost: dependent(`${UNITS}, or a function`, 1),
  wait: optional('boolean, or `{ timeout }`', checkWait, false),
  fallback: optional('a function, or the name of a method', checkFallback),
  passArgs: boolean(false),
} satisfies OptionTable<Omit<AnyOptions, 'store'>>;

function checkWait(option: string, wait: unknown): unknown {
  if (typeof wait !== 'object') return checkBoolean(option, wait, false);
  return checkOptionsOf(option, { timeout: duration() }, wait as object);
}

function checkFallback(option: string, fallback: unknown): unknown {
  if (['function', 'string', 'symbol'].includes(typeof fallback)) return fallback;
  throw invalidOption(option, fallback, "Pass a function, or a method's name.");
}

const KEY_OF_ALL_CALLS = 'all';

/**
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_DIMENSION`
 */
export function checkCallOptions(what: string, options: AnyOptions): void {
  checkOptions(what, options, [...Object.keys(CALL_TABLE), ...CREATING_OPTIONS]);
  const { tier, cost, fallback, passArgs } = readOptions(CALL_TABLE, options);
  const limiter = givenLimiter(options);
  if (limiter) checkSupplied(limiter, options);
  if (typeof cost !== 'function' && cost !== undefined) {
    if (limiter) checkCapacity(limiter.internals.scope.checkCost(cost), limiter.tiers.decidingBy(tier));
    else checkCosts(cost);
  }
  if (passArgs && fallback === undefined)
    throw invalidOption('passArgs', passArgs, 'Pass a `fallback` that gets the arguments.');
}

/** The limiter in checked options, or a new limiter made from the options. @throws HeadgateError `HEADGATE_UNKNOWN_DIMENSION`, and as `createLimiter` */
export function limiterOf(options: AnyOptions, defaultName: string): Limiter {
  if (options.limiter) return options.limiter;
  const { tier } = options;
  const cost = typeof options.cost === 'function' ? 0 : (options.cost ?? 0);
  const limiter = assembleLimiter(options, { defaultName, cost, tier });
  try {
    checkSupplied(limiter, options);
  } catch (error) {
    void limiter.close();
    throw error;
  }
  return limiter;
}

/** @throws HeadgateError `HEADGATE_UNKNOWN_DIMENSION` if a policy is by a key that no call has */
function checkSupplied({ tiers }: Limiter, { key, tier }: AnyOptions): void {
  if (!key) checkByKey(tiers.decidingBy(tier), 'Write key: (account) => ({ account }).');
}

/**
 * Checks that every policy is by the key of every call.
 *
 * @param fix how to supply other keys
 * @throws HeadgateError `HEADGATE_UNKNOWN_DIMENSION`
 */
export function checkByKey(
  sets: readonly { readonly policies: readonly Pick<Policy, 'by'>[] }[],
  fix: string,
): void {
  const other = sets
    .flatMap(({ policies }) => policies)
    .find(({ by = DEFAULT_DIMENSION }) => by !== DEFAULT_DIMENSION);
  if (!other) return;
  throw new HeadgateError(
    'HEADGATE_UNKNOWN_DIMENSION',
    `key: a policy is by ${show(other.by)}, of which no call has a key, so the policy would limit nothing. ${fix}`,
  );
}

/** A function that asks the limiter before calling `fn`. */
export function limit(fn: AnyFunction, limiter: Limiter, options: AnyOptions): AnyFunction {
  const { key, tier, cost = 1 } = options;
  if (typeof tier !== 'function') limiter.tiers.of(tier);
  const limited = async function (this: unknown, ...args: unknown[]): Promise<unknown> {
    if (!limiter.enabled) return fn.apply(this, args);
    const who = key ? await key.apply(this, args) : KEY_OF_ALL_CALLS;
    if (who === undefined) return fn.apply(this, args);
    const units = typeof cost === 'function' ? await cost.apply(this, args) : cost;
    const by = typeof tier === 'function' ? await tier.apply(this, args) : tier;
    let decision: Decision;
    try {
      decision = await admit(limiter, who, { cost: units, tier: by }, options.wait);
    } catch (error) {
      if (options.fallback === undefined || !isDenial(error)) throw error;
      return fallbackOf(this, options.fallback).apply(this, options.passArgs ? args : []);
    }
    try {
      return await fn.apply(this, args);
    } finally {
      // If the slot cannot be given back now, the slot is free at the end of the lease.
      await inBackground('A slot was not given back', decision.release());
    }
  };
  return Object.defineProperty(likeOriginal(fn, limited), 'limiter', { value: limiter, configurable: true });
}

/** @throws HeadgateError `HEADGATE_DENIED`, or the errors of `limiter.wait` and `limiter.consume` */
async function admit(
  limiter: Limiter,
  key: Key,
  options: ConsumeOptions,
  wait: AnyOptions['wait'],
): Promise<Decision> {
  if (wait) return limiter.internals.waits.enqueue(key, { ...options, ...(wait === true ? {} : wait) });
  const { decider, waits } = limiter.internals;
  const asked = await decider.answer(key, options, false, 'held');
  const decision = asked.delayMs > 0 ? await waits.holdReported(asked, undefined) : asked;
  if (!decision.allowed) throw deniedError(decision);
  return decision;
}

function isDenial(error: unknown): boolean {
  return (
    error instanceof HeadgateError &&
    ['HEADGATE_DENIED', 'HEADGATE_WAIT_TIMEOUT', 'HEADGATE_QUEUE_FULL'].includes(error.code)
  );
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` if the object has no such method */
export function fallbackOf(self: unknown, fallback: string | symbol | AnyFunction): AnyFunction {
  if (typeof fallback === 'function') return fallback;
  const method = (self as Record<string | symbol, unknown> | null | undefined)?.[fallback];
  if (typeof method !== 'function') {
    throw invalidOption('fallback', fallback, 'Pass the name of a method of the same object.');
  }
  return method as AnyFunction;
}

interface ReflectMetadata {
  getOwnMetadataKeys?(target: object): unknown[];
  getOwnMetadata(key: unknown, target: object): unknown;
  defineMetadata(key: unknown, value: unknown, target: object): void;
}

/** Copies the name, length, properties and metadata of a function to another, because frameworks look for them. */
function likeOriginal(original: AnyFunction, like: AnyFunction): AnyFunction {
  for (const key of Reflect.ownKeys(original)) {
    if (key === 'prototype' || key === 'arguments' || key === 'caller') continue;
    Object.defineProperty(like, key, Object.getOwnPropertyDescriptor(original, key)!);
  }
  const reflect = Reflect as unknown as ReflectMetadata;
  for (const key of reflect.getOwnMetadataKeys?.(original) ?? []) {
    reflect.defineMetadata(key, reflect.getOwnMetadata(key, original), like);
  }
  return like;
}

/**
 * Limits a function: `limited(...args)` calls the function if the limiter admits the call. A denied call goes to the `fallback`. Without a
 * fallback, the promise rejects with `HEADGATE_DENIED`, which has the decision. Slots of concurrency policies are held until the function's
 * promise is settled, or the lease ends. The limiter has the function's name, unless you pass another name.
 *
 * @example
 * const lookUp = rateLimited(fetchUser, { limit: 10, window: '1s', key: (id) => id, wait: { timeout: '2s' } })
 * const user = await lookUp('42')
 *
 * @param given the options, or the text of a single policy
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_TIER`,
 * `HEADGATE_UNKNOWN_DIMENSION`, and as `createLimiter`
 */
export function rateLimited<
  This,
  Args extends unknown[],
  Result,
  Other = never,
  const Tier extends string = string,
>(
  fn: (this: This, ...args: Args) => Result,
  given: string | (LimitedBy & CallOptions<This, Args, Args, Tier> & Fallback<This, Args, Other>),
): RateLimitedFunction<This, Args, Awaited<Result> | Awaited<Other>> {
  if (typeof fn !== 'function') throw invalidOption('fn', fn, 'Pass a function.');
  const options = optionsOf<object>(given) as AnyOptions;
  checkCallOptions('rateLimited', options);
  const limiter = limiterOf(options, fn.name || 'default');
  return limit(fn as AnyFunction, limiter, options) as never;
}
