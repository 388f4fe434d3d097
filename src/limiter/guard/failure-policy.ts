import { HeadgateError, withoutPage } from '../../common/errors.js';
import type { Warn } from '../../common/warnings.js';
import type { GiveBack } from './backlog.js';
import { breakerOf, type Breaker } from './breaker.js';
import type { Health } from '../../contract/health.js';
import type { Circuit, Prober } from './circuit.js';
import { Eventual, listen, type Listener } from '../../common/eventual.js';
import type { Local } from './local.js';
import { idleProbe, probesOf, quiet } from './probe.js';
import { flawOf, malformedReply, tellsCharges } from '../../stores/reply.js';
import { coded, failsAgain, hasDoneNothing, isOfRequest } from '../../stores/store-error.js';
import {
  isPromise,
  type Change,
  type ChangeReply,
  type LeaseChange,
  type MaybePromise,
  type PolicySet,
  type Query,
  type Reply,
  type Store,
  type Subject,
} from '../../contract/store.js';
import type { BanNote } from '../../contract/ban-options.js';
import { admits, waitOf } from '../../contract/verdicts.js';
import { chargedOf } from '../../contract/charged.js';
import { Timeouts, type Awaited } from './timeouts.js';

/** How decisions are made while the store makes none: see `FailureOptions`. */
type Mode = 'local' | 'allow' | 'deny' | 'throw';

/** A call of the store, and what to do with its outcome. */
class Call<T> implements Awaited, Listener<T> {
  readonly outcome = new Eventual<T>();
  asked = 0;
  open = false;
  previous: Awaited | undefined = undefined;
  next: Awaited | undefined = undefined;

  readonly #policy: FailurePolicy;
  readonly subject: Subject;
  /** The query, if the call asks for a decision. */
  readonly query: Query | undefined;
  /** The set that the verdicts of the answer must match. Undefined: the answer has no verdicts. */
  readonly set: PolicySet | undefined;
  /** Only for calls that give something back: how to repeat them later, and what the caller is told until then. */
  readonly later: Later<T> | undefined;

  constructor(
    policy: FailurePolicy,
    subject: Subject,
    query: Query | undefined,
    set: PolicySet | undefined,
    later: Later<T> | undefined,
  ) {
    this.#policy = policy;
    this.subject = subject;
    this.query = query;
    this.set = set;
    this.later = later;
  }

  resolve(value: T): void {
    this.#policy.came(this, value);
  }

  reject(error: unknown): void {
    this.#policy.erred(this, coded(error));
  }

  expire(error: HeadgateError): void {
    // A give-back is still right later, so it is never abandoned.
    if (!this.later) this.subject.abandoned = true;
    this.#policy.failed(this, error);
  }
}

/** A give-back must not be lost. If the store cannot take it now, it is repeated later. */
interface Later<T> {
  readonly giveBack: GiveBack;
  /** Whether doing it twice does no harm. */
  readonly repeatable: boolean;
  /** What the caller is told if the give-back must be repeated later. */
  readonly told: T;
}

/** The reply to a caller whose units will be given back later. */
const NOTHING: ChangeReply = { now: 0, step: 0, ban: 0, verdicts: [], charged: [] };

/** Answers every question in time, whatever its store does. */
export class FailurePolicy implements Store, Prober {
  readonly #store: Store;
  readonly #mode: Mode;
  readonly #local: Local;
  readonly #onHealth: ((health: Health) => void) | undefined;
  readonly #warn: Warn;
  readonly #breaker: Breaker;
  readonly #timeouts: Timeouts;
  readonly #idle: Subject;

