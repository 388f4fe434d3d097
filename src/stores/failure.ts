import { toMilliseconds, type Duration } from '../duration.js';
import { HeadgateError, invalidOption } from '../errors.js';
import { compilePolicies, type Policy } from '../policy.js';
import { checkChoice, checkFunction } from '../validate.js';
import { breakerOf, type Breaker, type Health } from './breaker.js';
import { Eventual, listen, type Listener } from './eventual.js';
import { memoryStore } from './memory.js';
import { flawOf, malformedReply, tellsCharges } from './reply.js';
import {
  isPromise,
  NEVER,
  type Change,
  type ChangeReply,
  type LeaseChange,
  type MaybePromise,
  type PolicySet,
  type Query,
  type Reply,
  type Store,
  type Subject,
} from './store.js';
import { Timeouts, type Awaited } from './timeouts.js';

export interface FailureOptions {
  /**
   * What to do when the store fails or is late: `'local'` (default) decides in an embedded memory store, `'allow'` admits,
   * `'deny'` denies (503), `'throw'` throws the store's error.
   */
  onStoreError?: 'local' | 'allow' | 'deny' | 'throw';
  /** For `'local'`: the share of each limit that this process may admit meanwhile: above 0, up to 1 (default). */
  localShare?: number;
  /** How long the store may take: from `'1ms'` to `'1m'`, default `'100ms'`. */
  timeout?: Duration;
  /**
   * Called when the store is found down, and when it is up again: never of a memory store. What it throws is reported as a
   * process warning.
   */
  onHealth?: (health: Health) => void;
}

type Mode = NonNullable<FailureOptions['onStoreError']>;

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function checkTimeout(timeout: unknown): number {
  const result = toMilliseconds('timeout', timeout === undefined ? '100ms' : timeout);
  if (result > 60_000) throw invalidOption('timeout', timeout, "Write '1ms' to '1m'.");
  return result;
}

/**
 * Answers in time whatever the store does. An embedded store needs none of it and is returned as it is.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`
 */
export function withFailurePolicy(store: Store, options: FailureOptions, timeout: number): Store {
  const { onStoreError = 'local', localShare: share = 1 } = options;
  const mode = checkChoice('onStoreError', onStoreError, ['local', 'allow', 'deny', 'throw']);
  if (typeof share !== 'number' || !(share > 0 && share <= 1)) {
    throw invalidOption('localShare', share, 'Write a number above 0, up to 1.');
  }
  const onHealth = checkFunction('onHealth', options.onHealth);
  return store.embedded ? store : new FailurePolicy(store, mode, share, timeout, onHealth);
}

/** What decides while a store is away: one per store, so that limiters of one name share their quota there too. */
const locals = new WeakMap<Store, Store>();

/** A call of the store, and what is to become of it. */
class Call<T> implements Awaited, Listener<T> {
  readonly outcome = new Eventual<T>();
  due = 0;
  open = false;
  previous: Awaited | undefined = undefined;
  next: Awaited | undefined = undefined;

  readonly #policy: FailurePolicy;
  /** The store is down: the call tries it. */
  readonly trying: boolean;
  /** Undefined if it is no decision. */
  readonly query: Query | undefined;
  /** The set whose verdicts the answer is to have; undefined if it has none. */
  readonly set: PolicySet | undefined;

  constructor(policy: FailurePolicy, trying: boolean, query: Query | undefined, set: PolicySet | undefined) {
    this.#policy = policy;
    this.trying = trying;
    this.query = query;
    this.set = set;
  }

  resolve(value: T): void {
    this.#policy.came(this, value);
  }

  reject(error: unknown): void {
    this.#policy.erred(this, error);
  }

  expire(error: HeadgateError): void {
    this.#policy.failed(this, error);
  }
}

