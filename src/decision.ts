import type { CompiledPolicy } from './policy.js';
import { NEVER, type PolicySet, type Query, type Reply, type Store } from './stores/store.js';
import { checkCost } from './validate.js';

/** Where a decision changes afterwards what it charged. */
export type Account = Pick<Store, 'adjust' | 'lease'>;

/** Units charged, and per policy when they leave the account by themselves. */
interface Charge {
  readonly units: number;
  readonly marks: readonly number[];
}

/** What decides in place of the policies. */
export interface Override {
  readonly allowed: boolean;
  readonly reason: Reason;
  /** Of a denial: absent if it is for good. */
  readonly retryAfterMs?: number;
}

/** Why a request was denied; or, where a shadow let it pass, would have been; or why it was not decided at all. */
export type Reason =
  | 'quota-exceeded'
  | 'cost-exceeds-capacity'
  | 'banned'
  | 'queue-full'
  | 'deny-listed'
  | 'allow-listed'
  | 'store-error';

/** What one policy says. */
export interface Verdict {
  readonly name: string;
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
  readonly allowed: boolean;
  readonly key: string;
  readonly cost: number;
  /** The policy that decided: of those that deny, the one that denies longest; else the one with the least remaining. */
  readonly policy: string | undefined;
  readonly limit: number;
  readonly remaining: number;
  /** See {@link Verdict.retryAfterMs}; the longest of the policies that deny, or the ban's. */
  readonly retryAfterMs: number | undefined;
  readonly resetAfterMs: number;
  /** Admitted, but not at once: the request's turn comes after so many ms (leaky bucket with `maxDelay`). Else 0. */
  readonly delayMs: number;
  /** Undefined for what was simply admitted. */
  readonly reason: Reason | undefined;
  /** The store could not be asked: the failure policy (`onStoreError`) answered. */
  readonly degraded: boolean;
  readonly policies: readonly Verdict[];

  readonly #query: Query;
  readonly #reply: Reply;
  /** Undefined if nothing was charged and nothing can be: a denial, a look, an answer without a store. */
  readonly #account: Account | undefined;
  #charged = 0;
  /** What it was charged on top of its cost, latest last; each is given back where it was charged. */
  #extras: Charge[] | undefined;
  /** Changes go one after the other. */
  #changing: Promise<void> | undefined;
  #held = false;

  /**
   * @internal Made by limiters.
   * @param account undefined for a look
   * @param override set where not the policies decide: a list, the failure policy without a store, a full queue
   */
  constructor(
    account: Account | undefined,
    query: Query,
    reply: Reply,
    shadow: boolean,
    override?: Override,
  ) {
    const { policies } = query.set;
    const list = verdictsOf(policies, reply.verdicts);
    const decider = deciderOf(policies, list);
    const verdict = list[decider];
    const denies = verdict !== undefined && !verdict.allowed && !policies[decider]!.shadow;
    const allowed = override ? override.allowed : !denies && reply.ban === 0;

    this.#query = query;
    this.#reply = reply;
    this.allowed = allowed || shadow;
    this.key = query.key;
    this.cost = query.cost;
    this.policy = verdict?.name;
    // Of a list, no policy need have been asked: tiers.
    this.limit = policies[decider]?.limit ?? 0;
    this.remaining = verdict ? verdict.remaining : 0;
    this.retryAfterMs = denies ? verdict.retryAfterMs : 0;
    this.resetAfterMs = verdict ? verdict.resetAfterMs : 0;
    this.delayMs = allowed && !shadow ? delayOf(policies, reply.verdicts) : 0;
    this.reason = denies ? reasonOf(verdict) : undefined;
    this.degraded = reply.degraded !== undefined;
    this.policies = list;
    if (override) {
      this.reason = override.reason;
      this.retryAfterMs = allowed ? 0 : override.retryAfterMs;
    } else if (reply.ban !== 0) {
      this.reason = 'banned';
      this.retryAfterMs = Math.abs(reply.ban);
      this.resetAfterMs = Math.max(this.resetAfterMs, this.retryAfterMs);
    }
    if (allowed && verdict) {
      this.#account = account;
      if (account) this.#charged = query.cost;
      this.#held = query.lease !== '';
    }
  }

  /** Units that are charged for it now: its cost, or what `settle` made of it; 0 if it was denied. */
  get charged(): number {
    return this.#charged;
  }

  /** @internal */
  get set(): PolicySet {
    return this.#query.set;
  }