  constructor(
    store: Store,
    mode: Mode,
    local: Local,
    timeout: number,
    connectTimeout: number,
    onHealth: ((health: Health) => void) | undefined,
    warn: Warn,
  ) {
    this.#store = store;
    this.#warn = warn;
    this.#mode = mode;
    this.#local = local;
    const breaker = (this.#breaker = breakerOf(store));
    const first = Math.max(timeout, connectTimeout);
    this.#timeouts = new Timeouts(timeout, () => (breaker.hasAnswered ? timeout : first));
    this.#idle = idleProbe(timeout);
    this.#onHealth = onHealth;
    if (onHealth) {
      breaker.listeners.add(onHealth);
      breaker.idle.watch(this, Infinity);
    } else {
      breaker.warners.add(warn);
    }
  }

  get health(): Health {
    this.#breaker.idle.watch(this);
    return this.#breaker.health;
  }

  keysOf(name: string): number {
    return this.#local.keysOf(name) + (this.#store.keysOf?.(name) ?? 0);
  }

  /** The same as the guarded store's. */
  get checkDimensions(): Store['checkDimensions'] {
    return this.#store.checkDimensions?.bind(this.#store);
  }

  decide(query: Query): MaybePromise<Reply> {
    const down = this.#breaker.downFor(query);
    if (down) return this.#instead(query, undefined, down);
    let answer: MaybePromise<Reply>;
    try {
      answer = this.#store.decide(query);
    } catch (error) {
      answer = Promise.reject(coded(error));
    }
    if (isPromise(answer)) return this.#await(answer, query, query, query.set);
    const flaw = flawOf(answer, query.set);
    return flaw ? this.#instead(query, flaw) : answer;
  }

  /** Asks for something other than a decision, which only the store can answer. @param set the set of a change, whose answer is a reply */
  async #ask<T>(subject: Subject, call: () => MaybePromise<T>, set?: PolicySet): Promise<T> {
    const down = this.#breaker.downFor(subject);
    if (down) throw this.#downError(down);
    return this.#await(promise(call), subject, undefined, set);
  }

