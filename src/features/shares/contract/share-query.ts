/** The part of a query about shared policies. */
export interface ShareQuery {
  /** The weight of the tenant in shared policies. Undefined if the policies' own weights count. */
  readonly weight?: number | undefined;
}
