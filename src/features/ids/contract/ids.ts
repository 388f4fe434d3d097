import type { Verdicts } from '../../../contract/verdicts.js';

/** The part of a policy set about the ids of requests. */
export interface IdRules {
  /** The time for which ids are remembered, ms. */
  readonly idsFor?: number | undefined;
  /** The most repetitions of an id that are not charged. */
  readonly repeats?: number | undefined;
}

/** The part of a reply about the id of the request. */
export interface IdReply {
  /**
   * Set, and nothing charged, if the request repeats the id of a charged request. `now` and `step` are those of the first request, and
   * `verdicts` is empty, because other policies may have decided.
   */
  readonly first?: FirstDecision;
  /** Time since the first request with the same id, ms. Set by stores together with `first`. */
  readonly sinceFirst?: number;
  /** Set if the id was repeated too often, so that the request was decided as if it had no id. */
  readonly isIdSpent?: boolean;
  /** Set by the limiter if the answer is the answer to the first request with the same id. */
  readonly repeated?: boolean;
}

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
