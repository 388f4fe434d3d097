import type { Verdicts } from '../../../contract/verdicts.js';

/** The decision about the first request with an id, as a store remembers it. */
export interface FirstDecision {
  /** The deciding policies: see `policiesText`. */
  readonly by: string;
  /** The costs of the policies: one number if all are equal, none if all are 1. */
  readonly costs: readonly number[];
  /** The verdicts that the first request received, by the policies' positions. */
  readonly verdicts: Verdicts;
  /** The limits that differ from those of the policies, by the policies' positions. */
  readonly limits?: readonly (number | undefined)[] | undefined;
}
