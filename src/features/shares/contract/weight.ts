export interface WeightOption {
  /** The weight of the tenant in policies with `share`, 1 to 1,000. @default the policy's weight */
  weight?: number | undefined;
}

export interface WeightQuery {
  /** The weight of the tenant in shared policies. Undefined if the policies' own weights count. */
  readonly weight?: number | undefined;
}
