import type { BanOptions } from '../contract/ban-options.js';
import type { Decision } from '../common/decision.js';
import type { Duration } from '../common/duration.js';
import { invalidOption } from '../common/errors.js';
import { checkInteger, checkShape } from '../common/validate.js';
import type { Warnings } from '../common/warnings.js';
import { POLICY_FIELDS } from '../contract/compile-policies.js';
import type { NoPolicy, Policies, Policy, StrictPolicies, StrictPolicy } from '../contract/policy.js';
import type { Store } from '../contract/store.js';
import type { FailureOptions } from '../stores/guard/failure.js';
import type { TierOptions } from './tiers.js';

/** Options of every limiter, with or without HTTP. The policy stands inline (`limit`, `window`, ...) or in `policies`. */
export interface CommonOptions extends FailureOptions {
  /**
   * The quota's scope: limiters of one name on one store share their quota, and must have equal policies. Any string of 1 to
   * 256 characters. Default `'default'`, for one limiter per store.
   */
  name?: string;
  /** Where state lives. Default: a memory store of its own. */
  store?: Store;
  /**
   * Named sets of policies, 1 to 100, of which each request has one: `{ free: '100/1m', pro: '1000/1m' }`. Policies beside them are for
   * requests without a tier.
   */
  tiers?: TierOptions;
  /** Bans a key after repeated denials. `{}` only allows bans by hand. Default: no bans. */
  ban?: BanOptions;
  /** Decide and report, never deny. Default `false`. */
  shadow?: boolean;
  /**
   * A switch: `false`, or a function that returns `false`, turns the limiter off. Then every request is admitted: nothing is asked, charged,
   * written or reported. The function is called for each decision, and must answer at once. Default `true`.
   */
  enabled?: boolean | (() => boolean);
  /**
   * Which warnings about the set-up are not wanted: `false` for all, or their codes. Each comes once per process, as a process warning:
   * see docs/errors.md.
   */
  warnings?: Warnings;
  /**
   * The most requests that this limiter holds for their turn (`maxDelay`) in this process, and the most that it lets wait in
   * `wait`: 1 to 1,000,000, default 10,000. Further requests are denied (`reason: 'queue-full'`). A request whose key has fewer
   * waiting than another key takes the place of the last one of the key that has most.
   */
  maxWaiting?: number;
  /** How many of these may be of one key: 1 to `maxWaiting`, default a tenth of it, rounded down, but at least 1. */
  maxWaitingPerKey?: number;
  /**
   * For Redis Cluster and policies by several dimensions: the dimension in whose slot all keys of a decision lie. Every other key is then
   * counted within that key: an address has a quota for each `org` that it comes with. Requests without a key of the dimension share one
   * slot. The option means the same on every store.
   */
  slotBy?: string;
  /**
   * For Redis Cluster and policies by several dimensions, in place of `slotBy`: keys in several slots are decided one after the other, and
   * the charges are given back if one denies. Meanwhile a simultaneous request may be denied by these charges. Default `false`. Stores
   * that are no cluster decide in one step all the same. See docs/redis.md.
   */
  acrossSlots?: boolean;
}

/** What `createLimiter` takes besides the policy. */
export interface LimiterOptions extends CommonOptions {
  /** Every decision, for logs and metrics. What it throws is reported as a process warning. */
  onDecision?: (decision: Decision) => void;
}

/** Several policies, which decide together. */
export interface JointPolicies {
  /**
   * 1 to 32 policies, each as data or as text: `['300/1m', { limit: 5, window: '1s' }]`. A sole one may be its text alone. All of them
   * charge a request, or none does. Their names differ.
   */
  policies: StrictPolicies;
}

/** No policies beside the `tiers`: each request has a tier. */
export interface OnlyTiers {
  policies?: undefined;
  /** Named sets of policies, 1 to 100, of which each request has one: `{ free: '100/1m', pro: '1000/1m' }`. */
  tiers: TierOptions;
}

/** What `createLimiter` takes: a policy inline, `policies`, or `tiers`. */
export type CreateLimiterOptions = LimiterOptions &
  ((StrictPolicy & { policies?: undefined }) | (NoPolicy & (JointPolicies | OnlyTiers)));

type KeyOf<T> = T extends unknown ? keyof T : never;

type ValueOf<T, Key extends PropertyKey> = T extends { [K in Key]?: infer Value } ? Value : never;

