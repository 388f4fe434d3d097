import { inBackground } from '../../common/background.js';
import type { Warn } from '../../common/warnings.js';
import type { ChangeNote } from '../../contract/change-note.js';
import { costAt } from '../../contract/costs.js';
import type { Health } from '../../contract/health.js';
import {
  malformedReply,
  chargedOf,
  type ChangeReply,
  unanswered,
  type Reply,
  type UsageReply,
} from '../../contract/reply.js';
import {
  isReply,
  hasCharges,
  isPromise,
  newCall,
  type ChargeChange,
  type LeaseChange,
  type MaybePromise,
  type Query,
  type Store,
  type Subject,
} from '../../contract/store.js';
import { releaseOf } from '../../features/slots/slots.js';
import { admits, waitOf } from '../../contract/verdicts.js';
import { coded, failsAgain, hasDoneNothing } from '../../stores/store-error.js';
import { breakerOf, type Breaker } from './breaker.js';
import type { FailureValues } from './guard-options.js';
import { Local } from './local.js';
import { idleProbe, probesOf, quiet } from './probe.js';
import { Question, Timeouts, type Asker, type Kind } from './question.js';
import { askedBy } from '../overrides/read-records.js';
import { askUsage } from '../usage.js';
import { strategyOf, type Strategy } from './strategies.js';

/**
 * Makes a store answer in time, even if the store fails. An embedded store always answers, and is returned unchanged.
 */
export function guarded(store: Store, options: FailureValues, warn: Warn): Store {
  return store.embedded ? store : new StoreGuard(store, options, warn);
}

/** The reply to a caller whose units will be given back later. */
const NOTHING: ChangeReply = { ...unanswered(0), charged: [] };

type Send<Q, T> = (question: Q) => MaybePromise<T>;

const PROBE: Kind<Query, Reply> = { probes: true };

/** Answers every question in time, even if the store fails. */
class StoreGuard implements Store, Asker {
  readonly breaker: Breaker;
  readonly timeouts: Timeouts;
  readonly #store: Store;
  readonly #strategy: Strategy;
  readonly #local: Local;
  readonly #warn: Warn;
  readonly #idle: Subject;
  readonly #decision: Kind<Query, Reply>;

