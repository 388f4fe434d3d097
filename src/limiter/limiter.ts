import { randomBytes } from 'node:crypto';
import { checkNote, type BanNoteOptions } from '../contract/ban-options.js';
import type { Decision } from '../common/decision.js';
import { Eventual } from '../common/eventual.js';
import { toMilliseconds, type Duration } from '../common/duration.js';
import { HeadgateError, invalidOption, show } from '../common/errors.js';
import { lazy } from '../common/lazy.js';
import { realTiming } from '../common/timing.js';
import { checkShape, checkSignal } from '../common/validate.js';
import { notifyUser, type Warn } from '../common/warnings.js';
import { compilePolicies } from '../contract/compile-policies.js';
import { noteOpen, type Gauges } from '../contract/gauges.js';
import { UP, type Health } from '../contract/health.js';
import { checkCost, checkCosts, costAt, type Cost, type Costs } from '../contract/costs.js';
import { decisionChannel, storeChannel, type DecisionMessage } from '../contract/diagnostics.js';
import type { Key } from '../contract/key.js';
import { idsOf } from '../contract/parts.js';
import type { CompiledPolicy, Policies } from '../contract/policy.js';
import {
  holdsSlots,
  isPromise,
  newCall,
  type Announced,
  type Keys,
  type MaybePromise,
  type OverridePlace,
  type PolicySet,
  type Query,
  type Reply,
  type Store,
  type Subject,
} from '../contract/store.js';
import { accountOf, type Account } from './charge.js';
import { conclude, ofLimiter, switchedOff, type LimiterDecision } from './decision.js';
import type { LiveLimits } from './live-limits.js';
import type { Override, OverrideChange, OverrideNote } from './overrides/override.js';
import type { OverrideWriter } from './overrides/override-writer.js';
import { observe } from './observe.js';
import {
  checkPriority,
  costOf,
  type ConsumeOptions,
  type HoldOptions,
  type LimiterOptions,
  type TierOption,
  type WaitOptions,
} from './options.js';
import { checkDimensions, type Scope } from './scope.js';
import { checkWindows, type FirstQuestion } from './setup-checks.js';
import { Slots } from './slots.js';
import { isOn, type Switch } from './switch.js';
import type { Tiers } from './tiers.js';
import { patient } from './waiting/patient.js';
import { enter, leave, roomsOf } from './waiting/rooms.js';
import { HoldQueue, holdRequestOf } from './waiting/hold-queue.js';
import { Sleeps } from './waiting/sleeps.js';
import { TurnClock } from './waiting/turn-clock.js';
import { aborted, deniedError, fullError, WaitingRoom } from './waiting/waiting-room.js';

/** The parts of a limiter: its options after they were checked. */
interface Parts {
  readonly set: PolicySet;
  readonly tiers: Tiers;
  readonly scope: Scope;
  /** The user's store. `store` is the same store with its guard. */
  readonly source: Store;
  readonly store: Store;
  readonly shadow: boolean;
  readonly enabled: Switch;
  readonly warn: Warn;
  readonly onDecision: LimiterOptions['onDecision'];
  /** Checks the limiter's first questions for a mistake in the set-up. Undefined if there is nothing to check. */
  readonly firstQuestion: FirstQuestion | undefined;
  /** Undefined if the limiter has no overrides. */
  readonly live: LiveLimits | undefined;
  readonly waiting: readonly [most: number, mostPerKey: number];
  /** Whether the user has bounded the lines. */
  readonly isWaitingBounded: boolean;
  /** Releases the claim to the name. */
  readonly release: () => void;
  /** Whether a ban by denials forgets the key's charges. */
  readonly freshBans: boolean;
}

/** A question, and the way to repeat it. */
type Question = Query & {
  /** Repeats the question by the policies of an override. Absent if the limiter has no overrides. */
  readonly again?:
    ((changes: NonNullable<Reply['clientChanges']>) => MaybePromise<LimiterDecision>) | undefined;
};

/** The most times that a question is repeated. Each time, the override must have changed meanwhile. */
const MAX_REPETITIONS = 5;

/** The names of slots in this process begin with this prefix, and end with a number. */
const leasePrefix = lazy(() => randomBytes(9).toString('base64url'));
let leases = 0;

