import { randomBytes } from 'node:crypto';
import { Eventual } from '../common/eventual.js';
import { HeadgateError, show } from '../common/errors.js';
import { lazy } from '../common/lazy.js';
import { checkWeight, leaseTag } from '../contract/shares.js';
import { checkCost, type Cost, type Costs } from '../contract/costs.js';
import { decisionChannel, storeChannel } from '../contract/diagnostics.js';
import type { Key } from '../contract/key.js';
import { checkId } from '../contract/request-ids.js';
import type { Reply } from '../contract/reply.js';
import {
  holdsSlots,
  isPromise,
  newCall,
  type Keys,
  type MaybePromise,
  type PolicySet,
  type Query,
  type Store,
  type Subject,
} from '../contract/store.js';
import { accountOf, type Account } from './charge.js';
import { conclude, switchedOff, type LimiterDecision } from './decision.js';
import type { Lifetime } from './lifetime.js';
import type { LiveLimits } from './live-limits.js';
import { inContext, observe, Reports, type InContext, type Unreported } from './observe.js';
import { costOf, type RequestOptions } from './options.js';
import type { Scope } from './scope.js';
import type { FirstQuestion } from './setup-checks.js';
import type { Setup } from './setup.js';
import { Slots } from './slots.js';
import { isOn, type Switch } from './switch.js';
import type { Tiers } from './tiers.js';
import { visibleQuery, visibleReply } from './waiting/process-line.js';
import { wake } from './waiting/rooms.js';
import { Turns } from './waiting/turns.js';

/** A query, and the way to repeat it. */
type LiveQuery = Query & {
  id?: string | undefined;
  readonly unreported: Unreported;
  /** Runs a function in the asynchronous context of the request. Absent if the store answered at once. */
  inContext?: InContext;
  /** Repeats the query by the policies of an override. Absent if the limiter has no overrides. */
  readonly again?:
    ((changes: NonNullable<Reply['clientChanges']>) => MaybePromise<LimiterDecision>) | undefined;
};

/** The most repetitions of a question. Before each repetition the override must have changed. */
export const MAX_REPETITIONS = 5;

/** The first part of the names of this process' slots. A number follows. */
const leasePrefix = lazy(() => randomBytes(9).toString('base64url'));
let leases = 0;

/**
 * The path of a decision: from a key to the store, and from the store's reply to the decision. Adapters call `decide` without the facade,
 * which saves functions per request.
 */
export class Asking {
  /** The option `enabled`. */
  readonly switch: Switch;
  /** The account through which decisions change their charges later. */
  readonly account: Account;
  /** The slots held by this process. */
  readonly slots = new Slots();
  /** The turns given ahead of time. */
  readonly turns = new Turns();
  readonly #name: string;
  readonly #tiers: Tiers;
  /** The policies of requests without a tier. Undefined if every request needs a tier. */
  readonly #untiered: PolicySet | undefined;
  readonly #shadow: boolean;
  readonly #store: Store;
  readonly #scope: Scope;
  readonly #set: PolicySet;
  readonly #live: LiveLimits | undefined;
  /** Receives each answer of the store, reported or not. Undefined without `limitFetch`. */
  onAnswer: ((decision: LimiterDecision) => void) | undefined;
  readonly #freshBans: boolean;
  /** Whether the store decides in this process. */
  readonly #embedded: boolean;
  readonly #life: Lifetime;
  #firstQuestion: FirstQuestion | undefined;
  readonly reports: Reports;

