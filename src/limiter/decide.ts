import { checkFields, fieldsOf, fieldsOfLook } from '../features/features.js';
import { Eventual } from '../common/eventual.js';
import type { HeadgateError } from '../common/errors.js';
import { checkCost, type Costs } from '../contract/costs.js';
import { decisionChannel, storeChannel } from '../contract/diagnostics.js';
import type { RequestFields } from '../contract/features.js';
import type { Key } from '../contract/key.js';
import { unanswered, type Reply } from '../contract/reply.js';
import {
  holdsSlots,
  isNothing,
  isPromise,
  lookOf,
  mayDelay,
  newCall,
  type Keys,
  type MaybePromise,
  type PolicySet,
  type Store,
  type Subject,
} from '../contract/store.js';
import { accountOf, type Account } from './charge.js';
import { conclude, switchedOff, type Asked, type LimiterDecision } from './decision.js';
import type { Lifetime } from './lifetime.js';
import { changesAllTheTime, MAX_REPETITIONS, type LiveLimits } from './live-limits.js';
import { acrossEnd, type Again } from './overrides/later.js';
import { inContext, observe, Reports, type InContext, type Unreported } from './observe.js';
import { costOf, type RequestOptions } from './options.js';
import { Repetitions } from './repetitions.js';
import type { Request } from './request.js';
import type { Scope } from './scope.js';
import type { FirstQuestion } from './setup-checks.js';
import type { CheckedOptions } from './checked-options.js';
import { newLease } from '../features/slots/slots.js';
import { ProcessSlots } from '../features/slots/process-slots.js';
import { isOn, type Enabled } from './enabled.js';
import type { Tiers } from './tiers.js';
import { Unasked } from './unasked.js';
import { visibleQuery, visibleReply } from './waiting/process-line.js';
import { wake } from './waiting/wake-ups.js';
import { ReservedTurns } from './waiting/turns.js';

type LiveQuery = Asked & {
  /** The keys as the caller named them, if there is an id. */
  readonly named?: Key;
  readonly unreported: Unreported;
  /** Runs a function in the asynchronous context of the request. Absent if the store answered at once. */
  inContext?: InContext;
  /** Absent if the limiter has no overrides, or if the reply already takes account of their ends. */
  readonly again?: Again | undefined;
};

/**
 * The path of a decision: from a key to the store, and from the store's reply to the decision. Adapters call `decide` without the facade,
 * which saves functions per request.
 */
export class Decider {
  readonly switch: Enabled;
  /** The account through which decisions change their charges later. */
  readonly account: Account;
  readonly slots = new ProcessSlots();
  readonly turns = new ReservedTurns();
  readonly #name: string;
  readonly #tiers: Tiers;
  /** The policies of requests without a tier. Undefined if every request needs a tier. */
  readonly #untiered: PolicySet | undefined;
  readonly #shadow: boolean;
  readonly #store: Store;
  readonly #scope: Scope;
  readonly #set: PolicySet;
  readonly #live: LiveLimits | undefined;
  readonly #repetitions: Repetitions;
  /** Receives each answer of the store, reported or not. Undefined without `limitFetch`. */
  onAnswer: ((decision: LimiterDecision) => void) | undefined;
  readonly #embedded: boolean;
  readonly #life: Lifetime;
  #firstQuestion: FirstQuestion | undefined;
  readonly reports: Reports;
  readonly unasked: Unasked;

  constructor(setup: CheckedOptions, life: Lifetime) {
    const { set, tiers, source, store, live } = setup;
    this.#name = set.name;
    this.#set = set;
    this.#tiers = tiers;
    this.#untiered = tiers.areNeeded ? undefined : set;
    this.#shadow = setup.shadow;
    this.#store = store;
    this.#scope = setup.scope;
    this.#live = live;
    this.#repetitions = new Repetitions(setup);
    this.switch = setup.enabled;
    this.#firstQuestion = setup.firstQuestion;
    this.#embedded = source.embedded ?? false;
    this.reports = new Reports(setup);
    this.unasked = new Unasked(setup, this.reports);
    this.#life = life;
    this.account = accountOf({
      store,
      slots: this.slots,
      wake: (subject) => wake(set.name, subject),
      checkCost: (cost, charged) => this.#scope.checkCost(cost, charged),
      setOf: (charged) => live?.ofChange(charged) ?? charged,
    });
  }

