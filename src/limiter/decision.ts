import { limitedSet } from '../features/overrides/contract/change-policy.js';
import type { Decision, DecisionFields, Reason, Verdict } from '../common/decision.js';
import { Charge, type Account } from './charge.js';
import { checkCosts, costAt, type Cost } from '../contract/costs.js';
import {
  sharedOf,
  visiblePolicies,
  visibleSet,
  type SharedPolicy,
} from '../features/shares/contract/shares.js';
import type { CompiledPolicy } from '../contract/policy.js';
import { replyWith, type Reply } from '../contract/reply.js';
import { mayDelay, type PolicySet, type Query } from '../contract/store.js';
import {
  admits,
  countOf,
  delayOf,
  nextWait,
  remainingOf,
  retryAfterOf,
  soleVerdict,
  verdictOf,
  waitOf,
  withoutTurns,
  type Verdicts,
} from '../contract/verdicts.js';
import { banWait } from '../features/bans/ban-waits.js';
import { deciderOf } from './deciding-policy.js';

/** A decision in place of the policies' decision. */
export interface Ruling {
  readonly allowed: boolean;
  readonly reason: Reason;
  /** Undefined if denied for good. */
  readonly retryAfterMs: number | undefined;
}

/** The answers of the guard without a store. A denied caller may try again in a second. */
const RULINGS: Readonly<Record<NonNullable<Reply['degraded']>, Ruling | undefined>> = {
  local: undefined,
  allow: { allowed: true, reason: 'store-error', retryAfterMs: 0 },
  deny: { allowed: false, reason: 'store-error', retryAfterMs: 1000 },
};

/** The decision of a limiter, with the query and the charge. */
export type LimiterDecision = OwnDecision & Decision;

class OwnDecision implements DecisionFields {
  declare readonly allowed: boolean;
  declare readonly key: string;
  declare readonly cost: number;
  declare readonly policy: string | undefined;
  declare readonly limit: number;
  declare readonly remaining: number;
  declare readonly retryAfterMs: number | undefined;
  declare readonly resetAfterMs: number;
  declare readonly delayMs: number;
  declare readonly reason: Reason | undefined;
  declare readonly degraded: boolean;
  declare readonly repeated: boolean;
  declare readonly policies: readonly Verdict[];

  readonly #query: Query;
  readonly #reply: Reply;
  readonly #set: PolicySet;
  /** Undefined if there is no charge to change: for a denial, for a peek, and without a store's answer. */
  readonly #account: Account | undefined;
  readonly #shadow: boolean;
  /** The charge, created at its first use, because most decisions are never changed. */
  #made: Charge | undefined;

  /** @internal Made by {@link conclude}. The constructor only assigns fields, so that V8 allocates the fields in the object itself. */
  constructor(query: Query, reply: Reply, parts: DecisionParts) {
    const { allowed, shadow, set, policies, verdict, cost, limit } = parts;
    const { retryAfterMs, resetAfterMs, delayMs, reason, account } = parts;
    this.allowed = allowed;
    // The first key represents the keys of a request.
    this.key = typeof query.key === 'string' ? query.key : (query.key[0] ?? '');
    this.cost = cost;
    this.policy = verdict?.name;
    this.limit = limit;
    this.remaining = verdict ? verdict.remaining : 0;
    this.retryAfterMs = retryAfterMs;
    this.resetAfterMs = resetAfterMs;
    this.delayMs = delayMs;
    this.reason = reason;
    this.degraded = reply.degraded !== undefined;
    this.repeated = reply.repeated === true;
    this.policies = policies;
    this.#query = query;
    this.#reply = reply;
    this.#set = set;
    this.#account = account;
    this.#shadow = shadow;
    this.#made = undefined;
  }

