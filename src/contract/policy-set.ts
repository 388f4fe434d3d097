import type { BanAnnouncement, BanRules } from '../features/bans/contract/ban-options.js';
import type { IdRules } from '../features/ids/contract/ids.js';
import type { ThresholdRules } from '../features/thresholds/contract/crossing.js';
import type { OverrideRules } from '../features/overrides/contract/records.js';
import type { CompiledPolicy } from './policy.js';

/** A value, or a promise of the value. The memory store returns values, which saves a promise per request. */
export type MaybePromise<T> = T | Promise<T>;

/** The dimensions by which a set's policies count. */
export interface Dimensions extends Pick<BanAnnouncement, 'banBy'> {
  /** The dimensions of the policies, of the ban and of `slotBy`. `'key'`, the dimension of policies without `by`, comes first. */
  readonly names: readonly string[];
  /** The dimension whose key determines the cluster slot of a decision's keys. Other keys are then counted once per key of the slot's dimension. */
  readonly slotBy: string | undefined;
  /** Whether keys in several slots may be decided one after the other. */
  readonly acrossSlots: boolean;
}

/**
 * The client's key as a string if all policies of the set count by one dimension; otherwise a string per dimension in `dimensions.names`,
 * in the same order. With `slotBy`, even a single key of another dimension is an array.
 */
export type Keys = string | readonly string[];

/** The rules of a limiter. All queries share the set, so that a store can keep data about the set: see `perSet`. */
export interface PolicySet extends BanRules<PolicySet>, OverrideRules<PolicySet>, IdRules, ThresholdRules {
  /** The quota's scope. On one store, sets with the same name share state. */
  readonly name: string;
  /** The policies, in the order of the options. */
  readonly policies: readonly CompiledPolicy[];
  /** Absent if all policies and the ban count by the request's key. */
  readonly dimensions?: Dimensions | undefined;
  /** Whether the last policy is the line of the processes that wait for slots, which users do not see. */
  readonly isInLine?: boolean;
  /** The set with the whole limits, if this is the substitute's with a part of each limit. */
  readonly scaledFrom?: PolicySet;
  /**
   * The time for which the caller waits for an answer, ms, from when the question was sent. If it can, a store must not decide later,
   * because the caller has another answer by then.
   */
  readonly timeout: number;
  /** The name of the tier, if the policies are those of a tier. Reports show it. */
  readonly tier?: string | undefined;
}

/**
 * The state of a call under way, shared by the caller and the store. The call is the only changing part of a question, and all copies of
 * the question share the call, so that a store around another store need not pass changes on.
 */
export interface Call {
  /**
   * The end of the caller's patience, by `performance.now()`. A store that sends questions elsewhere sets the time with each question. 0
   * before, and for other stores.
   */
  until: number;
  /** The name of the server with the question, set by a store with several servers when it sends the question. */
  server: string | undefined;
  /** The servers that have answered a part of the question, set by a store that asks several servers. */
  answered?: Set<string>;
  /** Set by the caller once it no longer waits. From then on the question must not be sent, nor sent again. */
  abandoned: boolean;
}

/** A key with the policies that apply to it: the subject of every operation. */
export interface Subject {
  /** The policies, and the name of their scope. */
  readonly set: PolicySet;
  /** Any string, or one string for each dimension. */
  readonly key: Keys;
  /** Absent if the caller waits without a time limit. */
  readonly call?: Call | undefined;
}
