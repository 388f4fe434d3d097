import { ASKING_OPTIONS, CHARGING_OPTIONS } from '../features/features.js';
import { compileBan, type BanOptions } from '../features/bans/contract/ban-options.js';
import type { Decision } from '../common/decision.js';
import type { Duration } from '../common/duration.js';
import { invalidOption } from '../common/errors.js';
import {
  boolean,
  custom,
  dependent,
  duration,
  fn,
  integer,
  optional,
  type OptionTable,
} from '../common/options.js';
import { checkInteger, checkShape, checkStore } from '../common/validate.js';
import { compileWarnings, type Warnings } from '../common/warnings.js';
import type { Cost } from '../contract/costs.js';
import type { AskingOptions, ChargingOptions } from '../contract/features.js';
import { MAX_REPEATS } from '../features/ids/id-rules.js';
import { POLICY_FIELDS } from '../contract/compile-policies.js';
import { SLOT_TABLE, type SlotOptions } from '../contract/dimensions.js';
import type {
  EitherLimitOrPolicies,
  NoPolicy,
  Policies,
  Policy,
  StrictPolicies,
  StrictPolicy,
} from '../contract/policy.js';
import type { Store } from '../contract/store.js';
import type { ThresholdEvent } from '../features/thresholds/contract/crossing.js';
import { FAILURE_TABLE, type FailureOptions } from './guard/guard-options.js';
import { checkEnabled } from './enabled.js';
import type { TierOptions } from './tiers.js';

/** Options of every limiter, with or without HTTP. The policies are inline (`limit`, `window`, ...) or in `policies`. */
export interface CommonOptions extends FailureOptions, SlotOptions {
  /**
   * The quota's scope. Limiters of the same name on one store share their quota, and must have equal policies. Any string of 1 to 256
   * characters. One limiter per store may have the default. @default 'default'
   */
  name?: string | undefined;
  /** The place for state. @default a memory store for this limiter alone */
  store?: Store | undefined;
  /**
   * Named sets of policies: `{ free: '100/1m', pro: '1000/1m' }`. Each request chooses one. Policies outside the tiers are for
   * requests without a tier.
   */
  tiers?: TierOptions | undefined;
  /** Bans a key after repeated denials. `{}` only allows bans by hand. @default no bans */
  ban?: BanOptions | undefined;
  /** Decide and report, never deny. @default false */
  shadow?: boolean | undefined;
  /**
   * `false` turns the limiter off. The limiter then admits every request, without asking the
   * store, charging, writing or reporting. The function is called for each decision, and must return at once. @default true
   */
  enabled?: boolean | (() => boolean) | undefined;
  /**
   * The warnings to silence; `false` silences all. Each is emitted once per process, as a process warning: see
   * docs/errors.md.
   */
  warnings?: Warnings | undefined;
  /**
   * The most waiting, and the most held, requests in this process: 1 to 1,000,000.
   * Further requests that have to wait are denied (`reason: 'queue-full'`), with one exception: a request whose key has fewer waiting requests
   * than another key replaces the last request of the key with the most waiting requests. The option only concerns requests that wait: an
   * adapter holds requests of a leaky bucket with `maxDelay`, and denies every other request at once. @default 10_000
   */
  maxWaiting?: number | undefined;
  /** The most waiting or held requests of a key: 1 to `maxWaiting`. @default a tenth of `maxWaiting`, rounded down, at least 1 */
  maxWaitingPerKey?: number | undefined;
  /**
   * Whether operators can change limits at run time. See `Limiter.override` and https://github.com/headgate/headgate/blob/main/docs/overrides.md. Each
   * decision then also reads the override of the request's key. @default false
   */
  overrides?: boolean | undefined;
  /**
   * Called once when a key crosses a threshold in a window. Of all processes, only the process whose request crossed the
   * threshold calls it. An error that the function throws becomes a process warning. If that process must not lose an event when it is killed, use the
   * store's option `thresholds: 'stream'`. See https://github.com/headgate/headgate/blob/main/docs/thresholds.md.
   */
  onThreshold?: ((event: ThresholdEvent) => void) | undefined;
  /**
   * The time for which ids are remembered: `'1s'` to `'366d'`. See `ConsumeOptions`: `id`. @default '10m'
   */
  idsFor?: Duration | undefined;
  /**
   * The most repetitions of an id that are not charged: 1 to 1,000,000. Later ones are charged like new requests, because a
   * client that chooses its ids could otherwise repeat one id for ever. @default 5
   */
  repeats?: number | undefined;
}