/** Any of the options, whether they go together or not. */
type AnyOf<Options> = { [Option in KeyOf<Options>]?: ValueOf<Options, Option> | undefined };

/**
 * Options that come from a variable of the type `Options`: `{ ...base, limit: 5 }`. Such an object has every option, and its type no longer says
 * which of them go together, so that is checked when the limiter is made. An object that is written out has not: for it this is `never`.
 */
export type Spread<Options, Given> = Given &
  ([KeyOf<Options>, keyof Given, Given] extends [keyof Given, KeyOf<Options>, AnyOf<Options>]
    ? unknown
    : never);

/** Names of the options that are not the policy's. */
export const LIMITER_OPTIONS = [
  'name',
  'store',
  'policies',
  'tiers',
  'ban',
  'shadow',
  'enabled',
  'warnings',
  'onStoreError',
  'localShare',
  'timeout',
  'connectTimeout',
  'maxWaiting',
  'maxWaitingPerKey',
  'slotBy',
  'acrossSlots',
  'onHealth',
  'onDecision',
] as const;

/** Inline policy fields; `name` and `shadow` are the limiter's there. */
export const INLINE_FIELDS = POLICY_FIELDS.filter((field) => field !== 'name' && field !== 'shadow');

/** Says which policies decide. */
export interface TierOption {
  /** Which of the limiter's `tiers` decides. Default: its policies that stand beside them. */
  tier?: string | undefined;
}

/** Options of `consume`, `peek` and `acquire`. */
export interface ConsumeOptions extends TierOption {
  /** Whole units, 0 (only look) to 1e12. Default 1. */
  cost?: number;
}

/** Options of `wait`. */
export interface WaitOptions extends ConsumeOptions {
  /** Give up after so long: ms or `'5s'`, up to 366 days. Default: never. */
  timeout?: Duration;
  /** Gives up waiting when it is aborted. */
  signal?: AbortSignal;
}

/** Options of `hold`. */
export interface HoldOptions {
  /** Gives up the request's turn when it is aborted. */
  signal?: AbortSignal;
}

/** Whether options have policies, in `policies` or inline. */
export function hasPolicies(options: object): boolean {
  return ['policies', ...INLINE_FIELDS].some((field) => options[field as keyof typeof options] !== undefined);
}

/** The policies among options: `policies`, or one inline. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function policiesOf(options: object): Policies {
  const inline = Object.fromEntries(
    INLINE_FIELDS.filter((field) => field in options).map((field) => [
      field,
      options[field as keyof typeof options],
    ]),
  );
  const { policies } = options as Partial<JointPolicies>;
  const both = Object.keys(inline);
  if (policies === undefined) {
    if (both.length > 0) return [inline as unknown as Policy];
    throw invalidOption(
      'policy.limit',
      undefined,
      "Write { limit: 100, window: '1m' }, or several in `policies`.",
    );
  }
  if (both.length > 0) {
    throw invalidOption(
      both.join(', '),
      inline,
      'Write one policy inline, or all of them in `policies`, not both.',
    );
  }
  return policies;
}

/** Options; a text is the limiter's policy. */
export function optionsOf<Options extends object>(given: Options | string): Options {
  return typeof given === 'string' ? ({ policies: given } as unknown as Options) : given;
}

export function checkWaiting({
  maxWaiting,
  maxWaitingPerKey,
}: CommonOptions): [most: number, mostPerKey: number] {
  const most = maxWaiting === undefined ? 10_000 : checkInteger('maxWaiting', maxWaiting, 1, 1e6);
  const share = Math.max(1, Math.floor(most / 10));
  if (maxWaitingPerKey === undefined) return [most, share];
  return [most, checkInteger('maxWaitingPerKey', maxWaitingPerKey, 1, most)];
}

export function checkLimiterName(name: unknown): string | undefined {
  if (name === undefined) return undefined;
  if (typeof name !== 'string' || name.length < 1 || name.length > 256) {
    throw invalidOption('name', name, 'Write a string of 1 to 256 characters.');
  }
  return name;
}

const CONSUME_OPTIONS = ['cost', 'tier'];

/** The cost among what a decision is asked with. @throws HeadgateError `HEADGATE_UNKNOWN_OPTION` */
export function costOf(options: ConsumeOptions | undefined): number {
  if (options === undefined) return 1;
  checkShape('options', options, CONSUME_OPTIONS);
  return options.cost === undefined ? 1 : options.cost;
}
