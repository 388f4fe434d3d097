/** The part of a request with an id in a change of its charge: the first decision to change the charge owns the charge. */
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
}
