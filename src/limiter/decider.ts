import { randomBytes } from 'node:crypto';
import { listen, type Listener } from '../common/eventual.js';
import { HeadgateError, show } from '../common/errors.js';
import { performance } from '../common/real-time.js';
import { checkCost } from '../common/validate.js';
import type { Warn } from '../common/warnings.js';
import {
  decisionChannel,
  storeChannel,
  type DecisionMessage,
  type StoreMessage,
} from '../contract/diagnostics.js';
import type { Cost, Costs } from '../contract/costs.js';
import type { Key } from '../contract/key.js';
import { holdsSlots } from '../contract/policy.js';
import {
  isPromise,
  newCall,
  type Announced,
  type Keys,
  type MaybePromise,
  type PolicySet,
  type Query,
  type Reply,
  type Store,
  type Subject,
} from '../contract/store.js';
import { soleVerdict } from '../contract/verdicts.js';
import type { Account } from './charge.js';
import { conclude, type LimiterDecision, type Ruling } from './decision.js';
import type { LiveLimits } from './live-limits.js';
import { costOf, type ConsumeOptions, type LimiterOptions } from './options.js';
import type { Scope } from './scope.js';
import type { FirstQuestion } from './setup-checks.js';
import type { Slots } from './slots.js';
import { isOn, type Switch } from './switch.js';
import type { Tiers } from './tiers.js';

/** The answers of the failure policy without a store. It tells denied callers to try again in a second. */
const RULINGS: Readonly<Record<NonNullable<Reply['degraded']>, Ruling | undefined>> = {
  local: undefined,
  allow: { allowed: true, reason: 'store-error', retryAfterMs: 0 },
  deny: { allowed: false, reason: 'store-error', retryAfterMs: 1000 },
};

const LEASE_PREFIX = randomBytes(9).toString('base64url');
let leases = 0;

/** What a `Decider` needs to know of its limiter. */
export interface DeciderParts {
  readonly name: string;
  readonly scope: Scope;
  readonly store: Store;
  /** Whether the store decides in this process. */
  readonly embedded: boolean;
  /** The slots that this process holds. */
  readonly slots: Slots;
  readonly shadow: boolean;
  readonly enabled: Switch;
  readonly warn: Warn;
  readonly onDecision: LimiterOptions['onDecision'];
  /** The account through which decisions change their charges later. */
  readonly account: Account;
  /** Checks the limiter's first questions for a mistake in the set-up. Undefined: there is nothing to check. */
  readonly firstQuestion: FirstQuestion | undefined;
  /** Receives each query whose denial began a ban. */
  readonly onBan: ((query: Query) => void) | undefined;
  /** Undefined: the limiter has no overrides. */
  readonly live: LiveLimits | undefined;
}

/** A question, and how it is asked again. */
type Question = Query & {
  /** Asks by the policies that an override says. Absent: the limiter has no overrides. */
  readonly again?: ((rules: NonNullable<Reply['rules']>) => MaybePromise<LimiterDecision>) | undefined;
};

/** How often a question is asked again. Each time, the override must have changed meanwhile. */
const MOST_ASKED = 5;

/** The path of a decision: from a key to the store, and from the store's reply to the decision. */
export class Decider {
  readonly #name: string;
  readonly #scope: Scope;
  readonly #store: Store;
  readonly #embedded: boolean;
  readonly #slots: Slots;
  readonly #shadow: boolean;
  readonly #enabled: Switch;
  readonly #warn: Warn;
  readonly #onDecision: LimiterOptions['onDecision'];
  readonly #account: Account;
  readonly #onBan: ((query: Query) => void) | undefined;
  readonly #live: LiveLimits | undefined;
  #firstQuestion: FirstQuestion | undefined;
  /** Receives each decision. */
  count: Announced['count'];
  /** Whether the limiter is closed. Then it decides nothing. */
  closed = false;

  constructor({
    name,
    scope,
    store,
    embedded,
    slots,
    shadow,
    enabled,
    warn,
    onDecision,
    account,
    firstQuestion,
    onBan,
    live,
  }: DeciderParts) {
    this.#name = name;
    this.#scope = scope;
    this.#store = store;
    this.#embedded = embedded;
    this.#slots = slots;
    this.#shadow = shadow;
    this.#enabled = enabled;
    this.#warn = warn;
    this.#onDecision = onDecision;
    this.#account = account;
    this.#onBan = onBan;
    this.#live = live;
    this.#firstQuestion = firstQuestion;
  }