  /** Whether the limiter is on. @throws HeadgateError `HEADGATE_INVALID_OPTION` if the function does not return a boolean */
  get enabled(): boolean {
    return isOn(this.switch);
  }

  /** @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_DIMENSION`, `HEADGATE_CLOSED` */
  subject(key: Key, set = this.#set): Subject {
    this.#life.checkOpen();
    return this.#scope.subject(set, key);
  }

  /** Decides for `consume` and `peek`. Not an async function, because a second promise costs 4 % of a decision on Redis. */
  answer(
    key: Key,
    options: RequestOptions | undefined,
    peek: boolean,
    unreported: Unreported = 'none',
  ): Promise<LimiterDecision> {
    try {
      const cost = options === undefined ? 1 : costOf(options, peek);
      const tier = options?.tier;
      const set = (tier === undefined && this.#untiered) || this.#tiers.of(tier);
      const fields = options === undefined ? undefined : fieldsOf(options);
      const request: Request = { key, cost, set, peek, unreported, fields, again: undefined };
      const decided = this.decide(request);
      if (!this.#embedded) return Promise.resolve(decided);
      // After this check, V8 need not search a decision for `then`, which would take 10 % of a decision in memory.
      return 'then' in decided ? decided : Promise.resolve(decided);
    } catch (thrown) {
      const error = thrown as Error;
      return Promise.reject(error);
    }
  }

  /** The denial of a request for which a line has no room, with the wait of a request without a line. */
  async noRoom(request: Request): Promise<LimiterDecision> {
    const decision = await this.decide({ ...request, peek: true, unreported: 'all' });
    return decision.deniedFor('queue-full', decision.retryAfterMs ?? 0);
  }

  /** Asks by the key's policies as far as this process knows, and again if the store knows later policies. */
  #askLive(live: LiveLimits, request: Request): MaybePromise<LimiterDecision> {
    const { key, set } = request;
    let left = MAX_REPETITIONS;
    const ask = (own: PolicySet) => this.decide({ ...request, set: own, again });
    const askCurrent = (): MaybePromise<LimiterDecision> => {
      const own = live.current(key, set);
      if (!isPromise(own)) return ask(own);
      return own.then(ask, (failure: HeadgateError) => this.decide({ ...request, again, failure }));
    };
    const again: Again = (changes, later) => {
      if (changes && left-- === 0) throw changesAllTheTime(key);
      if (changes) {
        live.learn(key, set, changes);
        return askCurrent();
      }
      const look: Again = (news, further) => again(undefined, news ? live.learn(key, set, news) : further);
      const fields = fieldsOfLook(request.fields);
      const behind = { ...request, set: later!, peek: true, fields, again: look };
      return this.decide({ ...behind, unreported: 'unseen' });
    };
    return askCurrent();
  }

  /**
   * Decides a request, and charges the cost if every policy admits. Returns no promise if the store answers at once.
   *
   * @throws (or rejects) as `consume`
   */
  decide(request: Request): MaybePromise<LimiterDecision> {
    if (this.#life.isClosed) throw this.#life.closedError();
    const { key, peek, unreported, fields, again, cost: asked, set: given } = request;
    // The switch is read once per decision, even if the question is repeated.
    const isOff = !again && this.switch !== true && !isOn(this.switch);
    if (!again) {
      if (this.#firstQuestion !== undefined && !peek && !this.#firstQuestion.check())
        this.#firstQuestion = undefined;
      // The overrides are in the store, which is not asked while the limiter is off.
      if (this.#live && !isOff) return this.#askLive(this.#live, request);
    }
    let set = given;
    let keys: Keys;
    if (typeof key === 'string' && set.dimensions === undefined && set.policies.length > 0) {
      keys = key;
    } else {
      const subject = this.#scope.subject(given, key);
      if (isNothing(subject.set))
        return this.#unlimited(subject, this.#scope.costs(asked, given), isOff, unreported);
      ({ set, key: keys } = subject);
    }
    let cost: number;
    let costs: Costs['costs'];
    if (typeof asked === 'number') cost = asked === 1 ? 1 : checkCost(asked);
    else ({ cost, costs } = this.#scope.costs(asked, set, given));
    const leased = !peek && cost > 0 && holdsSlots(set);
    const lease = leased ? newLease({ set, key: keys }) : '';
    const call = this.#embedded ? undefined : newCall();
    const isLook = peek || cost === 0;
    const query: LiveQuery = {
      set,
      key: keys,
      cost,
      costs,
      peek: isLook,
      lease,
      call,
      again,
      unreported,
      account: peek ? undefined : this.account,
    };
    if (fields !== undefined) this.#addFields(query, fields, key);
    if (request.failure) query.failure = request.failure;
    if (isOff) return switchedOff(query);
    let reply: MaybePromise<Reply>;
    try {
      reply = this.#store.decide(query);
    } catch (thrown) {
      // The store is down, and its error is thrown.
      const error = thrown as Error;
      if (storeChannel.hasSubscribers) observe(this.#name, Promise.reject(error));
      throw error;
    }
    if (!isPromise(reply)) return this.#conclude(query, reply, true);
    if (storeChannel.hasSubscribers) observe(this.#name, reply);
    return this.#eventually(query, reply);
  }

  /** Adds the options of features, checked, to a question. @param named the keys as the caller named them */
  #addFields(query: LiveQuery, fields: RequestFields, named: Key): void {
    const { set, peek } = query;
    checkFields(fields, set, this.#store);
    Object.assign(query, peek ? fieldsOfLook(fields) : fields);
    if (query.id !== undefined) Object.assign(query, this.#repetitions.begin(query.id, named, set));
  }

  /** The decision on a request to which nothing applies. */
  #unlimited(
    subject: Subject,
    costs: Costs,
    isOff: boolean,
    unreported: Unreported,
  ): MaybePromise<LimiterDecision> {
    const query: LiveQuery = { ...lookOf(subject, costs), unreported };
    if (isOff) return switchedOff(query);
    return this.#conclude(query, unanswered());
  }

  /** A separate method, because V8 allocates a closure's context at function entry, even on paths that never create the closure. */
  #eventually(query: LiveQuery, reply: Promise<Reply>): Promise<LimiterDecision> {
    if (decisionChannel.hasSubscribers || this.reports.onDecision) query.inContext = inContext();
    return new Promise((resolve, reject) => {
      Eventual.listen(reply, {
        resolve: (value) => {
          try {
            resolve(this.#conclude(query, value));
          } catch (thrown) {
            const error = thrown as Error;
            reject(error);
          }
        },
        reject,
      });
    });
  }

  /** @param atOnce whether the answer was there without waiting */
  #conclude(query: LiveQuery, reply: Reply, atOnce = false): MaybePromise<LimiterDecision> {
    if (reply.clientChanges !== undefined && query.again) return query.again(reply.clientChanges);
    if (query.id !== undefined && (reply.first || reply.isIdSpent))
      return this.#repeated(query, reply, atOnce);
    if (query.set.isInLine) {
      const visible = visibleQuery(query);
      return this.#conclude(visible, visibleReply(reply, visible.set), atOnce);
    }
    const across = query.again && acrossEnd(query, reply);
    if (across) return this.#behind(query, across, atOnce);
    const decision = conclude(query, reply, this.#shadow);
    if (query.unreported === 'unseen') return decision;
    if (!decision.degraded && decision.allowed && mayDelay(query.set))
      this.turns.note(decision, this.#embedded ? undefined : reply.now);
    this.onAnswer?.(decision);
    const isReported = query.unreported === 'none' || (query.unreported === 'held' && decision.delayMs === 0);
    if (isReported && (decisionChannel.hasSubscribers || this.reports.onDecision))
      this.reports.report(decision, atOnce, query);
    if (query.lease !== '' && decision.units.some((units) => units > 0))
      this.slots.take(query, decision.policies);
    if (isReported && !query.peek) this.reports.announced?.count?.(decision);
    if (decision.reason === 'cost-exceeds-capacity') this.reports.warnOfCost(decision);
    return decision;
  }

  /** The answer to a repeated id. Like `#behind` a separate method, because of its closure: see `#eventually`. */
  #repeated(query: LiveQuery, reply: Reply, atOnce: boolean): MaybePromise<LimiterDecision> {
    return this.#repetitions.answer(query, reply, (...answer) => this.#conclude(...answer, atOnce));
  }

  /** The decision from the answer with the limits behind the end of an override. */
  #behind(query: LiveQuery, across: MaybePromise<Reply>, atOnce: boolean): MaybePromise<LimiterDecision> {
    const go = (answer: Reply) => this.#conclude({ ...query, again: undefined }, answer, atOnce);
    return isPromise(across) ? across.then(go) : go(across);
  }
}
