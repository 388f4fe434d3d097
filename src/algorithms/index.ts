import type { AlgorithmDefinition, Traits } from './algorithm.js';
import { calendar, type CalendarPolicy } from './calendar.js';
import { concurrency, type ConcurrencyPolicy } from './concurrency.js';
import { fixedWindow, type FixedWindowPolicy } from './fixed-window.js';
import { FIELD_TABLE } from './fields.js';
import { gcra, type LeakyBucketPolicy, type TokenBucketPolicy } from './gcra.js';
import { line } from './line.js';
import { shares } from './shares/shares.js';
import { slotShares } from './shares/slot-shares.js';
import { slidingLog, type SlidingLogPolicy } from './sliding-log.js';
import { slidingWindow, type SlidingWindowPolicy } from './sliding-window.js';

export {
  MemoryColumn,
  SlotColumn,
  type Ahead,
  type Params,
  type Rates,
  type Saved,
  type Traits,
} from './algorithm.js';
export type {
  CalendarPolicy,
  ConcurrencyPolicy,
  FixedWindowPolicy,
  LeakyBucketPolicy,
  SlidingLogPolicy,
  SlidingWindowPolicy,
  TokenBucketPolicy,
};

/** A named quota as plain data, which can come from JSON. The default algorithm is last, because compilers compare with the last type. */
export type Policy =
  | FixedWindowPolicy
  | SlidingLogPolicy
  | TokenBucketPolicy
  | LeakyBucketPolicy
  | ConcurrencyPolicy
  | CalendarPolicy
  | SlidingWindowPolicy;

type FieldOf<P> = P extends unknown ? keyof P : never;

export type PolicyField = FieldOf<Policy>;

/** The type of a field that the policy's algorithm does not have. The name is part of the compiler's message. */
export interface NotOfThisAlgorithm {
  readonly [NOTE]: never;
}

/** The type of `policies` beside an inline policy. The name is part of the compiler's message. */
export interface EitherLimitOrPolicies {
  readonly [NOTE]: never;
}

declare const NOTE: unique symbol;

// `window` is undefined, so that it distinguishes policies. Further such fields would make TypeScript 7 refuse policies of several algorithms.
type Without<P> = P extends unknown
  ? P & {
      [Field in Exclude<FieldOf<Policy>, keyof P>]?:
        (Field extends 'window' ? never : NotOfThisAlgorithm) | undefined;
    }
  : never;

/** A policy as written in options: fields of other algorithms are type errors. */
export type StrictPolicy = Without<Policy>;

/** Forbids the fields of a policy where options take none, except those that are also options. */
export type NoPolicy<Allowed extends string = never> = {
  [Field in Exclude<FieldOf<Policy>, 'name' | 'shadow' | Allowed>]?: undefined;
};

/** The names of the algorithms. */
export type Algorithm = NonNullable<Policy['algorithm']>;

export const DEFAULT_ALGORITHM: Algorithm = 'sliding-window';

export const POLICY_TABLE = FIELD_TABLE satisfies Readonly<Record<PolicyField, object>>;

/** The implementation that evaluates a policy. Several algorithm names can share one kernel. */
export type Kernel =
  | 'sliding-window'
  | 'fixed-window'
  | 'sliding-log'
  | 'gcra'
  | 'concurrency'
  | 'calendar'
  | 'shares'
  | 'slot-shares';

/** The kernel of the hidden policies of a shared policy that counts units in a window. */
export const SHARES_KERNEL: Kernel = 'shares';

/** The kernel of the hidden policies of a shared policy of slots. */
export const SLOT_SHARES_KERNEL: Kernel = 'slot-shares';

/** The kernels that policies have, and the kernel of the line of waiting processes, which the waiting room adds. */
export type AnyKernel = Kernel | 'line';

// docs/contributing/algorithms.md explains how to add a kernel.

/** The kernels, by the names of their files. */
export const algorithms: Readonly<Record<Kernel, AlgorithmDefinition>> = {
  'sliding-window': slidingWindow,
  'fixed-window': fixedWindow,
  'sliding-log': slidingLog,
  gcra,
  concurrency,
  calendar,
  shares,
  'slot-shares': slotShares,
};

/** The traits of all policies of a kernel. */
export function traitsOf(kernel: Kernel): Pick<Traits, 'holdsSlots' | 'drains'> {
  const { holdsSlots = false, drains = false } = algorithms[kernel];
  return { holdsSlots, drains };
}

/** The kernels of {@link algorithms}, and the others. */
export const kernels: Readonly<Record<AnyKernel, Pick<AlgorithmDefinition, 'createColumn' | 'luaParams'>>> = {
  ...algorithms,
  line,
};
