import type { PolicySet, Subject } from '../../../contract/policy-set.js';

/** The part of a query about the id of the request. */
export interface IdQuery {
  /** The id of the request. A store with `remembersIds` answers a repetition of a charged request with `Reply.first`, without a charge. */
  readonly id?: string | undefined;
  /** The subject beside whose first key the id is remembered, if not the query's. */
  readonly idHome?: Subject | undefined;
}

/** The part of a change of a charge about the id of the request. */
export interface IdChange {
  /** Set if the request has an id: whether the change may be made. If not, the store only looks. */
  readonly claim?: Claim | undefined;
  /** As in `Query`. */
  readonly idHome?: Subject | undefined;
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

/** A store that may remember ids. */
export interface IdStore {
  /** Whether the store remembers the ids of requests: of all, or by their set. Limiters refuse ids that the store would not remember. */
  readonly remembersIds?: boolean | ((set: PolicySet) => boolean) | undefined;
}