class FailurePolicy implements Store {
  readonly #store: Store;
  readonly #mode: Mode;
  readonly #share: number;
  readonly #onHealth: FailureOptions['onHealth'];
  readonly #breaker: Breaker;
  readonly #timeouts: Timeouts;
  readonly #localSets = new WeakMap<PolicySet, PolicySet>();

  constructor(
    store: Store,
    mode: Mode,
    share: number,
    timeout: number,
    onHealth: FailureOptions['onHealth'],
  ) {
    this.#store = store;
    this.#mode = mode;
    this.#share = share;
    this.#timeouts = new Timeouts(timeout);
    this.#breaker = breakerOf(store);
    this.#onHealth = onHealth;
    if (onHealth) this.#breaker.listeners.add(onHealth);
  }

  get health(): Health {
    return this.#breaker.health;
  }

  decide(query: Query): MaybePromise<Reply> {
    const breaker = this.#breaker;
    const trying = breaker.down;
    if (trying && !breaker.mayTry()) return this.#instead(query);
    let answer: MaybePromise<Reply>;
    try {
      answer = this.#store.decide(query);
    } catch (error) {
      answer = Promise.reject(coded(error));
    }
    if (!isPromise(answer)) {
      const flaw = flawOf(answer, query.set);
      if (trying) breaker.skipped();
      return flaw ? this.#instead(query, flaw) : answer;
    }
    return this.#inTime(answer, trying, query, query.set);
  }

