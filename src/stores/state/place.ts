import type { BanColumn } from '../../algorithms/ban.js';
import type { Column } from '../../algorithms/index.js';
import type { OverrideEntry, OverrideRecord } from '../../contract/overrides.js';
import type { Crossing } from '../../contract/crossing.js';
import type { Part } from '../../contract/parts.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { Histories } from './returns.js';

/**
 * The state of one key, for a part of a set. A decision has one place for each part, and usually there is one part. The functions of
 * this folder do the work of the Lua scripts on Redis, and make all decisions outside Redis.
 */
export interface Place {
  readonly part: Part;
  /** The part's policies for this key, because an override may change their limits. */
  readonly policies: readonly CompiledPolicy[];
  /** The key's own record of overrides, empty if there is none. */
  readonly record: OverrideRecord;
  /** The entry in force by the key's own record. Undefined if there is none. */
  readonly entry: OverrideEntry | undefined;
  /** The limits that follow when overrides end. Undefined if no override ends by itself. */
  readonly next?: Next | undefined;
  /** The columns of the part's policies, in the part's order. */
  readonly columns: readonly Column[];
  readonly bans: BanColumn;
  /** The key's row in the columns and in `bans`; 0 as long as the key has no state. */
  readonly row: number;
  /** The resets and returns, by policy and key. */
  readonly returns: Histories;
  /** The thresholds that were reported. */
  readonly marks: Marks;
  /** Creates the state of a key. If the store is full, `row` stays 0. `byHand`: for a ban by hand, for which there is always room. */
  create(now: number, byHand: boolean): void;
  /** Whether `create` would fail because the store is full. */
  isFull(now: number): boolean;
  /** The value of `Reply.full` for a query that the policies admit but for which there is no room. */
  full(now: number): number;
  /** Stores the end of the key's denial. */
  deny(until: number): void;
}

/** The overrides that follow those in force. */
export interface Next {
  /** The end of the override that is in force at a time, for each policy, ms since the epoch; Infinity if it does not end. */
  ends(at: number): readonly number[];
  /** The policies at a time. */
  policies(at: number): readonly CompiledPolicy[];
}

/** The thresholds that were reported: the end of their window, then each in thousandths with the highest limit at which it was reported. */
export type Mark = readonly [until: number, ...levels: number[]];

/** The marks of a key, by the policy's id. */
export interface Marks {
  read(policy: string): Mark | undefined;
  /** @param mark without an end to forget the reported thresholds */
  write(policy: string, mark: Mark): void;
  /** The crossings of the current question. */
  readonly crossings: Crossing[];
}
