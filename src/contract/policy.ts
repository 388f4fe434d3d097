import type { Algorithm, Kernel, Params, Policy, StrictPolicy, Traits } from '../algorithms/index.js';

export type { Algorithm, NoPolicy, Policy, StrictPolicy } from '../algorithms/index.js';

/** Policies: an array, in which each is data or text, as in `'300/1m'`; or the text of a sole one. */
export type Policies = string | readonly (Policy | string)[];

/** The same as the options take them: what a compiler can find wrong is. */
export type StrictPolicies = string | readonly (StrictPolicy | string)[];

/** A validated policy, divided and rounded once, so that memory and Redis receive the same integers. */
export interface CompiledPolicy {
  /** Unique in its limiter. */
  readonly name: string;
  /** As it was written, or the default. */
  readonly algorithm: Algorithm;
  /** Units per window. */
  readonly limit: number;
  /** The window, or a concurrency policy's lease, in milliseconds. */
  readonly window: number;
  /** Whether it never denies. */
  readonly shadow: boolean;
  /** Whether it is also charged for what another policy denies. */
  readonly attempts: boolean;
  /** The dimension whose key counts. */
  readonly by: string;
  /** What there is to know of its algorithm. */
  readonly traits: Traits;
  /** The algorithm that evaluates it. */
  readonly kernel: Kernel;
  /** The kernel's integers, in the order in which its Lua file reads them. */
  readonly params: Params;
  /** What its Lua file reads at a moment, ms since the epoch, in place of `params`; undefined if that does not depend on the time. */
  readonly sent: ((now: number) => readonly number[]) | undefined;
  /**
   * Tells the state of this policy from all others under one key: the layout's tag, the state's shape (a window's length, a bucket's
   * rate and burst), the name. The limit of a count is not in it: that may change live.
   */
  readonly id: string;
  /** How long a charge counts at most, ms. */
  readonly life: number;
  /** What it was compiled from. */
  readonly source: Policy;
}

/** Whether one of the policies is of slots. */
export function holdsSlots(policies: readonly CompiledPolicy[]): boolean {
  for (let i = 0; i < policies.length; i++) if (policies[i]!.traits.holdsSlots) return true;
  return false;
}
