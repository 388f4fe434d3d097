import { Charge, type Account } from './charge.js';
import type { CompiledPolicy } from './policy.js';
import type { Keys, PolicySet, Query, Reply, Subject } from './store.js';
import { admits, countOf, NEVER, remainingOf, resetOf, waitOf, type Verdicts } from './verdicts.js';
import { checkCost } from '../common/validate.js';

/** What decides in place of the policies. */
export interface Override {
  readonly allowed: boolean;
  readonly reason: Reason;
  /** Undefined if it is denied for good. */
  readonly retryAfterMs: number | undefined;
}

/** Why a request was denied; or, where a shadow let it pass, would have been; or why it was not counted, or not decided. */
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
  readonly name: string;
  /** Whose quota it is: the request's key, or its key of the policy's dimension (`by`). */
  readonly key: string;
  readonly allowed: boolean;
  readonly limit: number;
  /** Whole units that could be spent now; floored, never negative. */
  readonly remaining: number;
  /** Time until this same cost would be admitted if nobody else spends, ms, rounded up; 0 if it was; undefined if never. */
  readonly retryAfterMs: number | undefined;
  /** Time until the policy is back at its full quota, ms, rounded up. */
  readonly resetAfterMs: number;
}

/** The answer for one request. */
export class Decision {
  declare readonly allowed: boolean;
  /** The request's key; without one, or if no policy is by it, its key of the first dimension that a policy is by. */
  declare readonly key: string;
  declare readonly cost: number;
  /** The policy that decided: of those that deny, the one that denies longest; else the one with the least remaining. */
  declare readonly policy: string | undefined;
  declare readonly limit: number;
  declare readonly remaining: number;
  /** See {@link Verdict.retryAfterMs}; the longest of the policies that deny, or the ban's. */
  declare readonly retryAfterMs: number | undefined;
  declare readonly resetAfterMs: number;
  /** Admitted, but not at once: the request's turn comes after so many ms (leaky bucket with `maxDelay`). Else 0. */
  declare readonly delayMs: number;
  /** Undefined for what was simply admitted. */
  declare readonly reason: Reason | undefined;
  /** The store could not be asked: the failure policy (`onStoreError`) answered. */
  declare readonly degraded: boolean;
  declare readonly policies: readonly Verdict[];

  readonly #query: Query;
  readonly #reply: Reply;
  /** Undefined if nothing was charged and nothing can be: a denial, a look, an answer without a store. */
  readonly #account: Account | undefined;
  readonly #shadow: boolean;
  /** Made when it is first asked for: most decisions are never changed. */
  #made: Charge | undefined;

  /** @internal Made by {@link conclude}. Only assigns, so that V8 makes decisions in place. */
  constructor(
    account: Account | undefined,
    query: Query,
    reply: Reply,
    policies: readonly Verdict[],
    { allowed, shadow, verdict, limit, retryAfterMs, resetAfterMs, delayMs, reason }: Outcome,
  ) {
    this.allowed = allowed;
    this.key = firstOf(query.key);
    this.cost = query.cost;
    this.policy = verdict?.name;
    this.limit = limit;
    this.remaining = verdict ? verdict.remaining : 0;
    this.retryAfterMs = retryAfterMs;
    this.resetAfterMs = resetAfterMs;
    this.delayMs = delayMs;
    this.reason = reason;
    this.degraded = reply.degraded !== undefined;
    this.policies = policies;
    this.#query = query;
    this.#reply = reply;
    this.#account = account;
    this.#shadow = shadow;
    this.#made = undefined;
  }

  #charge(): Charge | undefined {
    if (this.#account) this.#made ??= new Charge(this.#account, this.#query, this.#reply, this.policies);
    return this.#made;
  }

  /** Units that are charged for it now: its cost, or what `settle` made of it; 0 if it was denied or not counted. */
  get charged(): number {
    return this.#charge()?.units ?? 0;
  }

  /** @internal */
  get set(): PolicySet {
    return this.#query.set;
  }

  /** @internal */
  get subject(): Subject {
    return this.#query;
  }

  /** @internal Whether its limiter is a shadow, of which clients are not told. */
  get shadow(): boolean {
    return this.#shadow;
  }

