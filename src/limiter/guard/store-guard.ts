import { HeadgateError, withoutPage } from '../../common/errors.js';
import type { Warn } from '../../common/warnings.js';
import type { GiveBack } from './backlog.js';
import { breakerOf, type Breaker } from './breaker.js';
import type { Health } from '../../contract/health.js';
import type { Circuit, Prober } from './circuit.js';
import { Eventual } from '../../common/eventual.js';
import type { Local } from './local.js';
import { idleProbe, probesOf, quiet } from './probe.js';
import { coded, failsAgain, hasDoneNothing, isOfRequest, isRefused } from '../../stores/store-error.js';
import {
  isReply,
  malformedReply,
  hasCharges,
  chargedOf,
  isPromise,
  newCall,
  type Call,
  type Change,
  type ChangeReply,
  type LeaseChange,
  type MaybePromise,
  type OverridePlace,
  type OverrideStore,
  type PolicySet,
  type Query,
  type Reply,
  type Store,
  type Subject,
} from '../../contract/store.js';
import type { BanNote } from '../../contract/ban-options.js';
import { admits, waitOf } from '../../contract/verdicts.js';
import { costAt } from '../../contract/costs.js';
import { Timeouts, type Awaited } from './timeouts.js';

/** The way to decide without the store: see `FailureOptions`. */
type Mode = 'local' | 'allow' | 'deny' | 'throw';

/**
 * A call of the store whose answer the caller awaits. It ends once: answered, failed or expired. Any effect that the store reports after that
 * is undone.
 */
class PendingCall<S extends Subject, T> extends Eventual<T> implements Awaited {
  readonly guard: StoreGuard;
  /** The question to the store. */
  readonly question: S;
  readonly call: Call;
  /** Whether the answer is a decision, with verdicts on the question's set. */
  readonly decides: boolean;
  asked = 0;
  open = false;
  previous: Awaited | undefined = undefined;
  next: Awaited | undefined = undefined;

  constructor(guard: StoreGuard, question: S, decides = false) {
    super();
    this.guard = guard;
    this.question = question;
    this.call = question.call!;
    this.decides = decides;
  }

  /** Receives the store's answer, possibly too late. */
  override resolve(value: T): void {
    const { timeouts, breaker } = this.guard;
    const isOverdue = timeouts.isOverdue(this);
    const isAwaited = timeouts.finish(this);
    const isFlawed = this.decides && !isReply(value, this.question.set);
    if (!isAwaited) {
      this.late();
      if (!isFlawed) this.undo(value);
    } else if (isFlawed) {
      this.fail(malformedReply(value));
    } else {
      breaker.success(this.question, isOverdue);
      super.resolve(value);
    }
  }

  /** Receives the store's error, possibly too late. */
  override reject(thrown: Error): void {
    const error = coded(thrown);
    const isAwaited = this.guard.timeouts.finish(this);
    this.lost(error);
    if (isAwaited) this.fail(error);
    else if (error.code === 'HEADGATE_PROCESS_LATE') this.late();
  }

  expire(error: HeadgateError): void {
    this.call.abandoned = true;
    this.fail(error);
  }

  protected fail(error: HeadgateError): void {
    const { breaker } = this.guard;
    if (error.code === 'HEADGATE_PROCESS_LATE') breaker.success(this.question, true);
    else if (isOfRequest(error)) breaker.success(this.question, false);
    else if (!isRefused(error)) breaker.failure(this.question, error, this.guard);
    let value: T;
    try {
      value = this.instead(error);
    } catch (thrown) {
      super.reject(coded(thrown));
      return;
    }
    super.resolve(value);
  }

  /** The answer in place of the store's. Throws if there is none. */
  protected instead(error: HeadgateError): T {
    throw error;
  }

  /** Called if the store answered after the caller stopped waiting. */
  protected late(): void {
    this.guard.breaker.answeredLate(this.question);
  }

  /** Takes back the store's effect, because the answer came too late. */
  protected undo(_value: T): void {}

  /** Called if the answer is lost, so that the store's effect may be unknown. */
  protected lost(_error: HeadgateError): void {}
}

/** Probes whether a store is back. */
class PendingProbe extends PendingCall<Query, Reply> {
  protected override late(): void {
    this.guard.breaker.answeredLate(this.question, true);
  }
}

/** Asks for a decision. Without the store's answer, the mode decides. */
class PendingDecision extends PendingCall<Query, Reply> {
  protected override instead(error: HeadgateError): Reply {
    return this.guard.instead(this.question, error);
  }

  protected override undo(reply: Reply): void {
    this.guard.undo(this.question, reply);
  }

  protected override lost(error: HeadgateError): void {
    if (!hasDoneNothing(error, this.call) && !failsAgain(error)) this.guard.release(this.question);
  }
}