/** A rate limiter, which decides about requests. Made by `createLimiter`. */
export class Limiter {
  /** The quota's scope. */
  readonly name: string;
  /** @internal */
  readonly set: PolicySet;
  /** @internal */
  readonly tiers: Tiers;
  /** @internal The store that was passed to the limiter. */
  readonly source: Store;
  /** @internal */
  readonly shadow: boolean;
  /** @internal The prefix lengths with which adapters turn IPv6 addresses into keys. */
  readonly ipv6Subnets = new Set<number>();
  readonly #store: Store;
  readonly #scope: Scope;
  readonly #live: LiveLimits | undefined;
  readonly #enabled: Switch;
  readonly #warn: Warn;
  readonly #onDecision: LimiterOptions['onDecision'];
  readonly #freshBans: boolean;
  /** Whether the store decides in this process. */
  readonly #embedded: boolean;
  /** The account through which decisions change their charges later. */
  readonly #account: Account;
  readonly #release: () => void;
  readonly #held: HoldQueue;
  /** Absent if the store decides in this process. */
  readonly #turnClock: TurnClock | undefined;
  /** When turns that were given ahead of time come, by `performance.now()`. */
  readonly #turns = new WeakMap<Decision, number>();
  readonly #waiting: WaitingRoom;
  readonly #sleeps = new Sleeps(realTiming);
  readonly #maxWaiting: number;
  readonly #isWaitingBounded: boolean;
  /** The slots that this process holds. */
  readonly #slots = new Slots();
  #firstQuestion: FirstQuestion | undefined;
  #announced: Announced | undefined;
  /** Receives each decision. */
  #count: Announced['count'];
  /** Promises that must end before the store is closed. */
  readonly #pending = new Set<Promise<unknown>>();
  #closed = false;
  #closing: Promise<void> | undefined;

