import type { Verdicts } from '../../../contract/verdicts.js';

export interface IdOption {
  /**
   * The request's id, 1 to 255 characters. A repetition, from any process, gets the decision of the
   * charged request again (`repeated: true`), and charges nothing, at most `repeats` times. Verify an id that a client sends, because a client
   * could send different requests with one id: see https://github.com/headgate/headgate/blob/main/docs/request-ids.md. A denied request
   * charges nothing, so its id can be tried again. Ids of different keys are different. Needs a limiter without concurrency policies.
   */
  id?: string | undefined;
}

export interface IdRules {
  /** The time for which ids are remembered, ms. */
  readonly idsFor?: number | undefined;
  /** The most repetitions of an id that are not charged. */
  readonly repeats?: number | undefined;
}

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

export interface IdQuery<Subject> {
  /** The id of the request. A store with `remembersIds` answers a repetition of a charged request with `Reply.first`, without a charge. */
  readonly id?: string | undefined;
  /** The subject beside whose first key the id is remembered, if not the query's. */
  readonly idHome?: Subject | undefined;
}

export interface IdChange<Subject> extends Pick<IdQuery<Subject>, 'idHome'> {
  /** Set if the request has an id: whether the change may be made. If not, the store only looks. */
  readonly claim?: Claim | undefined;
}

/** The part of a request with an id in a change of its charge. Of all decisions about the charge, only the first to change it may change it again. */
export interface Claim {
  readonly id: string;
  /** The step of the charge. */
  readonly step: number;
  /** Whether the decision made the charge, and does not only repeat it. */
  readonly isFirst: boolean;
  /** A name of the decision, 5 characters. */
  readonly owner: string;
  /** Whether nothing of the charge is left after the change, so that the id is free again. */
  readonly isLast: boolean;
  /** Whether the limiter returns the charge by itself. It then stays if the request was repeated, because a repetition may have been served. */
  readonly isAutomatic?: boolean;
}

export interface IdStore<Set> {
  /** Whether the store remembers the ids of requests: of all, or by their set. Limiters refuse ids that the store would not remember. */
  readonly remembersIds?: boolean | ((set: Set) => boolean) | undefined;
}