  /** Gives back what was charged: now, or once the store is up. @param repeatable see {@link Later} */
  #giveBack<S extends Subject, T>(
    subject: S,
    call: (subject: S) => MaybePromise<T>,
    repeatable: boolean,
    told: T,
  ): Promise<T> {
    const giveBack = (): Promise<T> => this.#giveBack(subject, call, repeatable, told);
    const down = this.#breaker.downFor(subject);
    if (down) {
      down.watch(this);
      down.backlog.add(giveBack);
      return Promise.resolve(told);
    }
    const asked = { ...subject, until: 0, abandoned: false };
    return this.#await(
      promise(() => call(asked)),
      asked,
      undefined,
      undefined,
      { giveBack, repeatable, told },
    );
  }

  /** Waits for the store's answer. If the store fails or is late, a query gets another answer instead. */
  #await<T>(
    answer: Promise<T>,
    subject: Subject,
    query: Query | undefined,
    set: PolicySet | undefined,
    later?: Later<T>,
  ): Promise<T> {
    const call = new Call<T>(this, subject, query, set, later);
    this.#timeouts.add(call);
    listen(answer, call);
    return call.outcome;
  }

  /** The store has answered, possibly too late. */
  came<T>(call: Call<T>, value: T): void {
    const { query, set, outcome, subject } = call;
    const isOverdue = this.#timeouts.isOverdue(call);
    const isAwaited = this.#timeouts.finish(call);
    const flaw = set && flawOf(value, set);
    if (!isAwaited) {
      this.#breaker.answeredLate(subject);
      if (query && !flaw) this.#undo(query, value as Reply);
    } else if (flaw) {
      this.failed(call, flaw);
    } else {
      this.#breaker.success(subject, isOverdue);
      outcome.resolve(value);
    }
  }

  /** The store has failed, possibly too late. */
  erred<T>(call: Call<T>, error: HeadgateError): void {
    const { later, subject, query } = call;
    const isAwaited = this.#timeouts.finish(call);
    const isUndone = hasDoneNothing(error, subject);
    // The reply is lost, so it is unknown whether slots were taken.
    if (query && !isUndone && !failsAgain(error)) this.#release(query);
    if (later && !failsAgain(error) && (later.repeatable || isUndone)) {
      this.#breaker.circuitOf(subject).backlog.add(later.giveBack);
      if (isAwaited) this.failed(call, error);
    } else if (isAwaited) {
      this.failed(call, error);
    } else if (error.code === 'HEADGATE_PROCESS_LATE') {
      this.#breaker.answeredLate(subject);
    }
  }

  /** The call gets no answer from the store. */
  failed<T>({ query, outcome, later, subject }: Call<T>, error: HeadgateError): void {
    if (error.code === 'HEADGATE_PROCESS_LATE') this.#breaker.success(subject, true);
    else if (isOfRequest(error)) this.#breaker.success(subject, false);
    else this.#breaker.failure(subject, error, this);
    if (later) {
      outcome.resolve(later.told);
    } else if (query) {
      let reply: Reply;
      try {
        reply = this.#instead(query, error);
      } catch (thrown) {
        outcome.reject(coded(thrown));
        return;
      }
      outcome.resolve(reply as T);
    } else {
      outcome.reject(error);
    }
  }

  /** Answers a query instead of the store. @param error undefined if the store was not asked, because `down` is down */
  #instead(query: Query, error: HeadgateError | undefined, down?: Circuit): Reply {
    if (this.#mode === 'throw') throw error ?? this.#downError(down!);
    down?.watch(this);
    if (this.#mode === 'local') return { ...this.#local.decide(query), error };
    const late = error?.code === 'HEADGATE_PROCESS_LATE';
    const reply: Reply = { now: Date.now(), step: 0, ban: 0, verdicts: [], degraded: this.#mode, error };
    return late ? { ...reply, late } : reply;
  }

  /** The store admitted the query after the timeout. Gives back its slots, and its units too if the caller was told it is denied. */
  #undo(query: Query, reply: Reply): void {
    const { set, key, cost, peek } = query;
    const charged = (i: number): boolean => admits(waitOf(reply.verdicts, i));
    const admitted = reply.ban === 0 && set.policies.every(({ shadow }, i) => shadow || charged(i));
    if (peek || cost === 0 || !admitted) return;
    this.#release(query);
    // In the other modes the request was let pass, so its charge stays.
    if (this.#mode !== 'deny' && this.#mode !== 'throw') return;
    const units = set.policies.map((_, i) => (charged(i) ? -cost : 0));
    const change = { set, key, units, charged: chargedOf(reply), degraded: undefined };
    this.adjust(change).catch(() => {});
  }

  /** Frees the slots that the store took for a request whose caller got another answer. */
  #release({ set, key, cost, lease }: Query): void {
    if (lease === '') return;
    this.lease({ set, key, cost, lease, action: 'release', degraded: undefined }).catch(() => {});
  }

  async adjust(change: Change): Promise<ChangeReply> {
    if (change.degraded === 'local') return this.#local.adjust(change);
    // Only repeat the give-back of a decision's charge. Whoever gives back by hand sees the error, and can try again.
    if (change.charged) return this.#giveBack(change, (asked) => this.#store.adjust(asked), false, NOTHING);
    const asked = { ...change };
    const reply = await this.#ask(asked, () => this.#store.adjust(asked), change.set);
    if (!tellsCharges(reply, change.set)) throw malformedReply(reply);
    return reply;
  }

  async lease(change: LeaseChange): Promise<boolean> {
    if (change.degraded === 'local') return this.#local.lease(change);
    if (change.action === 'release')
      return this.#giveBack(change, (asked) => this.#store.lease(asked), true, true);
    const asked = { ...change };
    return this.#ask(asked, () => this.#store.lease(asked));
  }

  async reset(subject: Subject): Promise<void> {
    const asked = { ...subject };
    return this.#ask(asked, () => this.#store.reset(asked));
  }

  async ban(subject: Subject, duration: number, note?: BanNote): Promise<void> {
    const asked = { ...subject };
    return this.#ask(asked, () => this.#store.ban(asked, duration, note));
  }

  async probe(server: string | undefined, failed = this.#idle): Promise<boolean> {
    const queries = probesOf(this.#store, failed, server);
    if (!queries) return false;
    // The answers are awaited twice: until the timeout, and until the client has ended the calls.
    const answers = queries.map((query) => promise(() => this.#store.decide(query)));
    const answer = Promise.all(answers).then(([, read]) => read!);
    const [, asked] = queries;
    await this.#await(answer, asked, undefined, asked.set).catch(() => {});
    // A store with `whenReady` ends each call when its connection ends, at the latest.
    if (this.#store.whenReady) await quiet(Promise.allSettled(answers), this.#warn);
    return true;
  }

  whenReady(): Promise<void> | undefined {
    return this.#store.whenReady?.();
  }

  /** Resolves once all decisions under way have their answers. The store stays open. */
  async close(): Promise<void> {
    await this.#timeouts.idle();
    this.#breaker.unwatch(this);
    if (this.#onHealth) this.#breaker.listeners.delete(this.#onHealth);
    this.#breaker.warners.delete(this.#warn);
  }

  #downError(down: Circuit): HeadgateError {
    down.watch(this);
    const { server, since, lastError } = down;
    const what = server === undefined ? 'The store' : `The store's server ${server}`;
    const why = withoutPage(String(lastError?.message));
    const message = `${what} is down since ${new Date(since).toISOString()}: ${why}`;
    return new HeadgateError('HEADGATE_STORE_AWAY', message, { cause: lastError });
  }
}

/** Turns the result or the error of a call into a promise. */
function promise<T>(call: () => MaybePromise<T>): Promise<T> {
  try {
    const answer = call();
    return isPromise(answer) ? answer : Promise.resolve(answer);
  } catch (error) {
    return Promise.reject(coded(error));
  }
}
