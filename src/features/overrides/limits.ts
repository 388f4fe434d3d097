import type { OverrideEntry, OverrideRecord } from './contract/records.js';
import type { CompiledPolicy } from '../../contract/policy.js';

/** The limits of a key by its record of overrides, and by that of all keys. */
export interface KeyLimits {
  /** The key's own record, empty if there is none. */
  readonly record: OverrideRecord;
  /** The entry in force by the key's own record. Undefined if there is none. */
  readonly entry: OverrideEntry | undefined;
  readonly policies: readonly CompiledPolicy[];
  /** The limit of each of these policies. Undefined without a record: as configured. */
  readonly changed?: readonly number[] | undefined;
  /** Whether the policies include the change of the entry that a store cannot apply. If not, the caller must apply the change first. */
  readonly isKnown: boolean;
  /** The limits that follow when overrides end. Undefined if no override ends by itself. */
  readonly next?: Next | undefined;
}

export interface Next {
  /** The end of the override that is in force at a time, for each policy, ms since the epoch; Infinity if it does not end. */
  ends(at: number): readonly number[];
  policies(at: number): readonly CompiledPolicy[];
}