/** The options of `createLimiter` in addition to the policies. */
export interface LimiterOptions extends CommonOptions {
  /**
   * Called with every decision, for logs and metrics. A request that waits is reported once, at the end of the wait. An error from the
   * function becomes a process warning.
   */
  onDecision?: ((decision: Decision) => void) | undefined;
}

/** Several policies that decide together. */
export interface JointPolicies {
  /**
   * Policies as data or text: `['300/1m', { limit: 5, window: '1s' }]`. A single policy may be its
   * text alone. Either every policy charges a request, or no policy does.
   */
  policies: StrictPolicies;
}

/** Tiers without other policies, so that each request must have a tier. */
export interface OnlyTiers {
  policies?: undefined;
  /** Named sets of policies: `{ free: '100/1m', pro: '1000/1m' }`. Each request chooses one. */
  tiers: TierOptions;
}

/** A policy inline. */
export interface InlinePolicy {
  /** Several policies, in place of `limit`, `window` and all other fields of a policy: `['300/1m', { limit: 5, window: '1s' }]`. */
  policies?: EitherLimitOrPolicies | undefined;
}

/** The options of `createLimiter`: a policy inline, `policies`, or `tiers`. */
export type CreateLimiterOptions = LimiterOptions &
  ((StrictPolicy & InlinePolicy) | (NoPolicy & (OnlyTiers | JointPolicies)));

type KeyOf<T> = T extends unknown ? keyof T : never;

type ValueOf<T, Key extends PropertyKey> = T extends { [K in Key]?: infer Value } ? Value : never;

/** Any combination of the options, even an invalid one. */
type AnyOf<Options> = { [Option in KeyOf<Options>]?: ValueOf<Options, Option> | undefined };

/**
 * Options from a variable of the type `Options`, as in `{ ...base, limit: 5 }`. The type of such an object has every option, and cannot
 * exclude invalid combinations, which are checked when the limiter is made. For an object literal, this type is `never`.
 */
export type Spread<Options, Given> = Given &
  ([KeyOf<Options>, keyof Given, Given] extends [keyof Given, KeyOf<Options>, AnyOf<Options>]
    ? unknown
    : never);

export const LIMITER_TABLE = {
  name: optional('1 to 256 characters', checkLimiterName),
  store: optional<Store, Store>('a store', (_, store) => checkStore(store as Store)),
  policies: dependent('1 to 32 policies'),
  tiers: dependent('1 to 100 named sets of policies'),
  ban: optional('an object', (_, ban) => compileBan(ban as BanOptions)),
  shadow: boolean(false),
  enabled: optional('boolean, or a function that returns one', (_, enabled) => checkEnabled(enabled), true),
  warnings: custom('`false`, or an array of codes', (_, warnings) => compileWarnings(warnings as Warnings)),
  ...FAILURE_TABLE,
  maxWaiting: integer(1, 1e6, 10_000),
  maxWaitingPerKey: dependent('1 to `maxWaiting`'),
  overrides: boolean(false),
  onThreshold: fn(),
  idsFor: duration('10m', { least: 1000 }),
  repeats: integer(1, MAX_REPEATS, 5),
  ...SLOT_TABLE,
  onDecision: fn(),
} satisfies OptionTable<LimiterOptions & JointPolicies>;

/** The names of the options that are not part of a policy. */
export const LIMITER_OPTIONS: readonly string[] = Object.keys(LIMITER_TABLE);

