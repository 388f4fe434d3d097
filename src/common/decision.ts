/** Why a request was denied, why it would have been denied without a shadow, or why it was let pass without being counted. */
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

/** The verdict of one policy on a request. */
export interface Verdict {
  /** The policy's name. */
  readonly name: string;
  /** Whose quota it is: the request's key, or its key of the policy's dimension (`by`). */
  readonly key: string;
  /** Whether this policy admits the request. That the policy is a shadow makes no difference here. */
  readonly allowed: boolean;
  /** The policy's limit: units per window. */
  readonly limit: number;
  /** Whole units that could be spent now; floored, never negative. */
  readonly remaining: number;
  /** Time until this same cost would be admitted if nobody else spends, ms, rounded up. 0: it was admitted. Undefined: never. */
  readonly retryAfterMs: number | undefined;
  /** Time until the policy is back at its full quota, ms, rounded up. */
  readonly resetAfterMs: number;
}

/** The fields of all decisions. */
export interface DecisionFields {
  /** Whether the request may go on. A shadow admits every request. If it would have denied one, `reason` says why. */
  readonly allowed: boolean;
  /** The request's key. If there is none, or no policy is by it: the request's key of the first dimension that a policy is by. */
  readonly key: string;
  /** The whole units that the request asked for: of the policy that decided, if it costs them different amounts (see `costs`). */
  readonly cost: number;
  /**
   * The policy that decided. Of several that deny, it is the one that denies longest; otherwise the one with the least remaining. Undefined
   * if a list, a ban or a store's failure decided.
   */
  readonly policy: string | undefined;
  /** The limit of the policy that decided: units per window. */
  readonly limit: number;
  /** Whole units of the policy that decided that could be spent now; floored, never negative. */
  readonly remaining: number;
  /**
   * Time until this same cost would be admitted if nobody else spends, ms, rounded up: that of the policy that denies longest, or of the
   * ban. It is longer if a policy that counts attempts was charged for the denied request and has nothing left. 0 if the request was simply
   * admitted. Undefined if waiting never helps: for the reasons `'cost-exceeds-capacity'` and `'deny-listed'`.
   */
  readonly retryAfterMs: number | undefined;
  /** Time until the policy that decided is back at its full quota, or a ban is over, ms, rounded up. */
  readonly resetAfterMs: number;
  /** How long to hold an admitted request until its turn, ms (leaky bucket with `maxDelay`). 0 for all others. */
  readonly delayMs: number;
  /** Why the request was denied, or let pass without being counted. Undefined if it was simply admitted. */
  readonly reason: Reason | undefined;
  /** Whether the guard (`onStoreError`) answered, because the store could not be asked. */
  readonly degraded: boolean;
  /** The verdict of each policy, in the order of the policies. Empty if a list, a ban or a store's failure decided. */
  readonly policies: readonly Verdict[];
  /**
   * The units of the policy that decided that are charged now for this request: its cost, or what `settle` changed it to. 0 if it was denied
   * or not counted.
   */
  readonly charged: number;
  /** The whole units that the request asked for, by policy name. */
  readonly costs: Readonly<Record<string, number>>;

  /**
   * Changes the charge to what the request really cost: the difference is charged or given back. The last call counts. Units that are given
   * back count as never charged; what a bucket has drained of them stays spent. A higher cost may exceed what is left. The excess is a
   * debt, for at most one window. Nothing is given back once the charge's window is over or its key was reset. For a denied request it does
   * nothing. Slots of concurrency policies are not units: see `release`.
   *
   * @param actual whole units, 0 to 1e12; or such numbers by policy name: `{ tokens: 523 }`. Policies that are not named keep their charge
   * @throws HeadgateError `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_POLICY`, or what the store fails with
   */
  settle(actual: number | Readonly<Record<string, number>>): Promise<void>;

  /** Gives the whole charge back. A second call does nothing. Nor does a call for a denied request, or after the window is over. */
  refund(): Promise<void>;

  /** Gives back the slots of concurrency policies. Returns false if their lease had ended. Only the first call has an effect. */
  release(): Promise<boolean>;

  /** Holds the slots of concurrency policies for another full lease. Returns false if their lease had ended. */
  renew(): Promise<boolean>;

  /**
   * Undoes the request as if it had never been made: `refund` and `release`.
   *
   * @throws what the store fails with, after both were tried
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

/** Denied for now. If `Allowed` is true, it was let pass all the same: by a shadow, or while the store is away or full. */
export interface DenialForNow<Allowed extends boolean = false> extends DecisionFields {
  readonly allowed: Allowed;
  readonly reason: Exclude<Reason, NonNullable<Admission['reason']> | DenialForGood['reason']>;
  readonly retryAfterMs: number;
}

/** Denied for good: waiting does not help. If `Allowed` is true, a shadow let it pass all the same. */
export type DenialForGood<Allowed extends boolean = false> =
  DenialBecause<'cost-exceeds-capacity', Allowed> | DenialBecause<'deny-listed', Allowed>;

/** A denial for one reason. TypeScript can only exclude a reason that has a type of its own. */
export interface DenialBecause<Why extends Reason, Allowed extends boolean = false> extends DecisionFields {
  readonly allowed: Allowed;
  readonly reason: Why;
  readonly retryAfterMs: undefined;
}

/** A decision with `allowed: true`. If its `reason` is that of a denial, a shadow or the store's failure let the request pass. */
export type AdmittedDecision = Admission | DenialForNow<true> | DenialForGood<true>;

/** A decision with `allowed: false`. Its `retryAfterMs` is a number, except for the reasons for which waiting never helps. */
export type DeniedDecision = DenialForNow | DenialForGood;

/** The answer for one request. TypeScript narrows it by `allowed`, `reason` and `retryAfterMs`. */
export type Decision = AdmittedDecision | DeniedDecision;