  #charge(): Charge | undefined {
    const { set } = this.#query;
    const verdicts = (): readonly Verdict[] =>
      sharedOf(set).length === 0
        ? this.policies
        : verdictsOf(this.#query, set.policies, this.#reply.verdicts);
    if (this.#account) this.#made ??= new Charge(this.#account, this.#query, this.#reply, verdicts());
    return this.#made;
  }

  get charged(): number {
    const at = this.policies.findIndex(({ name }) => name === this.policy);
    return this.units[at] ?? 0;
  }

  get costs(): Readonly<Record<string, number>> {
    const { policies } = this.#query.set;
    return Object.fromEntries(policies.map(({ name }, i) => [name, costAt(this.#query, i)]));
  }

  /** @internal The current charge of each policy. Empty if there is no charge to change. */
  get units(): readonly number[] {
    return this.#charge()?.units ?? [];
  }

  /** @internal The deciding policies, with the limits of an override. */
  get set(): PolicySet {
    return this.#set;
  }

  /** @internal The store's answer. */
  get reply(): Reply {
    return this.#reply;
  }

  /** @internal */
  get subject(): Query {
    return this.#query;
  }

  /** @internal Whether the limiter is a shadow, whose decisions clients do not see. */
  get shadow(): boolean {
    return this.#shadow;
  }

  /** @internal Time for which the i-th policy denies the same cost from now on, ms, or {@link NEVER} if for good. */
  nextWaitOf(i: number): number {
    const { attempts } = this.#query.set.policies[i]!;
    return nextWait(waitOf(this.#reply.verdicts, i), attempts);
  }

  /** @internal The denial for a reason beside the policies, such as a full queue. The caller gives the charge back. */
  deniedFor(reason: Reason, retryAfterMs: number): LimiterDecision {
    return conclude(this.#query, this.#reply, false, { allowed: false, reason, retryAfterMs });
  }

  /** @internal The denial because the turn would come too late. The caller gives the charge back. */
  tooLate(): LimiterDecision {
    const reply = { ...this.#reply, verdicts: withoutTurns(this.#reply.verdicts) };
    return conclude(this.#query, reply, false);
  }

  async settle(actual: Cost): Promise<void> {
    if (this.#account) this.#account.checkCost(actual, this.#query.set);
    else checkCosts(actual);
    await this.#charge()?.settle(actual);
  }

  refund(): Promise<void> {
    return this.settle(0);
  }

  async release(): Promise<boolean> {
    return (await this.#charge()?.slots.release()) ?? false;
  }

  async renew(): Promise<boolean> {
    return (await this.#charge()?.slots.renew()) ?? false;
  }

  /** @internal Like `renew`, but takes the slots of an ended lease again, even beyond the limit. */
  async hold(): Promise<boolean> {
    return (await this.#charge()?.slots.hold()) ?? false;
  }

  cancel(): Promise<void> {
    return all([this.refund(), this.release()]);
  }

  /**
   * @internal Like `refund`, without the user's request. If the request was repeated, nothing is returned, because clients choose ids, and
   * one of the requests with the id may be served.
   */
  async takeBack(): Promise<void> {
    if (!this.repeated) await this.#charge()?.settle(0, true);
  }

  /** @internal Like `cancel`, if the request goes no further, and with `takeBack` instead of `refund`. */
  async abandon(): Promise<void> {
    if (!this.repeated) await all([this.takeBack(), this.release()]);
  }

  /** @internal Like `abandon`, but after another limiter's denial, so policies that count attempts keep their charge. */
  async withdraw(): Promise<void> {
    if (this.repeated) return;
    await all([this.#charge()?.withdraw() ?? Promise.resolve(), this.release()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}

/** Waits for every promise, even after a rejection. @throws the first error of the list */
export async function all(promises: readonly Promise<unknown>[]): Promise<void> {
  const results = await Promise.allSettled(promises);
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}

/** Narrows a decision from a user. Every decision is made by a limiter. */
export const ofLimiter = (decision: Decision): LimiterDecision => decision as LimiterDecision;

/** A query, and the account through which the decision can change its charge later. Without an account, the query is a look. */
export interface Asked extends Query {
  readonly account?: Account | undefined;
}

interface DecisionParts extends Pick<DecisionFields, PassedField> {
  readonly account: Account | undefined;
  readonly shadow: boolean;
  readonly set: PolicySet;
  readonly verdict: Verdict | undefined;
}

type PassedField =
  'allowed' | 'policies' | 'cost' | 'limit' | 'retryAfterMs' | 'resetAfterMs' | 'delayMs' | 'reason';

/** The decision for an untouched key. */
export function switchedOff(query: Query): LimiterDecision {
  const verdicts = query.set.policies.flatMap(({ traits }) => soleVerdict(0, traits.capacity, 0));
  return conclude(query, replyWith(verdicts), false, { allowed: true, reason: 'disabled', retryAfterMs: 0 });
}

/**
 * Makes the decision from a store's reply.
 *
 * @param ruling set if a list, a switch or a full queue decides, and neither the policies nor the store
 */
export function conclude(query: Asked, answer: Reply, shadow: boolean, ruling?: Ruling): LimiterDecision {
  // The verdicts on a banned key only extend the wait.
  const reply = answer.ban > 0 ? { ...answer, verdicts: [] } : answer;
  const set = reply.limits ? limitedSet(query.set, reply.limits) : query.set;
  const { policies } = set;
  // A shared limit has keys of two dimensions.
  const shared = typeof query.key === 'string' ? NOT_SHARED : sharedOf(query.set);
  // An array literal allocates exactly the needed room. Most limiters have one policy.
  const isSole = policies.length === 1 && reply.verdicts.length > 0 && typeof query.key === 'string';
  const list = isSole
    ? [verdictOf(policies[0]!, query.key, reply.verdicts, 0)]
    : verdictsOf(query, shared.length > 0 ? visiblePolicies(policies) : policies, reply.verdicts);
  // A loop over an empty list is not free.
  if (shared.length > 0) for (const each of shared) addShare(list, each, reply);
  const decider = list.length > 1 ? deciderOf(policies, list) : 0;
  const verdict = list[decider];
  const denies = verdict !== undefined && !verdict.allowed && !policies[decider]!.shadow;
  const isUsual = reply.ban === 0 && reply.full === undefined && reply.degraded === undefined;
  const other = ruling ?? (isUsual ? undefined : rulingOf(query.set, answer));
  const allowed = other ? other.allowed : !denies;
  const decision: DecisionFields = new OwnDecision(query, reply, {
    // A store without room for a key has charged the other keys.
    account: allowed && (!other || reply.full === 0) ? query.account : undefined,
    allowed: allowed || shadow,
    shadow,
    set: shared.length > 0 ? visibleSet(set) : set,
    policies: list,
    verdict,
    cost: (verdict && query.costs?.[decider]) ?? query.cost,
    // A list may decide before the request's tier is known, and then there is no policy.
    limit: policies[decider]?.limit ?? 0,
    retryAfterMs: other ? other.retryAfterMs : denies ? retryAfterOf(policies, reply.verdicts) : 0,
    resetAfterMs: Math.max(verdict ? verdict.resetAfterMs : 0, reply.ban && (other?.retryAfterMs ?? 0)),
    delayMs: allowed && !shadow && mayDelay(set) ? delayOf(policies, reply.verdicts) : 0,
    reason: other ? other.reason : denies ? reasonOf(verdict, reply, shared, decider) : undefined,
  });
  // The compiler cannot check the combination of reason and wait. A test of every reason does.
  return decision as LimiterDecision;
}

const NOT_SHARED: readonly SharedPolicy[] = [];

function verdictsOf({ set, key }: Query, policies: readonly CompiledPolicy[], verdicts: Verdicts): Verdict[] {
  const some = policies.slice(0, countOf(verdicts));
  if (typeof key === 'string') return some.map((policy, i) => verdictOf(policy, key, verdicts, i));
  const { names } = set.dimensions!;
  return some.map((policy, i) => verdictOf(policy, key[names.indexOf(policy.by)]!, verdicts, i));
}

/** The ruling that replaces the policies: the guard's, a full store's, or a ban. */
function rulingOf(set: PolicySet, reply: Reply): Ruling | undefined {
  const { ban, full, degraded, late } = reply;
  const known = degraded && RULINGS[degraded];
  if (known) return late ? { ...known, reason: 'process-late' } : known;
  if (ban === 0 && full === undefined) return undefined;
  if (full !== undefined) return { allowed: full === 0, reason: 'store-full', retryAfterMs: full };
  return { allowed: false, reason: 'banned', retryAfterMs: banWait(set, reply) };
}

/** Adds the tenant's share to the verdict on a shared policy. The verdict on its pool contains it as `remaining`. */
function addShare(list: Verdict[], { policy, pool }: SharedPolicy, { verdicts }: Reply): void {
  const verdict = list[policy];
  if (!verdict) return;
  const { name, key, allowed, limit, remaining, retryAfterMs, resetAfterMs } = verdict;
  const share = remainingOf(verdicts, pool);
  // A literal of all fields, because V8 is slow to copy an object and add a field.
  list[policy] = { name, key, allowed, limit, remaining, retryAfterMs, resetAfterMs, share };
}

/** The verdict on the pool of a shared policy denies if only the tenant's share is exceeded. */
function reasonOf(
  denial: Verdict,
  { verdicts }: Reply,
  shared: readonly SharedPolicy[],
  decider: number,
): Reason {
  for (const { policy, pool } of shared)
    if (policy === decider && !admits(waitOf(verdicts, pool))) return 'fair-share';
  return denial.retryAfterMs === undefined ? 'cost-exceeds-capacity' : 'quota-exceeded';
}