  /** @internal This request, denied after all because too many are held; the caller gives back what it was charged. */
  queueFull(): Decision {
    return conclude(undefined, this.#query, this.#reply, false, {
      allowed: false,
      reason: 'queue-full',
      retryAfterMs: this.delayMs,
    });
  }

  /**
   * Makes the charge what the request really cost: gives back or charges the difference, where it was charged; the last
   * call counts. What is given back is as if it had never been charged, but for what a bucket has drained of it. What is charged
   * beyond what is left drains the quota to zero and is carried as debt for at most one window. Nothing is given back once the
   * charge's window is over or its key was reset, and a denied request is charged nothing. Slots of concurrency policies are not
   * units: see `release`.
   *
   * @param actual whole units, 0 to 1e12
   * @throws HeadgateError `HEADGATE_INVALID_COST`, or what the store fails with
   */
  async settle(actual: number): Promise<void> {
    checkCost(actual);
    await this.#charge()?.settle(actual);
  }

  /** Gives the whole charge back. Twice, of a denied request, or after the window is over: nothing happens. */
  refund(): Promise<void> {
    return this.settle(0);
  }

  /** Gives back the slots of concurrency policies; false if their lease had ended. Only the first call does anything. */
  async release(): Promise<boolean> {
    return (await this.#charge()?.release()) ?? false;
  }

  /** Holds the slots of concurrency policies for another full lease; false if their lease had ended. */
  async renew(): Promise<boolean> {
    return (await this.#charge()?.renew()) ?? false;
  }

  /**
   * Takes the request back, as if it had never been: `refund` and `release`.
   *
   * @throws what the store fails with; both were tried
   */
  cancel(): Promise<void> {
    return both(this.refund(), this.release());
  }

  /** @internal Another limiter has denied the request: as `cancel`, but what counts attempts stays charged. */
  withdraw(): Promise<void> {
    return both(this.#charge()?.withdraw() ?? Promise.resolve(), this.release());
  }

  /** `await using decision = await limiter.acquire(key)` releases at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}

/** Waits for both, whatever becomes of the other. @throws what one rejects with */
async function both(...promises: readonly Promise<unknown>[]): Promise<void> {
  const results = await Promise.allSettled(promises);
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}

/** What a decision is made of, besides who asked and what each policy says. */
interface Outcome {
  readonly allowed: boolean;
  readonly shadow: boolean;
  /** Of the policy that decided. */
  readonly verdict: Verdict | undefined;
  readonly limit: number;
  readonly retryAfterMs: number | undefined;
  readonly resetAfterMs: number;
  readonly delayMs: number;
  readonly reason: Reason | undefined;
}

/**
 * Makes the decision of a store's reply.
 *
 * @param account undefined for a look
 * @param override set where not the policies decide: a list, the failure policy without a store, a full queue
 */
export function conclude(
  account: Account | undefined,
  query: Query,
  reply: Reply,
  shadow: boolean,
  override?: Override,
): Decision {
  const { policies } = query.set;
  const list = verdictsOf(query, reply.verdicts);
  const decider = list.length > 1 ? deciderOf(policies, list) : 0;
  const verdict = list[decider];
  const denies = verdict !== undefined && !verdict.allowed && !policies[decider]!.shadow;
  const other = override ?? (reply.ban === 0 && reply.full === undefined ? undefined : overrideOf(reply));
  const allowed = other ? other.allowed : !denies;
  return new Decision(allowed && !other ? account : undefined, query, reply, list, {
    allowed: allowed || shadow,
    shadow,
    verdict,
    // Of a list, no policy need have been asked: tiers.
    limit: policies[decider]?.limit ?? 0,
    retryAfterMs: other ? other.retryAfterMs : denies ? verdict.retryAfterMs : 0,
    resetAfterMs: Math.max(verdict ? verdict.resetAfterMs : 0, Math.abs(reply.ban)),
    delayMs: allowed && !shadow ? delayOf(policies, reply.verdicts) : 0,
    reason: other ? other.reason : denies ? reasonOf(verdict) : undefined,
  });
}

/** The key that stands for all. */
function firstOf(key: Keys): string {
  return typeof key === 'string' ? key : (key[0] ?? '');
}

function verdictsOf({ set, key }: Query, verdicts: Verdicts): Verdict[] {
  const { policies } = set;
  // An array literal has just the room it needs, and most limiters have one policy.
  if (policies.length === 1 && verdicts.length > 0 && typeof key === 'string')
    return [verdictOf(policies[0]!, key, verdicts, 0)];
  const some = policies.slice(0, countOf(verdicts));
  if (typeof key === 'string') return some.map((policy, i) => verdictOf(policy, key, verdicts, i));
  const { names } = set.dimensions!;
  return some.map((policy, i) => verdictOf(policy, key[names.indexOf(policy.by)]!, verdicts, i));
}

/** The i-th verdict of a reply. */
function verdictOf({ name, limit }: CompiledPolicy, key: string, verdicts: Verdicts, i: number): Verdict {
  const wait = waitOf(verdicts, i);
  const allowed = admits(wait);
  return {
    name,
    key,
    allowed,
    limit,
    remaining: remainingOf(verdicts, i),
    retryAfterMs: allowed ? 0 : wait === NEVER ? undefined : wait,
    resetAfterMs: resetOf(verdicts, i),
  };
}

/** Which policy decides. Shadows don't, unless there are no others. */
function deciderOf(policies: readonly CompiledPolicy[], list: readonly Verdict[]): number {
  let decider = 0;
  for (let i = 1; i < list.length; i++) {
    if (policies[decider]!.shadow || (!policies[i]!.shadow && outweighs(list[i]!, list[decider]!)))
      decider = i;
  }
  return decider;
}

/** Whether a verdict decides rather than another: it denies, or denies longer; or both admit, and it has less left. */
export function outweighs(verdict: Verdict, other: Verdict): boolean {
  if (verdict.allowed !== other.allowed) return other.allowed;
  if (verdict.allowed) return verdict.remaining < other.remaining;
  return (verdict.retryAfterMs ?? Infinity) > (other.retryAfterMs ?? Infinity);
}

function overrideOf({ ban, full }: Reply): Override {
  if (full !== undefined) return { allowed: full === 0, reason: 'store-full', retryAfterMs: full };
  return { allowed: false, reason: 'banned', retryAfterMs: Math.abs(ban) };
}

function reasonOf(denial: Verdict): Reason {
  return denial.retryAfterMs === undefined ? 'cost-exceeds-capacity' : 'quota-exceeded';
}

/** The longest that a policy holds the request. */
function delayOf(policies: readonly CompiledPolicy[], verdicts: Verdicts): number {
  let delay = 0;
  for (let i = 0; i < countOf(verdicts); i++) {
    if (!policies[i]!.shadow) delay = Math.max(delay, NEVER - waitOf(verdicts, i));
  }
  return delay;
}
