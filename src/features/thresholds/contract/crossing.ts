/** The first crossing of a threshold in a window. Exactly one process gets it. */
export interface ThresholdEvent {
  /** The limiter's name. */
  readonly limiter: string;
  /** The policy's name. */
  readonly policy: string;
  /** The counted key: the request's, or that of the policy's dimension (`by`). */
  readonly key: string;
  /** The fraction that was reached: 0.8. */
  readonly threshold: number;
  /** The charged units after the charge that reached it. At most `limit`. */
  readonly used: number;
  /** The limit in force, or a bucket's burst. */
  readonly limit: number;
  /** The time until the policy is back at its full quota, ms. The threshold is not reported again before, unless the limit is raised. */
  readonly resetAfterMs: number;
}

/** A crossing as a store reports it. */
export interface Crossing extends Pick<ThresholdEvent, 'used' | 'limit' | 'resetAfterMs'> {
  /** The position of the policy in the set. */
  readonly at: number;
  /** The threshold in thousandths. */
  readonly level: number;
}

export interface ThresholdRules {
  /** Receives each crossing of a threshold that a store reports. */
  readonly onThreshold?: ((event: ThresholdEvent) => void) | undefined;
}

export interface ThresholdReply {
  /** The thresholds that the charge crossed. The store has passed them to `PolicySet.onThreshold`. */
  readonly crossings?: readonly Crossing[];
}
