/** The reason for a denial, for a denial prevented by a shadow, or for an admission that was not counted. */
export type Reason =
  | 'quota-exceeded'
  | 'fair-share'
  | 'cost-exceeds-capacity'
  | 'banned'
  | 'queue-full'
  | 'wait-timeout'
  | 'aborted'
  | 'deny-listed'
  | 'allow-listed'
  | 'store-full'
  | 'store-error'
  | 'process-late'
  | 'disabled';

/** The verdict of one policy on a request. */
export interface Verdict {
  /** The policy's name. */
  readonly name: string;
  /** The counted key: the request's, or that of the policy's dimension (`by`). */
  readonly key: string;
  /** Whether this policy admits the request. The option `shadow` makes no difference here. */
  readonly allowed: boolean;
  /** The policy's limit: units per window. */
  readonly limit: number;
  /** Whole units that could be spent now, rounded down, at least 0. */
  readonly remaining: number;
  /**
   * Time until the same cost would be admitted if nobody else spends, ms, rounded up. 0 if it was admitted, undefined if waiting never
   * helps. If overrides end meanwhile, the longest time counts until all policies admit.
   */
  readonly retryAfterMs: number | undefined;
  /** Time until the quota is full, ms, rounded up. */
  readonly resetAfterMs: number;
  /** The units that the request's tenant may have at present. Absent unless the policy has `share`. */
  readonly share?: number;
}

/** The fields of all decisions. */
export interface DecisionFields {
  /** Whether the request may go on. A shadow admits every request, and sets `reason` if a real policy would have denied the request. */
  readonly allowed: boolean;
  /**
   * The request's key. Without such a key, or if no policy counts by it, the request's key of the first dimension with a policy. A dimension of
   * which an override leaves out all policies does not count.
   */
  readonly key: string;
  /** Whole units requested. If they differ by policy (see `costs`), the cost for the deciding policy. */
  readonly cost: number;
  /**
   * The deciding policy: the one with the longest denial, otherwise with the least remaining. The
   * first of equals. A shadow counts only if all policies are shadows. Undefined if a list, a ban or a store's failure decided.
   */
  readonly policy: string | undefined;
  /** The limit of the deciding policy: units per window. */
  readonly limit: number;
  /** Whole units of the deciding policy that could be spent now, rounded down, at least 0. */
  readonly remaining: number;
  /**
   * Time until the same cost would be admitted if nobody else spends, ms, rounded up. The policy with the longest denial determines the
   * time, or the ban. If a policy that counts attempts was charged for the denied request and has nothing left, the time is longer. 0 if
   * the request was admitted. Undefined if waiting never helps: for the reasons `'cost-exceeds-capacity'` and `'deny-listed'`.
   */
  readonly retryAfterMs: number | undefined;
  /** Time until the deciding policy's quota is full, or the ban ends, ms, rounded up. */
  readonly resetAfterMs: number;
  /** Time to hold an admitted request until its turn, ms (leaky bucket with `maxDelay`). 0 for every other request. */
  readonly delayMs: number;
  /** The reason for the denial, or for an admission that was not counted. Undefined for a plain admission. */
  readonly reason: Reason | undefined;
  /** Whether `onStoreError` decided because the store could not. */
  readonly degraded: boolean;
  /** Whether the request repeats a charged id, and was not charged again. */
  readonly repeated: boolean;
  /** The verdict of each policy, in the order of the policies. Empty if a list, a ban or a store's failure decided. */
  readonly policies: readonly Verdict[];
  /**
   * The units charged to the deciding policy: the cost, or those set by `settle`. 0 if the request was denied or not
   * counted.
   */
  readonly charged: number;
  /** The requested units, by policy name. */
  readonly costs: Readonly<Record<string, number>>;

  /**
   * Corrects the charge once the real cost is known. The difference is charged or given back, and the last call counts. A refund frees only
   * units that have not drained from a bucket yet. A higher cost may exceed the remaining units; the excess is a debt, which lasts for one
   * window at most. Nothing is given back once the charge's window is over or its key was reset. Calls for a denied request have no effect.
   * Slots of concurrency policies are not units: see `release`.
   *
   * @param actual whole units, 0 to 1e12, or units by policy name: `{ tokens: 523 }`. A policy without a name in the object keeps its charge
   * @throws HeadgateError `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_POLICY`, or the store's error
   */
  settle(actual: number | Readonly<Record<string, number>>): Promise<void>;

  /** Gives the whole charge back. A second call has no effect, nor has a call for a denied request or after the window is over. */
  refund(): Promise<void>;

  /**
   * Gives back the slots of concurrency policies. Returns false if one of their leases had ended. Only the first call has an effect: a call
   * while the first is under way has its result, and a later call returns false.
   */
  release(): Promise<boolean>;

  /** Holds the slots of concurrency policies for another full lease. Returns false if one of their leases had ended. */
  renew(): Promise<boolean>;

  /**
   * Undoes the request as if it had never been made: `refund` and `release`.
   *
   * @throws the store's error, after both were tried
   */
  cancel(): Promise<void>;

  /** `await using decision = await limiter.acquire(key)` releases at the end of the block. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Admitted by the policies, by a list, or because the limiter is disabled. */
export interface Admission extends DecisionFields {
  readonly allowed: true;
  readonly reason: Extract<Reason, 'allow-listed' | 'disabled'> | undefined;
  readonly retryAfterMs: 0;
}

/** Denied for now. If `Allowed` is true, a shadow let the request pass, or the guard did because the store is down or full. */
export interface DenialForNow<Allowed extends boolean = false> extends DecisionFields {
  readonly allowed: Allowed;
  readonly reason: Exclude<Reason, NonNullable<Admission['reason']> | DenialForGood['reason']>;
  readonly retryAfterMs: number;
}

/** Denied for good: waiting does not help. If `Allowed` is true, a shadow let the request pass. */
export type DenialForGood<Allowed extends boolean = false> =
  DenialBecause<'cost-exceeds-capacity', Allowed> | DenialBecause<'deny-listed', Allowed>;

/** A denial for one reason. TypeScript can exclude a reason only if the reason has a separate type. */
export interface DenialBecause<Why extends Reason, Allowed extends boolean = false> extends DecisionFields {
  readonly allowed: Allowed;
  readonly reason: Why;
  readonly retryAfterMs: undefined;
}

/** A decision with `allowed: true`. If `reason` names a denial, a shadow or the store's failure let the request pass. */
export type AdmittedDecision = Admission | DenialForNow<true> | DenialForGood<true>;

/** A decision with `allowed: false`. Its `retryAfterMs` is a number, except for the reasons for which waiting never helps. */
export type DeniedDecision = DenialForNow | DenialForGood;

/** The answer for one request. TypeScript narrows a decision by `allowed`, `reason` and `retryAfterMs`. */
export type Decision = AdmittedDecision | DeniedDecision;