  constructor(setup: Setup, life: Lifetime) {
    const { set, tiers, source, store, live } = setup;
    const { name } = set;
    this.#name = name;
    this.#set = set;
    this.#tiers = tiers;
    this.#untiered = tiers.areNeeded ? undefined : set;
    this.#shadow = setup.shadow;
    this.#store = store;
    this.#scope = setup.scope;
    this.#live = live;
    this.switch = setup.enabled;
    this.#freshBans = setup.freshBans;
    this.#firstQuestion = setup.firstQuestion;
    this.#embedded = source.embedded ?? false;
    this.reports = new Reports(setup);
    this.#life = life;
    this.account = accountOf(
      store,
      this.slots,
      (subject) => wake(source, name, subject),
      (cost, charged) => this.#scope.checkCost(cost, charged),
      (charged) => live?.ofChange(charged) ?? charged,
    );
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
    unreported?: Unreported,
  ): Promise<LimiterDecision> {
    try {
      const cost = options === undefined ? 1 : costOf(options, peek);
      const tier = options?.tier;
      const set = (tier === undefined && this.#untiered) || this.#tiers.of(tier);
      const weight = options?.weight === undefined ? undefined : checkWeight('weight', options.weight);
      const decided = this.decide(key, cost, set, peek, unreported, options?.id, weight);
      if (!this.#embedded) return Promise.resolve(decided);
      // After this check, V8 need not search a decision for `then`, which would take 10 % of a decision in memory.
      return 'then' in decided ? decided : Promise.resolve(decided);
    } catch (thrown) {
      const error = thrown as Error;
      return Promise.reject(error);
    }
  }

  /** The denial of a request for which a line has no room, with the wait of a request without a line. */
  async noRoom(set: PolicySet, key: Key, cost: Cost): Promise<LimiterDecision> {
    const decision = await this.decide(key, cost, set, true, 'all');
    return decision.deniedFor('queue-full', decision.retryAfterMs ?? 0);
  }

  /** A decision without the store's answer. @param degraded `'deny'` if the store did not answer in time. A shadow then admits the request */
  withoutStore(set: PolicySet, key: Key, cost: Cost, degraded?: 'deny'): LimiterDecision {
    const subject = this.#scope.subject(set, key);
    const query: Query = { ...subject, ...this.#scope.costs(cost, subject.set, set), peek: true, lease: '' };
    const reply: Reply = { now: Date.now(), step: 0, ban: 0, verdicts: [], ...(degraded && { degraded }) };
    return conclude(undefined, query, reply, this.#shadow);
  }

  /** The decision of a list. The store is not asked, and nothing is charged. */
  listed(key: Key, reason: 'allow-listed' | 'deny-listed'): LimiterDecision {
    const query: Query = { ...this.subject(key), cost: 0, peek: true, lease: '' };
    const reply: Reply = { now: Date.now(), step: 0, ban: 0, verdicts: [] };
    const allowed = reason === 'allow-listed';
    const retryAfterMs = allowed ? 0 : undefined;
    const decision = conclude(undefined, query, reply, this.#shadow, { allowed, reason, retryAfterMs });
    this.reports.count?.(decision);
    this.reports.report(decision, false);
    return decision;
  }

  /** Asks by the key's policies as far as this process knows, and again if the store knows later policies. */
  #askLive(
    live: LiveLimits,
    key: Key,
    cost: Cost,
    set: PolicySet,
    peek: boolean,
    unreported: Unreported,
    id: string | undefined,
    weight: number | undefined,
  ): MaybePromise<LimiterDecision> {
    let left = MAX_REPETITIONS;
    const again = (changes: NonNullable<Reply['clientChanges']>): MaybePromise<LimiterDecision> => {
      if (left-- === 0)
        throw new HeadgateError('HEADGATE_OVERRIDES', `The override of ${show(key)} changes all the time.`);
      return this.decide(key, cost, live.learn(key, set, changes), peek, unreported, id, weight, again);
    };
    const own = live.current(key, set);
    if (!isPromise(own)) return this.decide(key, cost, own, peek, unreported, id, weight, again);
    return own.then(
      (read) => this.decide(key, cost, read, peek, unreported, id, weight, again),
      (failure: HeadgateError) => this.decide(key, cost, set, peek, unreported, id, weight, again, failure),
    );
  }

  /**
   * Decides a request, and charges the cost if every policy admits the request. Returns no promise if the store answers at once.
   *
   * @param peek whether the decision is only looked up, without a charge
   * @param unreported the decisions that the caller reports. By default, every decision is reported here
   * @param id the request's id
   * @param weight the weight of the tenant, if the request has its own
   * @param again repeats the question if an override changes the policies. Absent for the first question
   * @param failure the error of a read that had to come first. `onStoreError` then decides at once, because the request has already waited once
   * @throws (or rejects) as `consume`
   */
  decide(
    key: Key,
    asked: Cost,
    given: PolicySet,
    peek: boolean,
    unreported: Unreported = 'none',
    id?: string,
    weight?: number,
    again?: LiveQuery['again'],
    failure?: HeadgateError,
  ): MaybePromise<LimiterDecision> {
    if (this.#life.isClosed) throw this.#life.closedError();
    // The switch is read once per decision, even if the question is repeated.
    const isOff = !again && this.switch !== true && !isOn(this.switch);
    if (!again) {
      if (this.#firstQuestion !== undefined && !peek && !this.#firstQuestion.check())
        this.#firstQuestion = undefined;
      // The overrides are in the store, which is not asked while the limiter is off.
      if (this.#live && !isOff)
        return this.#askLive(this.#live, key, asked, given, peek, unreported, id, weight);
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
    if (typeof asked === 'number') cost = checkCost(asked);
    else ({ cost, costs } = this.#scope.costs(asked, set, given));
    const leased = !peek && cost > 0 && holdsSlots(set);
    const lease = leased ? `${leasePrefix()}${(leases++).toString(36)}${leaseTag({ set, key: keys })}` : '';
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
      weight,
    };
    if (id !== undefined) {
      const checked = checkId(id, set, this.#store);
      if (!isLook) query.id = checked;
    }
    if (failure) query.failure = failure;
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
    if (!isPromise(reply)) return this.#conclude(query, reply, peek, true);
    if (storeChannel.hasSubscribers) observe(this.#name, reply);
    return this.#eventually(query, reply, peek);
  }

  /** The decision if neither a policy nor a ban applies. */
  #unlimited(
    subject: Subject,
    costs: Costs,
    isOff: boolean,
    unreported: Unreported,
  ): MaybePromise<LimiterDecision> {
    const query: LiveQuery = { ...subject, ...costs, peek: true, lease: '', unreported };
    if (isOff) return switchedOff(query);
    return this.#conclude(query, { now: Date.now(), step: 0, ban: 0, verdicts: [] }, true);
  }

  /** A separate method, because V8 allocates a closure's context at function entry, even on paths that never create the closure. */
  #eventually(query: LiveQuery, reply: Promise<Reply>, peek: boolean): Promise<LimiterDecision> {
    if (decisionChannel.hasSubscribers || this.reports.onDecision) query.inContext = inContext();
    return new Promise((resolve, reject) => {
      Eventual.listen(reply, {
        resolve: (value) => {
          try {
            resolve(this.#conclude(query, value, peek));
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
  #conclude(query: LiveQuery, reply: Reply, peek: boolean, atOnce = false): MaybePromise<LimiterDecision> {
    if (reply.clientChanges !== undefined && query.again) return query.again(reply.clientChanges);
    if (query.set.isInLine) {
      const visible = visibleQuery(query);
      return this.#conclude(visible, visibleReply(reply, visible.set), peek, atOnce);
    }
    const account = peek ? undefined : this.account;
    const decision = conclude(account, query, reply, this.#shadow);
    if (decision.delayMs > 0 && !this.#embedded && !decision.degraded) this.turns.note(decision, reply.now);
    this.onAnswer?.(decision);
    const isReported = query.unreported === 'none' || (query.unreported === 'held' && decision.delayMs === 0);
    if (isReported && (decisionChannel.hasSubscribers || this.reports.onDecision))
      this.reports.report(decision, atOnce, query);
    if (query.lease !== '' && decision.units.some((units) => units > 0))
      this.slots.take(query, decision.policies);
    if (reply.ban < 0 && this.#freshBans) void this.#life.track(this.#forget(query)).catch(() => {});
    if (isReported && this.reports.count && !query.peek) this.reports.count(decision);
    if (decision.reason === 'cost-exceeds-capacity') this.reports.warnOfCost(decision);
    return decision;
  }

  /** Forgets the charges of a key at its ban. If the reset fails, the charges count until the end of the window. */
  async #forget(subject: Subject): Promise<void> {
    this.#scope.remember(subject.set.policies);
    await this.#store.reset(this.#scope.banned(subject), false);
  }
}

/** Whether neither a policy nor a ban of a set applies to a request. */
export function isNothing({ policies, ban }: PolicySet): boolean {
  return policies.length === 0 && !ban;
}