  /** @internal */
  constructor(parts: Parts) {
    const { set, source, store, waiting } = parts;
    this.name = set.name;
    this.set = set;
    this.tiers = parts.tiers;
    this.source = source;
    this.shadow = parts.shadow;
    this.#store = store;
    this.#scope = parts.scope;
    this.#live = parts.live;
    this.#enabled = parts.enabled;
    this.#warn = parts.warn;
    this.#onDecision = parts.onDecision;
    this.#freshBans = parts.freshBans;
    this.#firstQuestion = parts.firstQuestion;
    this.#embedded = source.embedded ?? false;
    this.#account = accountOf(
      store,
      this.#slots,
      (subject) => this.#wake(subject),
      (cost, set) => this.checkCost(cost, set),
      (set) => this.#live?.ofChange(set) ?? set,
    );
    if (!this.#embedded) this.#turnClock = new TurnClock();
    this.#held = new HoldQueue(...waiting, realTiming);
    this.#waiting = new WaitingRoom(...waiting, realTiming, {
      isShared: !source.embedded,
      decide: (key, cost, its, peek) => this.#ask(key, cost, its, peek),
      hold: async (decision, signal, isUnbounded) => {
        const result = await this.#hold(decision, signal, true, isUnbounded);
        if (!result.allowed) throw fullError(decision.key);
        return result;
      },
    });
    parts.live?.start(() => this.#waiting.wakeAll());
    this.#maxWaiting = waiting[0];
    this.#isWaitingBounded = parts.isWaitingBounded;
    const noteClosed = noteOpen(this);
    this.#release = () => {
      parts.release();
      noteClosed();
    };
  }

  /** The health of the store. An embedded store is always up. */
  get health(): Health {
    return this.#store.health ?? UP;
  }

  /** The current counts of the limiter in this process, for metrics. */
  get gauges(): Gauges {
    return {
      waiting: this.#waiting.size,
      held: this.#held.size,
      maxWaiting: this.#maxWaiting,
      slots: this.#slots.size,
      keys: this.#store.keysOf?.(this.name) ?? 0,
    };
  }

  /** The limiter's policies. Empty if each request determines them. */
  get policies(): readonly CompiledPolicy[] {
    return this.set.policies;
  }

  /** Whether the limiter is on: see the option. @throws HeadgateError `HEADGATE_INVALID_OPTION` if the function does not return a boolean */
  get enabled(): boolean {
    return this.#enabled === true || isOn(this.#enabled);
  }

  /** @internal Announces this limiter to the store, for the command line. */
  announceTo(store: Store, dynamic: boolean): void {
    const { name, ban } = this.set;
    const { sets } = this.tiers;
    const tiers = new Map([...sets].map(([tier, { policies: own }]) => [tier, own]));
    const policies = () => (sets.size > 0 ? this.policies : this.#scope.configured);
    const { shadow, ipv6Subnets } = this;
    const { banBy, slotBy } = this.#scope.by;
    const overrides = this.#live !== undefined;
    const its = { name, ban, banBy, slotBy, shadow, dynamic, overrides, ipv6Subnets, policies, tiers };
    this.#announced = store.announce?.(its);
    this.#count = this.#announced?.count;
  }

  /**
   * Decides one request, and charges its cost if every policy admits it.
   *
   * @param key the client to limit: any string, or an object with a key for each dimension: `{ key: ip, account: 'ada' }`
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_DIMENSION`, `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_POLICY`,
   * `HEADGATE_UNKNOWN_TIER`, before anything is charged; the store's error under `onStoreError: 'throw'`; `HEADGATE_CLOSED`
   */
  consume(key: Key, options?: ConsumeOptions): Promise<Decision> {
    return this.#promise(key, options, false);
  }

  /**
   * Decides like `consume`, but returns the decision itself if the store answers at once, as the memory store does. Errors are then thrown.
   *
   * @param set the policies that decide, from {@link compile}. @default the limiter's own
   */
  decide(key: Key, cost: Cost = 1, set: PolicySet = this.tiers.of(undefined)): MaybePromise<LimiterDecision> {
    return this.#ask(key, cost, set, false);
  }

  /**
   * The answer that `consume` would give, without charging or writing. After the store's clock went back, `retryAfterMs` counts from the next
   * `consume`, which repairs the state, and not from the look.
   *
   * @throws as `consume`
   */
  peek(key: Key, options?: ConsumeOptions): Promise<Decision> {
    return this.#promise(key, options, true);
  }

  /**
   * Gives units back: the oldest ones, and never more than are charged now. For the charge of one request, call its `decision.refund()`
   * instead, and never both, because the store does not know to which request the units belong. With `slotBy`, the key of that dimension is
   * required: see `reset`.
   *
   * @param cost units, or units by policy name: `{ tokens: 800 }`. As in `consume`, a policy that is not named costs 1
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_POLICY`, `HEADGATE_UNKNOWN_TIER`,
   * `HEADGATE_CLOSED`, or the store's error
   */
  async refund(key: Key, cost: Cost = 1, options: TierOption = {}): Promise<void> {
    checkShape('options', options, ['tier']);
    const set = this.tiers.of(options.tier);
    this.#chargedTo(key, set);
    const subject = this.#chargedTo(key, this.#live ? await this.#live.refresh(key, set) : set);
    const costs = this.#scope.costs(cost, subject.set);
    const units = subject.set.policies.map((_, i) => 0 - costAt(costs, i));
    if (costs.cost > 0 && units.length > 0)
      await this.#account.adjust({ ...subject, units, charged: undefined, degraded: undefined });
  }

  /**
   * Forgets the charges of a key in this limiter's scope, under the limiter's own policies, the policies of all its tiers, and the first 100
   * other shapes that {@link compile} made. With a `tier`, only the charges of that tier's policies are forgotten, which other tiers may
   * share. If several keys are given, each is reset. With `slotBy`, the key of that dimension is required. Beside other keys it only selects
   * the place where they are counted; alone, it is reset itself. A ban stays: see `unban`.
   *
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_TIER`, `HEADGATE_CLOSED`, or the store's error
   */
  async reset(key: Key, options: TierOption = {}): Promise<void> {
    checkShape('options', options, ['tier']);
    const setOf = () => (options.tier === undefined ? this.#scope.everything : this.tiers.of(options.tier));
    let subject = this.#chargedTo(key, setOf());
    // An override may have given the key a kind of policy by which this process has not decided yet.
    if (this.#live) {
      await this.#live.refresh(key, this.set);
      subject = this.#chargedTo(key, setOf());
    }
    if (subject.set.policies.length > 0) await this.#store.reset(subject);
    this.#wake(subject);
  }

  /**
   * Bans a key by hand. The limiter needs the option `ban` (`{}` is enough), because without it bans are not checked.
   *
   * @param key with the option `ban: { by: 'account' }`, an object with a key of that dimension: `{ account: 'ada' }`. With `slotBy`, the key
   * of that dimension is needed as well, or `undefined` for requests without one: `{ account: 'ada', org: 'acme' }`
   * @param duration ms or `'1h'`, up to 366 days
   * @param note the operator and the reason
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_CLOSED`, or the store's
   * error
   */
  async ban(key: Key, duration: Duration, note: BanNoteOptions = {}): Promise<void> {
    const subject = this.#scope.checkBan(this.subject(key), key);
    await this.#store.ban(subject, toMilliseconds('duration', duration), checkNote('ban', note));
  }

  /** Ends a ban, and forgets the key's earlier denials and bans. @throws as `ban` */
  async unban(key: Key, note: BanNoteOptions = {}): Promise<void> {
    const subject = this.#scope.checkBan(this.subject(key), key);
    await this.#store.ban(subject, 0, checkNote('unban', note));
    this.#wake(subject);
  }

  /**
   * Gives a key limits of its own, at once and in every process that shares the store. Spent units stay spent. The limiter needs the option
   * `overrides: true`.
   *
   * @param key any string, or an object with the key of one dimension (`{ org: 'acme' }`), whose policies then change
   * @param change a policy as text (`'1000/1m'`), some of its fields (`{ limit: 1000 }`), changes by the policies' names, or another tier:
   * see `OverrideChange`. It replaces an earlier override
   * @param note the duration, the operator and the reason. Without `for` and `until` the override lasts until it is removed
   * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_UNKNOWN_TIER`, `HEADGATE_INVALID_KEY`,
   * `HEADGATE_UNKNOWN_DIMENSION`, before anything is stored; `HEADGATE_OVERRIDES` without the option; `HEADGATE_CLOSED`; or the store's error
   */
  async override(key: Key, change: OverrideChange, note?: OverrideNote): Promise<void> {
    this.#wakeAt(await this.#overriding().set(someKey(key), change, note));
  }

  /**
   * Gives all keys of the limiter other limits, in every process within two seconds. A key's own override is stronger.
   *
   * @throws as `override`
   */
  async overrideAll(change: OverrideChange, note?: OverrideNote): Promise<void> {
    await this.#overriding().set(undefined, change, note);
  }

  /** The current override of a key, or of all keys if `key` is omitted. @returns undefined if there is none. @throws as `override` */
  async overrideOf(key?: Key): Promise<Override | undefined> {
    return this.#overriding().of(key);
  }

  /**
   * Ends the override of a key, or of all keys if `key` is omitted.
   *
   * @param note the operator and the reason
   * @returns whether there was an override
   * @throws as `override`
   */
  async removeOverride(key?: Key, note: BanNoteOptions = {}): Promise<boolean> {
    const [place, was] = await this.#overriding().remove(key, note);
    this.#wakeAt(place);
    return was;
  }

  /** @internal Throws every error of `override` about its arguments, and stores nothing. */
  checkOverride(key: Key | undefined, change: OverrideChange, note: OverrideNote): void {
    this.#overriding().check(key, change, note);
  }

  #overriding(): OverrideWriter {
    if (this.#closed) throw this.#closedError();
    if (this.#live) return this.#live.writer;
    throw new HeadgateError(
      'HEADGATE_OVERRIDES',
      'override: this limiter does not support overrides. Create it with overrides: true.',
    );
  }

  /** Wakes the requests that wait for a key, in every limiter with this name and store, because they may go on sooner now. */
  #wake(subject: Subject): void {
    const ids = idsOf(subject);
    for (const room of roomsOf(this.source, this.name)) room.wake(ids);
  }

  #wakeAt(place: OverridePlace): void {
    if ('subject' in place) this.#wake(place.subject);
  }

  /**
   * Compiles policies for {@link decide}, in this limiter's scope, if they are not known when the limiter is made. For known policies, use
   * `tiers`.
   *
   * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_DIMENSIONS`
   */
  compile(policies: Policies): PolicySet {
    const set = this.#scope.with(compilePolicies('policies', policies));
    checkDimensions(this.#store, set);
    checkWindows(set.policies, this.#warn);
    this.#scope.remember(set.policies);
    return set;
  }

  /** @internal A set of this limiter without the policies of these names. The others keep their charges. */
  without(set: PolicySet, names: ReadonlySet<string>): PolicySet {
    return this.#scope.with(set.policies.filter(({ name }) => !names.has(name)));
  }

  /** Forgets the charges of a key that was just banned. If this fails, the charges count until their window ends. */
  async #forget(subject: Subject): Promise<void> {
    this.#scope.remember(subject.set.policies);
    await this.#store.reset(this.#scope.banned(subject));
  }

  /** @internal @throws HeadgateError `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_POLICY` */
  checkCost(cost: unknown, set = this.set): Cost {
    return checkCosts(cost, set.policies, this.#scope.everything.policies);
  }

  /** @internal The denial of a request for which a line has no room, with the wait that it would have without a line. */
  async noRoom(set: PolicySet, key: Key, cost: Cost): Promise<LimiterDecision> {
    const decision = await this.#ask(key, cost, set, true);
    return this.#report(decision.queueFull(decision.retryAfterMs ?? 0), false);
  }

  /** @internal The denial of a request that the store did not answer while the request could wait. A shadow admits the request. */
  unanswered(set: PolicySet, key: Key, cost: Cost): LimiterDecision {
    const subject = this.subject(key, set);
    const query: Query = { ...subject, ...this.#scope.costs(cost, subject.set, set), peek: true, lease: '' };
    const reply: Reply = { now: Date.now(), step: 0, ban: 0, verdicts: [], degraded: 'deny' };
    return this.#report(conclude(undefined, query, reply, this.shadow), false);
  }

  /** @internal The decision of a list. The store is not asked, and nothing is charged. */
  listed(key: Key, reason: 'allow-listed' | 'deny-listed'): LimiterDecision {
    const query: Query = { ...this.subject(key), cost: 0, peek: true, lease: '' };
    const reply: Reply = { now: Date.now(), step: 0, ban: 0, verdicts: [] };
    const allowed = reason === 'allow-listed';
    const retryAfterMs = allowed ? 0 : undefined;
    const decision = conclude(undefined, query, reply, this.shadow, { allowed, reason, retryAfterMs });
    this.#count?.(decision);
    return this.#report(decision, false);
  }

  /**
   * Waits until a request is admitted, and charges it. Requests of this process that wait for the same key (or the same keys of several
   * dimensions) are served by priority, then in order of arrival, whatever their costs. Buckets give the requests of all processes their turns
   * up to a second ahead, in the order of their questions. Of other policies, each process gets about its share, and notices a refund by
   * another process within a second.
   *
   * @throws HeadgateError, with nothing charged: `HEADGATE_WAIT_TIMEOUT` at the timeout, or as soon as the request certainly cannot be
   * admitted before it; `HEADGATE_ABORTED`; `HEADGATE_DENIED` for a cost that can never be admitted; `HEADGATE_QUEUE_FULL` if the request has
   * to wait and `maxWaiting` leaves no room, at once or later; `HEADGATE_CLOSED`; otherwise as `consume`
   */
  wait(key: Key, options: WaitOptions = {}): Promise<Decision> {
    return this.#wait(key, options, false);
  }

  /**
   * @internal Like `wait`, for work of this program. Without a `timeout`, and unless the user has set `maxWaiting` or `maxWaitingPerKey`,
   * there is a place for it however many wait.
   */
  enqueue(key: Key, options: WaitOptions): Promise<Decision> {
    return this.#wait(key, options, options.timeout === undefined && !this.#isWaitingBounded);
  }

  #wait(key: Key, options: WaitOptions, isUnbounded: boolean): Promise<Decision> {
    try {
      checkShape('options', options, ['cost', 'tier', 'timeout', 'signal', 'priority']);
      checkSignal(options.signal);
      const { cost = 1, signal } = options;
      const priority = checkPriority(options.priority ?? 0);
      const timeout = options.timeout === undefined ? Infinity : toMilliseconds('timeout', options.timeout);
      const set = this.tiers.of(options.tier);
      return this.waitBy(set, key, cost, timeout, signal, priority, isUnbounded);
    } catch (thrown) {
      const error = thrown as Error;
      return Promise.reject(error);
    }
  }

  /** @internal Like `wait`, by the policies of a set. @param timeout ms, or Infinity @param isUnbounded whether there is always a place in line */
  async waitBy(
    set: PolicySet,
    key: Key,
    asked: Cost,
    timeout: number,
    signal: AbortSignal | undefined,
    priority = 0,
    isUnbounded = false,
  ): Promise<LimiterDecision> {
    const subject = this.subject(key, set);
    const costs = this.#scope.costs(asked, subject.set, set);
    // The caller may change its objects meanwhile.
    const cost = typeof asked === 'number' ? asked : { ...asked };
    const isTooMuch = subject.set.policies.some(
      ({ shadow, traits }, i) => !shadow && costAt(costs, i) > traits.capacity,
    );
    const isHopeless = isTooMuch && (!this.#live || (await this.#isTooMuch(key, cost, set)));
    if (!this.enabled || isNothing(subject.set) || isHopeless) {
      const decision = await this.decide(key, cost, patient(set, 0, 0));
      if (!decision.allowed) throw deniedError(decision);
      return decision;
    }
    const who = { key: typeof key === 'string' ? key : { ...key }, set, ids: idsOf(subject), isUnbounded };
    enter(this.source, this.name, this.#waiting);
    try {
      return await this.#track(this.#waiting.wait(who, cost, timeout, signal, priority));
    } catch (error) {
      // A shadow rejects no request, even if the store takes longer than the request could wait.
      if (!this.shadow || (error as HeadgateError).code !== 'HEADGATE_WAIT_TIMEOUT') throw error;
      return this.unanswered(set, key, cost);
    }
  }

  /** Whether a cost exceeds a capacity by the limits that a key has now. */
  async #isTooMuch(key: Key, cost: Cost, set: PolicySet): Promise<boolean> {
    const { reason } = await this.#ask(key, cost, patient(set, 0, 0), true);
    return reason === 'cost-exceeds-capacity';
  }

  /**
   * Takes a slot of the limiter's concurrency policies if one is free, and charges its other policies. `decision.release()` gives the slot
   * back, and `decision.renew()` holds it for another lease. `await using` releases it at the end of a block. To wait for a slot, call
   * {@link wait}.
   *
   * @throws HeadgateError `HEADGATE_INVALID_OPTION` if the limiter has no concurrency policy; otherwise as `consume`
   */
  async acquire(key: Key, options?: ConsumeOptions): Promise<Decision> {
    if (!holdsSlots(this.tiers.of(options?.tier))) {
      const fix = "Make the limiter with a policy of algorithm 'concurrency'.";
      throw invalidOption('algorithm', undefined, fix);
    }
    return this.consume(key, options);
  }

  /**
   * Holds an admitted request until its turn, which comes after `delayMs` (leaky bucket with `maxDelay`). Requests leave in order, at the
   * leak rate. If the signal is aborted, the requests behind this one move up, and the last turn goes back to the quota.
   *
   * @returns the decision, at the request's turn; or a denial with the reason `'queue-full'`, after its charge was given back, as soon as
   * `maxWaiting` leaves no room
   * @throws HeadgateError `HEADGATE_ABORTED`, `HEADGATE_CLOSED`, after the charge was given back; or the store's error
   */
  async hold(decision: Decision, options: HoldOptions = {}): Promise<Decision> {
    checkShape('options', options, ['signal']);
    checkSignal(options.signal);
    if (this.#closed) {
      await decision.cancel();
      throw this.#closedError();
    }
    return this.#track(this.#hold(ofLimiter(decision), options.signal));
  }

  /** @param isLast whether the request came after all held requests, and waits for them even without a delay */
  async #hold(
    decision: LimiterDecision,
    signal: AbortSignal | undefined,
    isLast = false,
    isUnbounded = false,
  ): Promise<LimiterDecision> {
    const { units } = decision;
    if (units.every((each) => each === 0) || (decision.delayMs === 0 && !isLast)) return decision;
    const delayMs = Math.max(0, this.turnOf(decision) - realTiming.now());
    const request = { ...holdRequestOf(decision), delayMs };
    if (request.unitMs === Infinity) return decision;
    const outcome = await this.#held.hold(request, signal, isLast, isUnbounded);
    if (outcome === 'turn') return decision;
    await decision.cancel();
    if (outcome === 'full') return this.#report(decision.queueFull(), false);
    if (outcome === 'closed') throw this.#closedError();
    throw aborted(signal);
  }

  /** @internal The time at which the turn of an admitted request comes, by `performance.now()`. */
  turnOf(decision: Decision): number {
    return this.#turns.get(decision) ?? realTiming.now() + decision.delayMs;
  }

  /** @internal Sleeps. @throws the signal's reason; HeadgateError `HEADGATE_CLOSED` as soon as the limiter is closed */
  async sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    if (this.#closed) throw this.#closedError();
    await this.#sleeps.sleep(ms, signal);
  }

  async #track<T>(promise: Promise<T>): Promise<T> {
    this.#pending.add(promise);
    try {
      return await promise;
    } finally {
      this.#pending.delete(promise);
      if (this.#pending.size === 0) leave(this.source, this.name, this.#waiting);
    }
  }

  /** Frees the limiter's name, timers and own memory store. A store that was passed in stays open. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#closed = true;
    this.#release();
    this.#announced?.withdraw();
    this.#live?.close();
    this.#held.close();
    this.#sleeps.close(this.#closedError());
    this.#waiting.close(this.#closedError());
    await Promise.allSettled(this.#pending);
    // An embedded store has no guard, and stays open. Even then this takes a moment, in which waiting callers get their errors.
    await (this.#store === this.source ? undefined : this.#store.close?.());
  }

  /** @internal @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_DIMENSION`, `HEADGATE_CLOSED` */
  subject(key: Key, set = this.set): Subject {
    if (this.#closed) throw this.#closedError();
    return this.#scope.subject(set, key);
  }

  #chargedTo(key: Key, set: PolicySet): Subject {
    if (this.#closed) throw this.#closedError();
    return this.#scope.chargedTo(set, key);
  }

  #closedError(): HeadgateError {
    return new HeadgateError('HEADGATE_CLOSED', `The limiter ${JSON.stringify(this.name)} is closed.`);
  }

  /** Not an async function: it would create a second promise and wait for the store's, which costs 4 % of a decision on Redis. */
  #promise(key: Key, options: ConsumeOptions | undefined, peek: boolean): Promise<LimiterDecision> {
    try {
      const cost = options === undefined ? 1 : costOf(options);
      const decision = this.#ask(key, cost, this.tiers.of(options?.tier), peek);
      return isPromise(decision) ? decision : Promise.resolve(decision);
    } catch (thrown) {
      const error = thrown as Error;
      return Promise.reject(error);
    }
  }

  /** Asks by the policies that the key has now, as far as this process knows, and again if the store knows later ones. */
  #askLive(
    live: LiveLimits,
    key: Key,
    cost: Cost,
    set: PolicySet,
    peek: boolean,
  ): MaybePromise<LimiterDecision> {
    let left = MAX_REPETITIONS;
    const again = (changes: NonNullable<Reply['clientChanges']>): MaybePromise<LimiterDecision> => {
      if (left-- === 0)
        throw new HeadgateError('HEADGATE_OVERRIDES', `The override of ${show(key)} changes all the time.`);
      return this.#ask(key, cost, live.learn(key, set, changes), peek, again);
    };
    const own = live.current(key, set);
    if (isPromise(own)) return own.then((read) => this.#ask(key, cost, read, peek, again));
    return this.#ask(key, cost, own, peek, again);
  }

  /**
   * The path of a decision: from a key to the store, and from the store's reply to the decision.
   *
   * @param again repeats the question if an override changes the policies. Absent for the first question
   */
  #ask(
    key: Key,
    asked: Cost,
    given: PolicySet,
    peek: boolean,
    again?: Question['again'],
  ): MaybePromise<LimiterDecision> {
    if (this.#closed) throw this.#closedError();
    // The switch is read once per decision, even if the question is repeated.
    const isOff = !again && this.#enabled !== true && !this.enabled;
    if (!again) {
      if (this.#firstQuestion !== undefined && !peek && !this.#firstQuestion.check())
        this.#firstQuestion = undefined;
      // A limiter that is off does not ask the store, which has the overrides.
      if (this.#live && !isOff) return this.#askLive(this.#live, key, asked, given, peek);
    }
    let set = given;
    let keys: Keys;
    if (typeof key === 'string' && set.dimensions === undefined && set.policies.length > 0) {
      keys = key;
    } else {
      const subject = this.#scope.subject(given, key);
      if (isNothing(subject.set)) return this.#unlimited(subject, this.#scope.costs(asked, given), isOff);
      ({ set, key: keys } = subject);
    }
    let cost: number;
    let costs: Costs['costs'];
    if (typeof asked === 'number') cost = checkCost(asked);
    else ({ cost, costs } = this.#scope.costs(asked, set, given));
    const leased = !peek && cost > 0 && holdsSlots(set);
    const lease = leased ? `${leasePrefix()}${(leases++).toString(36)}` : '';
    const call = this.#embedded ? undefined : newCall();
    const query: Question = { set, key: keys, cost, costs, peek: peek || cost === 0, lease, call, again };
    if (isOff) return switchedOff(query);
    let reply: MaybePromise<Reply>;
    try {
      reply = this.#store.decide(query);
    } catch (thrown) {
      // The store is down, and its error is thrown.
      const error = thrown as Error;
      if (storeChannel.hasSubscribers) observe(this.name, Promise.reject(error));
      throw error;
    }
    if (!isPromise(reply)) return this.#conclude(query, reply, peek, true);
    if (storeChannel.hasSubscribers) observe(this.name, reply);
    return this.#eventually(query, reply, peek);
  }

  /** The decision if neither a policy nor a ban applies. */
  #unlimited(subject: Subject, costs: Costs, isOff: boolean): MaybePromise<LimiterDecision> {
    const query: Query = { ...subject, ...costs, peek: true, lease: '' };
    if (isOff) return switchedOff(query);
    return this.#conclude(query, { now: Date.now(), step: 0, ban: 0, verdicts: [] }, true);
  }

  /** A method of its own, because V8 allocates a closure's context at function entry, even on paths that never create the closure. */
  #eventually(query: Question, reply: Promise<Reply>, peek: boolean): Promise<LimiterDecision> {
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
  #conclude(query: Question, reply: Reply, peek: boolean, atOnce = false): MaybePromise<LimiterDecision> {
    if (reply.clientChanges !== undefined && query.again) return query.again(reply.clientChanges);
    const account = peek ? undefined : this.#account;
    const decision = conclude(account, query, reply, this.shadow);
    if (decision.delayMs > 0 && this.#turnClock && !decision.degraded) {
      const decided = this.#turnClock.decidedAt(reply.now, realTiming.now());
      this.#turns.set(decision, decided + decision.delayMs);
    }
    if (decisionChannel.hasSubscribers || this.#onDecision) this.#report(decision, atOnce);
    if (query.lease !== '' && decision.units.some((units) => units > 0))
      this.#slots.take(query, decision.policies);
    if (reply.ban < 0 && this.#freshBans) void this.#track(this.#forget(query)).catch(() => {});
    if (this.#count && !query.peek) this.#count(decision);
    if (decision.reason === 'cost-exceeds-capacity') this.#warnOfCost(decision);
    return decision;
  }

  /** Reports a decision to the subscribers, to `onDecision`, and to the store's counters. */
  #report(decision: LimiterDecision, atOnce: boolean): LimiterDecision {
    if (decisionChannel.hasSubscribers) {
      const local = atOnce && !this.#embedded && !decision.degraded;
      const message: DecisionMessage = { limiter: this.name, shadow: this.shadow, local, decision };
      decisionChannel.publish(message);
    }
    if (this.#onDecision) notifyUser('onDecision', this.#onDecision, decision);
    return decision;
  }

  #warnOfCost({ cost, policy }: LimiterDecision): void {
    this.#warn(
      'HEADGATE_COST_ABOVE_CAPACITY',
      `The limiter ${JSON.stringify(this.name)} got a cost of ${cost}, which its policy '${policy}' can never admit. Give the policy a ` +
        'larger limit or burst, bound the cost, or name a cost for each policy if they count different things: { tokens: 800 }.',
    );
  }
}

/** Whether neither a policy nor a ban of a set applies to a request. */
function isNothing({ policies, ban }: PolicySet): boolean {
  return policies.length === 0 && !ban;
}

/** @throws HeadgateError `HEADGATE_INVALID_KEY` */
function someKey(key: Key): Key {
  if (key !== undefined && key !== null) return key;
  throw new HeadgateError(
    'HEADGATE_INVALID_KEY',
    'key: missing. Pass the key whose limits you want to change, or call overrideAll.',
  );
}
