import type { OverrideRecord, RecordChange } from './records.js';
import type { MaybePromise, PolicySet, Subject } from '../../../contract/policy-set.js';

/** The key, or all keys, that an override is for. */
export type OverridePlace =
  | {
      /** The whole set, and the keys of one of its dimensions: the key of `by`, and the key of `slotBy` if it determines the slot. */
      readonly subject: Subject;
      /** The dimension whose policies change. */
      readonly by: string;
    }
  | {
      /** The set of the limiter, for all keys. */
      readonly set: PolicySet;
      /** As in `Subject`. */
      readonly call?: Subject['call'];
    };

/** Keeps overrides beside the state of a key, or for all keys of a limiter under a separate key. */
export interface OverrideStore {
  /** Changes a record in one step. @returns the record before the change, empty if there was no record, and the store's time */
  change(place: OverridePlace, change: RecordChange): MaybePromise<readonly [OverrideRecord, number]>;
  /** Reads a record. @returns the record, empty if there is none, and the store's time */
  read(place: OverridePlace): MaybePromise<readonly [OverrideRecord, number]>;
}

export interface OverridingStore {
  /** Keeps overrides. Limiters with the option `overrides` refuse a store without it. */
  readonly overrides?: OverrideStore | undefined;
}
