import type { Algorithm, AnyKernel, Params, Policy, StrictPolicy, Traits } from '../algorithms/index.js';

export type {
  Algorithm,
  EitherLimitOrPolicies,
  NoPolicy,
  Policy,
  StrictPolicy,
} from '../algorithms/index.js';

/**
 * The text of a policy in place of options: any string, such as `'300/1m'`. Its optional field distinguishes a text from options, so that editors
 * show the field `anchor` of a calendar policy, and not the method `anchor` of strings.
 */
export type PolicyText = string & { readonly length: number; readonly limit?: undefined };

/** Policies: an array of policies, each as data or as text such as `'300/1m'`, or a single text for a single policy. */
export type Policies = string | readonly (Policy | string)[];

/** The same for options, where the compiler rejects fields of other algorithms. */
export type StrictPolicies = string | readonly (StrictPolicy | string)[];

/** A validated policy. Divisions are done and rounded once, so that memory and Redis receive the same integers. */
export interface CompiledPolicy {
  /** Unique in its limiter. */
  readonly name: string;
  /** The algorithm's name, or the default. */
  readonly algorithm: Algorithm;
  /** Units per window. */
  readonly limit: number;
  /** The window, or a concurrency policy's lease, in milliseconds. */
  readonly window: number;
  /** Whether the policy only reports and never denies. */
  readonly shadow: boolean;
  /** Whether the policy is also charged for requests that another policy denies. */
  readonly attempts: boolean;
  /** The dimension of the counted key. */
  readonly by: string;
  /** The thresholds in thousandths, in ascending order. Undefined if there are none. */
  readonly thresholds: readonly number[] | undefined;
  /** The traits of the policy's algorithm, for all other code. */
  readonly traits: Traits;
  /** The algorithm that evaluates the policy. */
  readonly kernel: AnyKernel;
  /** The kernel's integers, in the order of the kernel's Lua file. */
  readonly params: Params;
  /** The integers for the Lua file in place of `params` at a moment (ms since the epoch), or undefined for constant integers. */
  readonly sent: ((now: number) => readonly number[]) | undefined;
  /**
   * Distinguishes this policy's state from every other state of the same key: the layout's tag, the state's shape (a window's length, a
   * bucket's rate and burst), the name. A counter's limit is not part of the id, because the limit may change live.
   */
  readonly id: string;
  /** The longest time for which a charge counts, ms. */
  readonly life: number;
  /** The dimension whose keys share the limit, or undefined if the limit is not shared. */
  readonly share?: string | undefined;
  /** Whether it is a part of the shared policy of its name: see `features/shares/contract/shares.ts`. Users do not see it. */
  readonly isHidden?: boolean;
  /** Whether the caller has applied an override, so that stores apply no limits of records to it. */
  readonly isFixed?: boolean;
  /** The policy as the user passed it. */
  readonly source: Policy;
}