  constructor(store: Store, options: FailureValues, warn: Warn) {
    const { onStoreError: mode, localShare: share, timeout, connectTimeout, onHealth } = options;
    const local = (this.#local = new Local(store, share));
    const strategy = (this.#strategy = strategyOf(mode, local));
    const breaker = (this.breaker = breakerOf(store));
    const first = Math.max(timeout, connectTimeout);
    this.timeouts = new Timeouts(timeout, () => (breaker.answers > 0 ? timeout : first));
    this.#store = store;
    this.#warn = warn;
    this.#idle = idleProbe(timeout);
    this.#decision = {
      decides: true,
      instead: (query, error) => strategy.decide(query, error, breaker.failingFor(query)),
      undo: (query, reply) => this.#undo(query, reply),
      lost: (query, error) => {
        if (!hasDoneNothing(error, query.call!) && !failsAgain(error)) this.#release(query);
      },
    };
    breaker.warners.set(this, warn);
    if (onHealth) {
      breaker.listeners.set(this, onHealth);
      breaker.idle.watch(this, Infinity);
    }
  }

  get health(): Health {
    this.breaker.idle.watch(this);
    return this.breaker.health;
  }

  keysOf(name: string): number {
    return this.#local.keysOf(name) + (this.#store.keysOf?.(name) ?? 0);
  }

  get remembersIds(): Store['remembersIds'] {
    return this.#store.remembersIds;
  }

  get checkDimensions(): Store['checkDimensions'] {
    return this.#store.checkDimensions?.bind(this.#store);
  }

  /** As the guarded store's, but each answer or error comes in time. */
  get overrides(): Store['overrides'] {
    const { overrides } = this.#store;
    return overrides && askedBy((subject, send) => this.#ask(subject, send), overrides);
  }

  decide(query: Query): MaybePromise<Reply> {
    const down = this.breaker.downFor(query);
    if (down) {
      down.watch(this);
      return this.#strategy.decide(query, undefined, down);
    }
    if (query.failure) return this.#strategy.decide(query, query.failure);
    let answer: MaybePromise<Reply>;
    try {
      answer = this.#store.decide(query);
    } catch (error) {
      answer = Promise.reject(coded(error));
    }
    if (isPromise(answer)) {
      const question = new Question(this, query, this.#decision);
      this.timeouts.wait(question, answer);
      return question.answer;
    }
    return isReply(answer, query.set) ? answer : this.#strategy.decide(query, malformedReply(answer));
  }

  /** Sends a question other than a decision, which only the store can answer. */
  async #ask<S extends Subject, T>(subject: S, send: Send<S, T>): Promise<T> {
    const down = this.breaker.downFor(subject);
    if (!down) return this.#send(subject, send, {});
    down.watch(this);
    throw down.error();
  }

  /**
   * Gives units or slots back now, or once the store is up.
   *
   * @param later the caller's result if the store cannot be reached now
   * @param isRepeatable whether a repetition does no harm
   */
  #giveBack<S extends Subject, T>(subject: S, send: Send<S, T>, later: T, isRepeatable: boolean): Promise<T> {
    const again = (): Promise<T> => this.#giveBack(subject, send, later, isRepeatable);
    const down = this.breaker.downFor(subject);
    if (down) {
      down.watch(this);
      down.backlog.add(again);
      return Promise.resolve(later);
    }
    return this.#send(subject, send, {
      stays: true,
      instead: () => later,
      lost: (question, error) => {
        if (failsAgain(error) || !(isRepeatable || hasDoneNothing(error, question.call!))) return;
        this.breaker.circuitOf(question).backlog.add(again);
      },
    });
  }

  #send<S extends Subject, T>(subject: S, send: Send<S, T>, kind: Kind<S, T>): Promise<T> {
    const question = new Question(this, { ...subject, call: subject.call ?? newCall() }, kind);
    // A store may throw instead of rejecting.
    const answer = (async () => send(question.subject))();
    this.timeouts.wait(question, answer);
    return question.answer;
  }

  /** Gives back slots granted after the time limit, and also the units if the caller's answer was a denial. */
  #undo(query: Query, reply: Reply): void {
    const { set, key, cost, peek } = query;
    const isCharged = (i: number): boolean => admits(waitOf(reply.verdicts, i));
    const isAdmitted = reply.ban === 0 && set.policies.every(({ shadow }, i) => shadow || isCharged(i));
    if (peek || cost === 0 || !isAdmitted) return;
    this.#release(query);
    // The caller may repeat an id, and the repetition relies on the charge.
    if (query.id !== undefined && !reply.isIdSpent) return;
    // Otherwise the request went on, so its charge stays.
    if (!this.#strategy.isTurnedAway) return;
    const units = set.policies.map((_, i) => (isCharged(i) ? 0 - costAt(query, i) : 0));
    const change = { set, key, units, charged: chargedOf(reply), degraded: undefined };
    void inBackground('A late charge was not given back', this.adjust(change), this.#warn);
  }

  /** Frees the store's slots of a request if the caller got another answer. */
  #release(query: Query): void {
    if (query.lease === '') return;
    void inBackground('A late slot was not given back', this.lease(releaseOf(query)), this.#warn);
  }

  async adjust(change: ChargeChange): Promise<ChangeReply> {
    if (change.degraded === 'local') return this.#local.adjust(change);
    const send: Send<ChargeChange, ChangeReply> = (question) => this.#store.adjust(question);
    // Only the refund of a decision's charge is repeated. A caller that refunds by hand sees the error, and can try again.
    if (change.charged) return this.#giveBack(change, send, NOTHING, false);
    const reply = await this.#ask(change, send);
    if (!isReply(reply, change.set) || !hasCharges(reply, change.set)) throw malformedReply(reply);
    return reply;
  }

  async lease(change: LeaseChange): Promise<boolean> {
    if (change.degraded === 'local') return this.#local.lease(change);
    const send: Send<LeaseChange, boolean> = (question) => this.#store.lease(question);
    if (change.action === 'release') return this.#giveBack(change, send, true, true);
    return this.#ask(change, send);
  }

  async reset(subject: Subject, isLogged?: boolean): Promise<void> {
    this.#local.reset(subject);
    return this.#ask(subject, (question) => this.#store.reset(question, isLogged));
  }

  async usage(subject: Subject): Promise<UsageReply> {
    return this.#ask(subject, (question) => askUsage(this.#store, question));
  }

  async ban(subject: Subject, duration: number, note?: ChangeNote): Promise<void> {
    if (duration === 0) this.#local.forgive(subject);
    return this.#ask(subject, (question) => this.#store.ban(question, duration, note));
  }

  async probe(server: string | undefined, failed: Subject | undefined): Promise<boolean> {
    const queries = probesOf(this.#store, failed, this.#idle, server);
    if (!queries) return false;
    // The answers are awaited twice: until the time limit, and until the client has ended the calls.
    const answers = queries.map(async (query) => this.#store.decide(query));
    const answer = Promise.all(answers).then(([, read]) => {
      // Keys of several dimensions lie on several servers. The probe proves the health of the given server.
      if (server !== undefined) queries[1].call!.server = server;
      return read!;
    });
    const question = new Question(this, queries[1], PROBE);
    this.timeouts.wait(question, answer);
    await question.answer.catch(() => {});
    // A store with `whenReady` ends each call when its connection ends, at the latest.
    if (this.#store.whenReady) await quiet(Promise.allSettled(answers), this.#warn);
    return true;
  }

  whenReady(): Promise<void> | undefined {
    return this.#store.whenReady?.();
  }

  /** Resolves once every question under way has its answer. The store stays open. */
  async close(): Promise<void> {
    await this.timeouts.idle();
    this.breaker.unwatch(this);
  }
}