/** The fields of an inline policy. Inline, `name` and `shadow` belong to the limiter, and in adapters `weight` to the request. */
export const INLINE_FIELDS = POLICY_FIELDS.filter((field) => !['name', 'shadow', 'weight'].includes(field));

export const CREATING_OPTIONS: readonly string[] = [...LIMITER_OPTIONS, ...INLINE_FIELDS, 'weight'];

/** Selects the policies that decide. */
export interface TierOption {
  /** The limiter's tier that decides. @default the policies outside the tiers */
  tier?: string | undefined;
}

/** Options of `consume`, `peek` and `acquire`. */
export interface ConsumeOptions extends TierOption, AskingOptions {
  /** Whole units, 0 (only look) to 1e12, or units by policy name: `{ tokens: 800 }`. A policy that is not named costs 1. @default 1 */
  cost?: Cost | undefined;
}

/** Options of `consume`. */
export interface RequestOptions extends ConsumeOptions, ChargingOptions {}

/** Options of `wait`. */
export interface WaitOptions extends ConsumeOptions {
  /** The longest wait: ms or `'5s'`, up to 366 days. @default no limit */
  timeout?: Duration | undefined;
  /** Ends the wait when it is aborted. */
  signal?: AbortSignal | undefined;
  /**
   * The order of this process' requests for the same key that have no turn: the highest, from -1,000 to 1,000, goes first. A
   * full line refuses requests of every priority. @default 0
   */
  priority?: number | undefined;
}

/** Options of `hold`. */
export interface HoldOptions {
  /** Ends the hold when it is aborted, and gives the request's turn up. */
  signal?: AbortSignal | undefined;
}

export function hasPolicies(options: object): boolean {
  return ['policies', ...INLINE_FIELDS].some((field) => options[field as keyof typeof options] !== undefined);
}

/** The policies in options: `policies`, or an inline one. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function policiesOf(options: object): Policies {
  const written = Object.entries(options).filter(
    ([field]) => field === 'weight' || INLINE_FIELDS.includes(field),
  );
  const { policies } = options as Partial<JointPolicies>;
  if (policies === undefined) {
    if (written.length > 0) return [Object.fromEntries(written) as unknown as Policy];
    throw invalidOption(
      'policy.limit',
      undefined,
      "Pass { limit: 100, window: '1m' }, or several in `policies`.",
    );
  }
  const both = written.filter(([, value]) => value !== undefined);
  if (both.length > 0) {
    throw invalidOption(
      both.map(([field]) => field).join(', '),
      Object.fromEntries(both),
      'Pass one policy inline, or all of them in `policies`, not both.',
    );
  }
  return policies;
}

/** The options as an object. A text is a single policy. */
export function optionsOf<Options extends object>(given: Options | string): Options {
  return typeof given === 'string' ? ({ policies: given } as unknown as Options) : given;
}

/** The highest priority of a waiting request. The lowest is its negative. */
export const MAX_PRIORITY = 1000;

export function checkPriority(priority: unknown): number {
  return checkInteger('priority', priority, -MAX_PRIORITY, MAX_PRIORITY);
}

export function checkLimiterName(option: string, name: unknown): string {
  if (typeof name === 'string' && name.length >= 1 && name.length <= 256) return name;
  throw invalidOption(option, name, 'Use a string of 1 to 256 characters.');
}

const CONSUME_OPTIONS = ['cost', 'tier', ...ASKING_OPTIONS];
const REQUEST_OPTIONS = [...CONSUME_OPTIONS, ...CHARGING_OPTIONS];

/** The cost in the options of a decision. @throws HeadgateError `HEADGATE_UNKNOWN_OPTION` */
export function costOf(options: ConsumeOptions, peek: boolean): Cost {
  checkShape('options', options, peek ? CONSUME_OPTIONS : REQUEST_OPTIONS);
  return options.cost === undefined ? 1 : options.cost;
}
