/** Why a request was denied, or would have been without a shadow; or why it was let pass although nothing was counted. */
export type Reason =
  | 'quota-exceeded'
  | 'cost-exceeds-capacity'
  | 'banned'
  | 'queue-full'
  | 'deny-listed'
  | 'allow-listed'
  | 'store-full'
  | 'store-error'
  | 'process-late'
  | 'disabled';

/** What one policy says. */
export interface Verdict {
  /** The policy's name. */
  readonly name: string;
  /** Whose quota it is: the request's key, or its key of the policy's dimension (`by`). */
  readonly key: string;
  /** Whether this policy admits the request. What a shadow says does not count. */
  readonly allowed: boolean;
  /** The policy's limit: units per window. */
  readonly limit: number;
  /** Whole units that could be spent now; floored, never negative. */
  readonly remaining: number;
  /** Time until this same cost would be admitted if nobody else spends, ms, rounded up; 0 if it was; undefined if never. */
  readonly retryAfterMs: number | undefined;
  /** Time until the policy is back at its full quota, ms, rounded up. */
  readonly resetAfterMs: number;
}

/** What every decision has. */
export interface DecisionFields {
  /** Whether the request may go on. A shadow admits every request. If it would have denied one, `reason` says why. */
  readonly allowed: boolean;
  /** The request's key. If it has none, or no policy is by it: its key of the first dimension that a policy is by. */
  readonly key: string;
  /** The whole units that were asked for. */
  readonly cost: number;
  /**
   * The policy that decided: of those that deny, the one that denies longest; else the one with the least remaining. Undefined if none
   * was asked: of a list, a ban or a store's failure.
   */
  readonly policy: string | undefined;
  /** The limit of the policy that decided: units per window. */
  readonly limit: number;
  /** Whole units of the policy that decided that could be spent now; floored, never negative. */
  readonly remaining: number;
  /**
   * Time until this same cost would be admitted if nobody else spends, ms, rounded up: the longest of the policies that deny, or the ban's.
   * It may be longer than theirs if a policy that counts attempts was charged for the denied request, and has nothing left. 0 if it was
   * simply admitted; undefined if never, which is so for the reasons `'cost-exceeds-capacity'` and `'deny-listed'`.
   */
  readonly retryAfterMs: number | undefined;
  /** Time until the policy that decided is back at its full quota, or a ban is over, ms, rounded up. */
  readonly resetAfterMs: number;
  /** Admitted, but not at once: the request's turn comes after so many ms (leaky bucket with `maxDelay`). Else 0. */
  readonly delayMs: number;
  /** Why it was denied, or let pass though nothing was counted; undefined for what was simply admitted. */
  readonly reason: Reason | undefined;
  /** Whether the failure policy (`onStoreError`) answered, as the store could not be asked. */
  readonly degraded: boolean;
  /** What each policy says, in the order in which they were written. Empty if none was asked: of a list, a ban or a store's failure. */
  readonly policies: readonly Verdict[];
  /** Units that are charged for it now: its cost, or what `settle` made of it; 0 if it was denied or not counted. */
  readonly charged: number;

  /**
   * Makes the charge what the request really cost, by giving back or charging the difference. The last call counts. Units that are given
   * back are as if they had never been charged, except for what a bucket has drained of them. A higher cost may exceed what is left: the
   * rest is a debt for at most one window. Nothing is given back once the charge's window is over or its key was reset. A denied request
   * is charged nothing. Slots of concurrency policies are not units: see `release`.
   *
   * @param actual whole units, 0 to 1e12
   * @throws HeadgateError `HEADGATE_INVALID_COST`, or what the store fails with
   */
  settle(actual: number): Promise<void>;

  /** Gives the whole charge back. A second call does nothing, nor does one for a denied request or after the window is over. */
  refund(): Promise<void>;

  /** Gives back the slots of concurrency policies; false if their lease had ended. Only the first call does anything. */
  release(): Promise<boolean>;

  /** Holds the slots of concurrency policies for another full lease; false if their lease had ended. */
  renew(): Promise<boolean>;

  /**
   * Takes the request back, as if it had never been: `refund` and `release`.
   *
   * @throws what the store fails with; both were tried
   */
  cancel(): Promise<void>;

  /** `await using decision = await limiter.acquire(key)` releases at the end of the block. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Admitted by the policies, by a list, or because the limiter is switched off. */
export interface Admission extends DecisionFields {
  readonly allowed: true;
  readonly reason: Extract<Reason, 'allow-listed' | 'disabled'> | undefined;
  readonly retryAfterMs: 0;
}

/** Denied for now; or, if `Allowed` is true, let pass all the same: by a shadow, or while the store is away or full. */
export interface DenialForNow<Allowed extends boolean = false> extends DecisionFields {
  readonly allowed: Allowed;
  readonly reason: Exclude<Reason, NonNullable<Admission['reason']> | DenialForGood['reason']>;
  readonly retryAfterMs: number;
}

/** Denied for good, as waiting changes nothing; or, if `Allowed` is true, let pass all the same by a shadow. */
export type DenialForGood<Allowed extends boolean = false> =
  DenialBecause<'cost-exceeds-capacity', Allowed> | DenialBecause<'deny-listed', Allowed>;

/** A denial with one reason. TypeScript excludes a reason only if it has a type of its own. */
export interface DenialBecause<Why extends Reason, Allowed extends boolean = false> extends DecisionFields {
  readonly allowed: Allowed;
  readonly reason: Why;
  readonly retryAfterMs: undefined;
}

/** A decision with `allowed: true`. If its `reason` is that of a denial, a shadow or the store's failure let the request pass. */
export type AdmittedDecision = Admission | DenialForNow<true> | DenialForGood<true>;

/** A decision with `allowed: false`. Its `retryAfterMs` is a number, unless the `reason` is one that no waiting helps against. */
export type DeniedDecision = DenialForNow | DenialForGood;

/** The answer for one request. TypeScript narrows it by `allowed`, `reason` and `retryAfterMs`. */
export type Decision = AdmittedDecision | DeniedDecision;