  /** @internal This request, denied after all because too many are held; the caller gives back what it was charged. */
  queueFull(): Decision {
    return new Decision(undefined, this.#query, this.#reply, false, {
      allowed: false,
      reason: 'queue-full',
      retryAfterMs: this.delayMs,
    });
  }

  /**
   * Makes the charge what the request really cost: gives back or charges the difference, where it was charged; the last
   * call counts. What is charged beyond what is left drains the quota to zero and is carried as debt for at most one window;
   * a charge that drained it is not given back. Nor is one whose window is over, and a denied request is charged nothing.
   * Slots of concurrency policies are not units: see `release`.
   *
   * @param actual whole units, 0 to 1e12
   * @throws HeadgateError `HEADGATE_INVALID_COST`, or what the store fails with
   */
  async settle(actual: number): Promise<void> {
    checkCost(actual);
    const units = actual - this.#charged;
    if (units === 0 || !this.#account) return;
    this.#charged = actual;
    const change = () => (units > 0 ? this.#charge(units) : this.#giveBack(-units));
    this.#changing = this.#changing ? this.#changing.then(change, change) : change();
    await this.#changing;
  }

  /** Gives the whole charge back. Twice, of a denied request, or after the window is over: nothing happens. */
  refund(): Promise<void> {
    return this.settle(0);
  }

  /** Gives back the slots of concurrency policies; false if their lease had ended. Only the first call does anything. */
  async release(): Promise<boolean> {
    if (!this.#held) return false;
    this.#held = false;
    return this.#lease('release');
  }

  /** Holds the slots of concurrency policies for another full lease; false if their lease had ended. */
  async renew(): Promise<boolean> {
    return this.#held && this.#lease('renew');
  }

  /**
   * Takes the request back, as if it had never been: `refund` and `release`.
   *
   * @throws what the store fails with; both were tried
   */
  async cancel(): Promise<void> {
    const results = await Promise.allSettled([this.refund(), this.release()]);
    for (const result of results) if (result.status === 'rejected') throw result.reason;
  }

  /** `await using decision = await limiter.acquire(key)` releases at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  async #lease(action: 'release' | 'renew'): Promise<boolean> {
    const { set, lease } = this.#query;
    const { key, cost } = this;
    return this.#account!.lease({ set, key, cost, lease, action, degraded: this.#reply.degraded });
  }

  async #charge(units: number): Promise<void> {
    // Until its answer is there, or if there is none, nobody knows what was charged where.
    const extra = { units, marks: this.policies.map(() => GONE) };
    (this.#extras ??= []).push(extra);
    const { now, verdicts } = await this.#adjust(units, undefined);
    // How much of a charge that drained the quota was carried as debt is not known either.
    extra.marks = extra.marks.map((_, i) => (verdicts[3 * i + 1]! > 0 ? now + verdicts[3 * i + 2]! : GONE));
  }

  async #giveBack(units: number): Promise<void> {
    while (units > 0) {
      const extra = this.#extras?.pop();
      const back = extra ? Math.min(units, extra.units) : units;
      if (extra && extra.units > back) this.#extras!.push({ ...extra, units: extra.units - back });
      units -= back;
      const marks = extra?.marks ?? this.#marks();
      if (marks.some((mark) => mark !== GONE)) await this.#adjust(-back, marks);
    }
  }

  async #adjust(units: number, marks: readonly number[] | undefined): Promise<Reply> {
    return this.#account!.adjust({
      set: this.set,
      key: this.key,
      units,
      marks,
      degraded: this.#reply.degraded,
    });
  }

  /** When each policy's charge leaves the account by itself; a policy that charged nothing has nothing to give back. */
  #marks(): number[] {
    const { now } = this.#reply;
    return this.policies.map(({ allowed, resetAfterMs }) => (allowed ? now + resetAfterMs : GONE));
  }
}

function verdictsOf(policies: readonly CompiledPolicy[], verdicts: readonly number[]): Verdict[] {
  // An array literal has just the room it needs, and most limiters have one policy.
  return policies.length === 1 && verdicts.length > 0
    ? [verdictOf(policies[0]!, verdicts, 0)]
    : policies.slice(0, verdicts.length / 3).map((policy, i) => verdictOf(policy, verdicts, i));
}

/** The i-th verdict of a reply. */
function verdictOf({ name, limit }: CompiledPolicy, verdicts: readonly number[], i: number): Verdict {
  const wait = verdicts[3 * i]!;
  const allowed = wait === 0 || wait < NEVER;
  return {
    name,
    allowed,
    limit,
    remaining: verdicts[3 * i + 1]!,
    retryAfterMs: allowed ? 0 : wait === NEVER ? undefined : wait,
    resetAfterMs: verdicts[3 * i + 2]!,
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
function outweighs(verdict: Verdict, other: Verdict): boolean {
  if (verdict.allowed !== other.allowed) return other.allowed;
  if (verdict.allowed) return verdict.remaining < other.remaining;
  return (verdict.retryAfterMs ?? Infinity) > (other.retryAfterMs ?? Infinity);
}

function reasonOf(denial: Verdict): Reason {
  return denial.retryAfterMs === undefined ? 'cost-exceeds-capacity' : 'quota-exceeded';
}

/** The longest that a policy holds the request. */
function delayOf(policies: readonly CompiledPolicy[], verdicts: readonly number[]): number {
  let delay = 0;
  for (let i = 0; 3 * i < verdicts.length; i++) {
    if (!policies[i]!.shadow) delay = Math.max(delay, NEVER - verdicts[3 * i]!);
  }
  return delay;
}

/** A mark in the past: nothing to give back. */
const GONE = 1;