  /** @throws HeadgateError `HEADGATE_INVALID_OPTION` if the function returns no boolean */
  get enabled(): boolean {
    return isOn(this.#enabled);
  }

  closedError(): HeadgateError {
    return new HeadgateError('HEADGATE_CLOSED', `The limiter ${JSON.stringify(this.#name)} is closed.`);
  }

  /** @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_DIMENSION`, `HEADGATE_CLOSED` */
  subject(key: Key, set: PolicySet): Subject {
    if (this.closed) throw this.closedError();
    return this.#scope.subject(set, key);
  }

  ask(key: Key, cost: Cost, set: PolicySet, peek: boolean): MaybePromise<LimiterDecision> {
    if (this.closed) throw this.closedError();
    if (this.#firstQuestion !== undefined && !peek && !this.#firstQuestion.look())
      this.#firstQuestion = undefined;
    return this.#live ? this.#askLive(this.#live, key, cost, set, peek) : this.#ask(key, cost, set, peek);
  }

  /** Asks by the policies that the key has now, as far as this process knows; and again if the store knows better. */
  #askLive(
    live: LiveLimits,
    key: Key,
    cost: Cost,
    set: PolicySet,
    peek: boolean,
  ): MaybePromise<LimiterDecision> {
    let left = MOST_ASKED;
    const again = (rules: NonNullable<Reply['rules']>): MaybePromise<LimiterDecision> => {
      if (left-- === 0)
        throw new HeadgateError('HEADGATE_OVERRIDES', `The override of ${show(key)} changes all the time.`);
      return this.#ask(key, cost, live.learn(key, set, rules), peek, again);
    };
    return this.#ask(key, cost, live.setFor(key, set), peek, again);
  }

  #ask(
    key: Key,
    cost: Cost,
    set: PolicySet,
    peek: boolean,
    again?: Question['again'],
  ): MaybePromise<LimiterDecision> {
    if (typeof key === 'string' && set.dimensions === undefined && set.policies.length > 0)
      return this.#decide(set, key, cost, peek, again);
    const subject = this.#scope.subject(set, key);
    if (!isNothing(subject.set)) return this.#decide(subject.set, subject.key, cost, peek, again);
    const query: Query = { ...subject, ...this.#scope.costs(cost, set), peek: true, lease: '' };
    if (!this.enabled) return switchedOff(query);
    return this.#conclude(query, { now: Date.now(), step: 0, ban: 0, verdicts: [] }, true);
  }

  /** Not an async function: it would create a second promise and wait for the store's, which costs 4 % of a decision on Redis. */
  promise(
    key: Key,
    options: ConsumeOptions | undefined,
    tiers: Tiers,
    peek: boolean,
  ): Promise<LimiterDecision> {
    try {
      const cost = costOf(options);
      const decision = this.ask(key, cost, tiers.of(options?.tier), peek);
      return isPromise(decision) ? decision : Promise.resolve(decision);
    } catch (thrown) {
      const error = thrown as Error;
      return Promise.reject(error);
    }
  }

  /** A decision that a list made, not a policy. The store is not asked, and nothing is charged. */
  listed(subject: Subject, reason: 'allow-listed' | 'deny-listed'): LimiterDecision {
    const query: Query = { ...subject, cost: 0, peek: true, lease: '' };
    const reply: Reply = { now: Date.now(), step: 0, ban: 0, verdicts: [] };
    const allowed = reason === 'allow-listed';
    const retryAfterMs = allowed ? 0 : undefined;
    const decision = conclude(undefined, query, reply, this.#shadow, { allowed, reason, retryAfterMs });
    this.count?.(decision);
    return decision;
  }

  #decide(
    set: PolicySet,
    key: Keys,
    asked: Cost,
    peek: boolean,
    again: Question['again'],
  ): MaybePromise<LimiterDecision> {
    let cost: number;
    let costs: Costs['costs'];
    if (typeof asked === 'number') cost = checkCost(asked);
    else ({ cost, costs } = this.#scope.costs(asked, set));
    const leased = !peek && cost > 0 && holdsSlots(set.policies);
    const lease = leased ? `${LEASE_PREFIX}${(leases++).toString(36)}` : '';
    const call = this.#embedded ? undefined : newCall();
    const query: Question = { set, key, cost, costs, peek: peek || cost === 0, lease, call, again };
    if (this.#enabled !== true && !this.enabled) return switchedOff(query);
    let reply: MaybePromise<Reply>;
    try {
      reply = this.#store.decide(query);
    } catch (thrown) {
      // The store is down, and its error is thrown.
      const error = thrown as Error;
      if (storeChannel.hasSubscribers) this.#observe(Promise.reject(error));
      throw error;
    }
    if (!isPromise(reply)) return this.#conclude(query, reply, peek, true);
    if (storeChannel.hasSubscribers) this.#observe(reply);
    return this.#eventually(query, reply, peek);
  }

  /** In its own method: V8 allocates a closure's context at function entry, even on paths that never create the closure. */
  #eventually(query: Question, reply: Promise<Reply>, peek: boolean): Promise<LimiterDecision> {
    return new Promise((resolve, reject) => {
      const listener: Listener<Reply> = {
        resolve: (value) => {
          try {
            resolve(this.#conclude(query, value, peek));
          } catch (error) {
            listener.reject(error as Error);
          }
        },
        reject,
      };
      listen(reply, listener);
    });
  }

  /** Publishes how long the store took, if anyone subscribes. */
  #observe(reply: Promise<Reply>): void {
    const asked = performance.now();
    const load = performance.eventLoopUtilization();
    const publish = (degraded: boolean, error?: unknown): void => {
      const message: StoreMessage = {
        limiter: this.#name,
        durationMs: performance.now() - asked,
        busyMs: performance.eventLoopUtilization(load).active,
        degraded,
        ...(error !== undefined && { error }),
      };
      storeChannel.publish(message);
    };
    reply.then(
      ({ degraded, error }) => publish(degraded !== undefined, error),
      (error: unknown) => publish(false, error),
    );
  }

  /** @param atOnce whether the answer was at hand, without waiting */
  #conclude(query: Question, reply: Reply, peek: boolean, atOnce = false): MaybePromise<LimiterDecision> {
    if (reply.rules !== undefined && query.again) return query.again(reply.rules);
    const account = peek ? undefined : this.#account;
    // Look up only names that exist: V8 is slow at looking up missing ones.
    const known = reply.degraded === undefined ? undefined : RULINGS[reply.degraded];
    const ruling = known && reply.late ? { ...known, reason: 'process-late' as const } : known;
    const decision = this.report(conclude(account, query, reply, this.#shadow, ruling), atOnce);
    if (query.lease !== '' && decision.units.some((units) => units > 0))
      this.#slots.take(query, decision.policies);
    if (reply.ban < 0 && this.#onBan) this.#onBan(query);
    if (this.count && !query.peek) this.count(decision);
    if (decision.reason === 'cost-exceeds-capacity') this.#warnOfCost(decision);
    return decision;
  }

  #warnOfCost({ cost, policy }: LimiterDecision): void {
    this.#warn(
      'HEADGATE_COST_ABOVE_CAPACITY',
      `The limiter ${JSON.stringify(this.#name)} was asked for a cost of ${cost}, which its policy '${policy}' can never admit. Give the policy a ` +
        'larger limit or burst, or bound the cost.',
    );
  }

  /** Publishes a decision, if anyone subscribes. */
  report(decision: LimiterDecision, atOnce = false): LimiterDecision {
    if (decisionChannel.hasSubscribers) {
      const local = atOnce && !this.#embedded && !decision.degraded;
      const message: DecisionMessage = { limiter: this.#name, shadow: this.#shadow, local, decision };
      decisionChannel.publish(message);
    }
    if (this.#onDecision) {
      try {
        this.#onDecision(decision);
      } catch (error) {
        process.emitWarning(`onDecision threw: ${String(error)}`, 'HeadgateWarning');
      }
    }
    return decision;
  }
}

/** A decision as for a key that has spent nothing. */
function switchedOff(query: Query): LimiterDecision {
  const verdicts = query.set.policies.flatMap(({ traits }) => soleVerdict(0, traits.capacity, 0));
  const reply: Reply = { now: Date.now(), step: 0, ban: 0, verdicts };
  return conclude(undefined, query, reply, false, { allowed: true, reason: 'disabled', retryAfterMs: 0 });
}

/** Whether no policy and no ban of a set applies to a request. */
export function isNothing({ policies, ban }: PolicySet): boolean {
  return policies.length === 0 && !ban;
}