/** Gives units or slots back. A refund must not be lost, so it is made later if the store cannot take it now. */
class PendingReturn<S extends Subject, T> extends PendingCall<S, T> {
  readonly #way: WayBack<S, T>;
  readonly #again: GiveBack;

  constructor(guard: StoreGuard, question: S, way: WayBack<S, T>, again: GiveBack) {
    super(guard, question);
    this.#way = way;
    this.#again = again;
  }

  // A refund is still right later, so it is never abandoned.
  override expire(error: HeadgateError): void {
    this.fail(error);
  }

  protected override instead(): T {
    return this.#way.later;
  }

  protected override lost(error: HeadgateError): void {
    if (failsAgain(error) || !(this.#way.repeatable || hasDoneNothing(error, this.call))) return;
    this.guard.breaker.circuitOf(this.question).backlog.add(this.#again);
  }
}

/** The way to give units or slots back. */
interface WayBack<S extends Subject, T> {
  readonly call: (question: S) => MaybePromise<T>;
  /** Whether a repetition does no harm. */
  readonly repeatable: boolean;
  /** The caller's result if the refund must be made later. */
  readonly later: T;
}

/** The reply to a caller whose units will be given back later. */
const NOTHING: ChangeReply = { now: 0, step: 0, ban: 0, verdicts: [], charged: [] };

/** Answers every question in time, whatever happens to its store. */
export class StoreGuard implements Store, Prober {
  readonly #store: Store;
  readonly #mode: Mode;
  readonly #local: Local;
  readonly #warn: Warn;
  readonly breaker: Breaker;
  readonly timeouts: Timeouts;
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
    const breaker = (this.breaker = breakerOf(store));
    const first = Math.max(timeout, connectTimeout);
    this.timeouts = new Timeouts(timeout, () => (breaker.hasAnswered ? timeout : first));
    this.#idle = idleProbe(timeout);
    if (onHealth) {
      breaker.listeners.set(this, onHealth);
      breaker.idle.watch(this, Infinity);
    } else {
      breaker.warners.set(this, warn);
    }
  }

  get health(): Health {
    this.breaker.idle.watch(this);
    return this.breaker.health;
  }

  keysOf(name: string): number {
    return this.#local.keysOf(name) + (this.#store.keysOf?.(name) ?? 0);
  }

  /** As the guarded store's. */
  get checkDimensions(): Store['checkDimensions'] {
    return this.#store.checkDimensions?.bind(this.#store);
  }

  /** As the guarded store's, but each answer or error comes in time. */
  get overrides(): OverrideStore | undefined {
    const { overrides } = this.#store;
    if (!overrides) return undefined;
    const ask = <T>(place: OverridePlace, send: (place: OverridePlace) => MaybePromise<T>): Promise<T> =>
      'subject' in place
        ? this.#ask(place.subject, (subject) => send({ ...place, subject }))
        : this.#ask<Subject, T>(allOf(place.set), ({ call }) => send({ ...place, call }));
    return {
      change: (place, change) => ask(place, (asked) => overrides.change(asked, change)),
      read: (place) => ask(place, (asked) => overrides.read(asked)),
    };
  }

  decide(query: Query): MaybePromise<Reply> {
    const down = this.breaker.downFor(query);
    if (down) return this.instead(query, undefined, down);
    if (query.failure) return this.instead(query, query.failure);
    let answer: MaybePromise<Reply>;
    try {
      answer = this.#store.decide(query);
    } catch (error) {
      answer = Promise.reject(coded(error));
    }
    if (isPromise(answer)) return this.#await(new PendingDecision(this, query, true), answer);
    return isReply(answer, query.set) ? answer : this.instead(query, malformedReply(answer));
  }

  /** Sends a question other than a decision, which only the store can answer. */
  async #ask<S extends Subject, T>(subject: S, call: (question: S) => MaybePromise<T>): Promise<T> {
    const down = this.breaker.downFor(subject);
    if (down) throw this.#downError(down);
    const asked = new PendingCall<S, T>(this, { ...subject, call: newCall() });
    return this.#await(asked, later(call, asked.question));
  }

  /** Gives units or slots back now, or once the store is up. */
  #giveBack<S extends Subject, T>(subject: S, way: WayBack<S, T>): Promise<T> {
    const again = (): Promise<T> => this.#giveBack(subject, way);
    const down = this.breaker.downFor(subject);
    if (down) {
      down.watch(this);
      down.backlog.add(again);
      return Promise.resolve(way.later);
    }
    const asked = new PendingReturn(this, { ...subject, call: newCall() }, way, again);
    return this.#await(asked, later(way.call, asked.question));
  }