  /** What is not a decision has no answer but the store's. @param set of a change: its answer is a reply */
  #ask<T>(call: () => MaybePromise<T>, set?: PolicySet): MaybePromise<T> {
    const breaker = this.#breaker;
    const trying = breaker.down;
    if (trying && !breaker.mayTry()) throw this.#downError();
    let answer: MaybePromise<T>;
    try {
      answer = call();
    } catch (error) {
      answer = Promise.reject(coded(error));
    }
    if (isPromise(answer)) return this.#inTime(answer, trying, undefined, set);
    const flaw = set && flawOf(answer, set);
    if (trying) breaker.skipped();
    if (flaw) throw flaw;
    return answer;
  }

  /** The store's answer; or, if it fails or is late, what a query is answered instead. */
  #inTime<T>(
    answer: Promise<T>,
    trying: boolean,
    query: Query | undefined,
    set: PolicySet | undefined,
  ): Promise<T> {
    const call = new Call<T>(this, trying, query, set);
    this.#timeouts.add(call);
    listen(answer, call);
    return call.outcome;
  }

  /** An answer has come, maybe too late. */
  came<T>(call: Call<T>, value: T): void {
    const { trying, query, set, outcome } = call;
    const inTime = this.#timeouts.settle(call);
    const flaw = set && flawOf(value, set);
    if (trying) this.#breaker.answered(inTime);
    if (flaw) {
      if (inTime) this.failed(call, flaw);
    } else if (inTime) {
      this.#breaker.success();
      outcome.resolve(value);
    } else if (query) {
      this.#undo(query, value as Reply);
    }
  }

  /** The store has failed, maybe too late. */
  erred<T>(call: Call<T>, error: unknown): void {
    const inTime = this.#timeouts.settle(call);
    if (call.trying) this.#breaker.answered(inTime);
    if (inTime) this.failed(call, coded(error));
  }

  /** Nothing is to be had of the store for this call. */
  failed<T>({ trying, query, outcome }: Call<T>, error: HeadgateError): void {
    if (trying) this.#breaker.tried();
    if (isOfRequest(error)) this.#breaker.success();
    else this.#breaker.failure(error);
    if (!query) {
      outcome.reject(error);
      return;
    }
    let reply: Reply;
    try {
      reply = this.#instead(query, error);
    } catch (thrown) {
      outcome.reject(coded(thrown));
      return;
    }
    outcome.resolve(reply as T);
  }

  /** @param error undefined if the store was not asked, as it is down */
  #instead(query: Query, error?: HeadgateError): Reply {
    if (this.#mode === 'throw') throw error ?? this.#downError();
    if (this.#mode !== 'local')
      return { now: Date.now(), step: 0, ban: 0, verdicts: [], degraded: this.#mode };
    const reply = this.#local.decide({ ...query, set: this.#localSet(query.set) }) as Reply;
    return { ...reply, degraded: 'local' };
  }

  /** The store has admitted what was answered otherwise meanwhile: gives back what nobody has, or was told to have. */
  #undo(query: Query, { now, step, ban, verdicts }: Reply): void {
    const { set, key, cost, peek, lease } = query;
    const admits = (i: number): boolean => verdicts[3 * i] === 0 || verdicts[3 * i]! < NEVER;
    const admitted = ban === 0 && set.policies.every(({ shadow }, i) => shadow || admits(i));
    if (peek || cost === 0 || !admitted) return;
    const ignore = (): void => {};
    if (lease !== '')
      this.lease({ set, key, cost, lease, action: 'release', degraded: undefined }).catch(ignore);
    // The others have let the request pass: it counts.
    if (this.#mode !== 'deny' && this.#mode !== 'throw') return;
    const units = set.policies.map((_, i) => (admits(i) ? -cost : 0));
    const marks = set.policies.map((_, i) => now + verdicts[3 * i + 2]!);
    this.adjust({ set, key, units, charged: { step, marks }, degraded: undefined }).catch(ignore);
  }

  get #local(): Store {
    let local = locals.get(this.#store);
    if (!local) locals.set(this.#store, (local = memoryStore()));
    return local;
  }

  /** The set with this process' share of each limit. */
  #localSet(set: PolicySet): PolicySet {
    let local = this.#localSets.get(set);
    if (!local) {
      const scale = (units: number): number => Math.max(1, Math.floor(units * this.#share));
      const policies = set.policies.map(({ name, source }): Policy => {
        const burst = 'burst' in source && source.burst !== undefined ? { burst: scale(source.burst) } : {};
        return { ...source, ...burst, name, limit: scale(source.limit) };
      });
      local = { ...set, policies: compilePolicies('policies', policies) };
      this.#localSets.set(set, local);
    }
    return local;
  }

  async adjust(change: Change): Promise<ChangeReply> {
    if (change.degraded === 'local')
      return this.#local.adjust({ ...change, set: this.#localSet(change.set) });
    const reply = await this.#ask(() => this.#store.adjust(change), change.set);
    if (!tellsCharges(reply, change.set)) throw malformedReply(reply);
    return reply;
  }

  async lease(change: LeaseChange): Promise<boolean> {
    if (change.degraded === 'local') return this.#local.lease({ ...change, set: this.#localSet(change.set) });
    return this.#ask(() => this.#store.lease(change));
  }

  async reset(subject: Subject): Promise<void> {
    return this.#ask(() => this.#store.reset(subject));
  }

  async ban(subject: Subject, duration: number): Promise<void> {
    return this.#ask(() => this.#store.ban(subject, duration));
  }

  /** Resolves once every decision under way has its answer. The store stays open. */
  async close(): Promise<void> {
    await this.#timeouts.idle();
    if (this.#onHealth) this.#breaker.listeners.delete(this.#onHealth);
  }

  #downError(): HeadgateError {
    const { since, lastError } = this.#breaker.health;
    const message = `The store is down since ${new Date(since).toISOString()}: ${lastError?.message}`;
    return new HeadgateError('HEADGATE_STORE_AWAY', message, { cause: lastError });
  }
}

function coded(error: unknown): HeadgateError {
  if (error instanceof HeadgateError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new HeadgateError('HEADGATE_STORE_ERROR', `The store failed: ${message}`, { cause: error });
}

/** Whether only this request is the trouble: the store has answered, and is up. */
function isOfRequest({ code, message, cause }: HeadgateError): boolean {
  if (code === 'HEADGATE_MALFORMED_REPLY') return true;
  return (cause instanceof Error ? cause.message : message).startsWith('WRONGTYPE');
}
