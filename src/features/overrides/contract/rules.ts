import type { AppliedOverrides, OverrideRecord } from '../../../contract/overrides.js';

/** The part of a policy set about overrides. */
export interface OverrideRules<Set> {
  /** Absent if the limiter has no overrides, so that no record is read. */
  readonly overrides?: (AppliedOverrides & Later<Set>) | undefined;
}

/** The set that follows at the next end of an override which the caller applies. Absent if no such override ends by itself. */
interface Later<Set> {
  readonly later?: { readonly at: number; readonly set: () => Set };
}

/** The part of a reply about overrides. */
export interface OverrideReply {
  /** The limit of each policy. Set if an override changes a limit. */
  readonly limits?: readonly number[];
  /**
   * Set, and nothing decided, if an override contains a change that the store cannot apply, such as another tier. By dimension: the
   * change's revision, the change as JSON, its end, and the ids of policies (see `clientChangeOf`), or an empty text for no change. The caller asks again with a
   * set whose `overrides.revisions` are the same revisions.
   */
  readonly clientChanges?: Readonly<Record<string, string>>;
}

/** The part of a reply about usage. */
export interface OverrideUsage {
  /** The record of overrides of each dimension, empty if there is none. Without dimensions if the set has no overrides. */
  readonly records: Readonly<Record<string, OverrideRecord>>;
}