  /** Waits for the store's answer, but not for longer than the timeout. */
  #await<T>(asked: PendingCall<Subject, T>, answer: Promise<T>): Promise<T> {
    this.timeouts.add(asked);
    Eventual.listen(answer, asked);
    return asked;
  }

  /** Answers a query in place of the store. @param error undefined if the store was not asked, because `down` is down */
  instead(query: Query, error: HeadgateError | undefined, down?: Circuit): Reply {
    if (this.#mode === 'throw') throw error ?? this.#downError(down!);
    down?.watch(this);
    if (this.#mode === 'local') return { ...this.#local.decide(query), error };
    const late = error?.code === 'HEADGATE_PROCESS_LATE';
    const reply: Reply = { now: Date.now(), step: 0, ban: 0, verdicts: [], degraded: this.#mode, error };
    return late ? { ...reply, late } : reply;
  }

  /** Gives back the slots that the store granted after the timeout, and also the units if the caller's answer was a denial. */
  undo(query: Query, reply: Reply): void {
    const { set, key, cost, peek } = query;
    const charged = (i: number): boolean => admits(waitOf(reply.verdicts, i));
    const admitted = reply.ban === 0 && set.policies.every(({ shadow }, i) => shadow || charged(i));
    if (peek || cost === 0 || !admitted) return;
    this.release(query);
    // In the other modes the request went on, so its charge stays.
    if (this.#mode !== 'deny' && this.#mode !== 'throw') return;
    const units = set.policies.map((_, i) => (charged(i) ? 0 - costAt(query, i) : 0));
    const change = { set, key, units, charged: chargedOf(reply), degraded: undefined };
    this.adjust(change).catch(() => {});
  }

  /** Frees the slots that the store granted to a request whose caller got another answer. */
  release({ set, key, cost, costs, lease }: Query): void {
    if (lease === '') return;
    this.lease({ set, key, cost, costs, lease, action: 'release', degraded: undefined }).catch(() => {});
  }

  async adjust(change: Change): Promise<ChangeReply> {
    if (change.degraded === 'local') return this.#local.adjust(change);
    // Only the refund of a decision's charge is repeated. A caller that refunds by hand sees the error, and can try again.
    const call = (question: Change): MaybePromise<ChangeReply> => this.#store.adjust(question);
    if (change.charged) return this.#giveBack(change, { call, repeatable: false, later: NOTHING });
    const reply = await this.#ask(change, call);
    if (!isReply(reply, change.set) || !hasCharges(reply, change.set)) throw malformedReply(reply);
    return reply;
  }

  async lease(change: LeaseChange): Promise<boolean> {
    if (change.degraded === 'local') return this.#local.lease(change);
    const call = (question: LeaseChange): MaybePromise<boolean> => this.#store.lease(question);
    if (change.action === 'release') return this.#giveBack(change, { call, repeatable: true, later: true });
    return this.#ask(change, call);
  }

  async reset(subject: Subject, isLogged?: boolean): Promise<void> {
    return this.#ask(subject, (question) => this.#store.reset(question, isLogged));
  }

  async ban(subject: Subject, duration: number, note?: BanNote): Promise<void> {
    return this.#ask(subject, (question) => this.#store.ban(question, duration, note));
  }

  async probe(server: string | undefined, failed: Subject | undefined): Promise<boolean> {
    const queries = probesOf(this.#store, failed, this.#idle, server);
    if (!queries) return false;
    // The answers are awaited twice: until the timeout, and until the client has ended the calls.
    const answers = queries.map(async (query) => this.#store.decide(query));
    const answer = Promise.all(answers).then(([, read]) => {
      // Keys of several dimensions lie on several servers. The probe proves the health of this one.
      if (server !== undefined) queries[1].call!.server = server;
      return read!;
    });
    await this.#await(new PendingProbe(this, queries[1]), answer).catch(() => {});
    // A store with `whenReady` ends each call when its connection ends, at the latest.
    if (this.#store.whenReady) await quiet(Promise.allSettled(answers), this.#warn);
    return true;
  }

  whenReady(): Promise<void> | undefined {
    return this.#store.whenReady?.();
  }

  /** Resolves once all decisions under way have their answers. The store stays open. */
  async close(): Promise<void> {
    await this.timeouts.idle();
    this.breaker.unwatch(this);
    this.breaker.listeners.delete(this);
    this.breaker.warners.delete(this);
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

/** The subject for all keys of a limiter. */
function allOf(set: PolicySet): Subject {
  return { set: { ...set, policies: [], ban: undefined }, key: '' };
}

/** Calls at once, and answers later, even if the call throws. */
async function later<S, T>(call: (question: S) => MaybePromise<T>, question: S): Promise<T> {
  return call(question);
}
