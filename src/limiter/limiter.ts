import { checkNote, type BanNoteOptions } from '../contract/ban-options.js';
import type { Decision } from '../common/decision.js';
import { toMilliseconds, type Duration } from '../common/duration.js';
import { HeadgateError, invalidOption } from '../common/errors.js';
import { realTiming } from '../common/timing.js';
import { checkShape, checkSignal } from '../common/validate.js';
import type { Warn } from '../common/warnings.js';
import { compilePolicies } from '../contract/compile-policies.js';
import { noteOpen, type Gauges } from '../contract/gauges.js';
import { UP, type Health } from '../contract/health.js';
import { checkCosts, costAt, type Cost } from '../contract/costs.js';
import type { Key } from '../contract/key.js';
import { idsOf } from '../contract/parts.js';
import { holdsSlots, type CompiledPolicy, type Policies } from '../contract/policy.js';
import type { Announced, MaybePromise, OverridePlace, PolicySet, Store, Subject } from '../contract/store.js';
import { accountOf, type Account } from './charge.js';
import { Decider, isNothing, type DeciderParts } from './decider.js';
import { ofLimiter, type LimiterDecision } from './decision.js';
import type { LiveLimits, Override, OverrideChange, OverrideNote } from './live-limits.js';
import type { ConsumeOptions, HoldOptions, TierOption, WaitOptions } from './options.js';
import { checkDimensions, type Scope } from './scope.js';
import { checkWindows } from './setup-checks.js';
import { Slots } from './slots.js';
import type { Tiers } from './tiers.js';
import { patient } from './waiting/patient.js';
import { HoldQueue, holdRequestOf } from './waiting/queue.js';
import { aborted, deniedError, fullError, WaitingRoom } from './waiting/wait.js';

/** The parts of a limiter: its options after they were checked. */
interface Parts extends Pick<
  DeciderParts,
  'scope' | 'store' | 'shadow' | 'enabled' | 'warn' | 'onDecision' | 'firstQuestion' | 'live'
> {
  readonly set: PolicySet;
  readonly tiers: Tiers;
  /** The store that the user gave. `store` is the same with everything that guards it. */
  readonly source: Store;
  readonly waiting: readonly [most: number, mostPerKey: number];
  /** Releases the claim to the name. */
  readonly release: () => void;
  /** Whether a ban by denials forgets what was charged. */
  readonly freshBans: boolean;
}

/** Decides who may go on. Made by `createLimiter`. */
export class Limiter {
  /** The quota's scope. */
  readonly name: string;
  /** @internal */
  readonly set: PolicySet;
  /** @internal */
  readonly tiers: Tiers;
  /** @internal The store that the limiter was made with. */
  readonly source: Store;
  /** @internal */
  readonly shadow: boolean;
  /** @internal The prefix lengths by which adapters turn IPv6 addresses into keys. */
  readonly ipv6Subnets = new Set<number>();
  readonly #store: Store;
  readonly #scope: Scope;
  readonly #live: LiveLimits | undefined;
  readonly #warn: Warn;
  readonly #decider: Decider;
  readonly #account: Account;
  readonly #release: () => void;
  readonly #held: HoldQueue;
  readonly #waiting: WaitingRoom;
  readonly #maxWaiting: number;
  readonly #slots = new Slots();
  #announced: Announced | undefined;
  /** Promises that must end before the store may be closed. */
  readonly #pending = new Set<Promise<unknown>>();

  /** @internal */
  constructor({ waiting, freshBans, release, ...parts }: Parts) {
    const { set, tiers, scope, source, store, shadow, warn, live } = parts;
    this.name = set.name;
    this.set = set;
    this.tiers = tiers;
    this.source = source;
    this.shadow = shadow;
    this.#store = store;
    this.#scope = scope;
    this.#live = live;
    this.#warn = warn;
    const onBan = (subject: Subject): void => void this.#track(this.#forget(subject)).catch(() => {});
    const account = accountOf(
      store,
      this.#slots,
      (subject) => this.#waiting.wake(idsOf(subject)),
      (cost) => this.checkCost(cost),
    );
    this.#account = account;
    this.#decider = new Decider({
      ...parts,
      name: set.name,
      embedded: source.embedded ?? false,
      slots: this.#slots,
      account,
      onBan: freshBans ? onBan : undefined,
    });
    this.#held = new HoldQueue(...waiting, realTiming);
    this.#waiting = new WaitingRoom(...waiting, realTiming, {
      isShared: !source.embedded,
      decide: (key, cost, its, peek) => this.#decider.ask(key, cost, its, peek),
      hold: async (decision, signal) => {
        const result = await this.#hold(decision, signal, true);
        if (!result.allowed) throw fullError(decision.key);
        return result;
      },
    });
    this.#maxWaiting = waiting[0];
    const noteClosed = noteOpen(this);
    this.#release = () => {
      release();
      noteClosed();
    };
  }

  /** How the store is doing. Always up if the store is embedded. */
  get health(): Health {
    return this.#store.health ?? UP;
  }

  /** What the limiter has in this process now, for metrics. */
  get gauges(): Gauges {
    return {
      waiting: this.#waiting.size,
      held: this.#held.size,
      maxWaiting: this.#maxWaiting,
      slots: this.#slots.size,
      keys: this.#store.keysOf?.(this.name) ?? 0,
    };
  }

  /** The limiter's policies. Empty if they are given with each request. */
  get policies(): readonly CompiledPolicy[] {
    return this.set.policies;
  }

  /** Whether the limiter limits now: see the option. @throws HeadgateError `HEADGATE_INVALID_OPTION` if the function returns no boolean */
  get enabled(): boolean {
    return this.#decider.enabled;
  }

  /** @internal Announces this limiter to the store, so that the command line can show it. */
  announceTo(store: Store, dynamic: boolean): void {
    const { name, ban } = this.set;
    const { sets } = this.tiers;
    const tiers = new Map([...sets].map(([tier, { policies: own }]) => [tier, own]));
    const policies = () => (sets.size > 0 ? this.policies : this.#scope.everything.policies);
    const { shadow, ipv6Subnets } = this;
    const { banBy, slotBy } = this.#scope.by;
    const overrides = this.#live !== undefined;
    const its = { name, ban, banBy, slotBy, shadow, dynamic, overrides, ipv6Subnets, policies, tiers };
    this.#announced = store.announce?.(its);
    this.#decider.count = this.#announced?.count;
  }

  /**
   * Decides one request and charges its cost if every policy admits it.
   *
   * @param key who is limited: any string, or an object with a key for each dimension: `{ key: ip, account: 'ada' }`
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_DIMENSION`, `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_POLICY`,
   * `HEADGATE_UNKNOWN_TIER`, before anything is charged; what the store fails with under `onStoreError: 'throw'`; `HEADGATE_CLOSED`
   */
  consume(key: Key, options?: ConsumeOptions): Promise<Decision> {
    return this.#decider.promise(key, options, this.tiers, false);
  }

  /**
   * Like `consume`, but it returns no promise if the store answers at once, as the memory store does. It then throws instead of rejecting.
   *
   * @param set the policies to decide by, from {@link compile}; default: the limiter's own
   */
  decide(key: Key, cost: Cost = 1, set: PolicySet = this.tiers.of(undefined)): MaybePromise<LimiterDecision> {
    return this.#decider.ask(key, cost, set, false);
  }

  /**
   * What `consume` would answer, without charging or writing anything. After the store's clock went back, `retryAfterMs` counts from the
   * next `consume`, which mends the state, and not from the look.
   *
   * @throws as `consume`
   */
  peek(key: Key, options?: ConsumeOptions): Promise<Decision> {
    return this.#decider.promise(key, options, this.tiers, true);
  }

  /**
   * Gives units back: the oldest ones, and never more than are charged now. To give back the charge of one request, use its
   * `decision.refund()`. With `slotBy`, the key of that dimension is required: see `reset`.
   *
   * @param cost units, or units by policy name: `{ tokens: 800 }`. As in `consume`, it is 1 for a policy that is not named
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_POLICY`, `HEADGATE_UNKNOWN_TIER`,
   * `HEADGATE_CLOSED`, or what the store fails with
   */
  async refund(key: Key, cost: Cost = 1, options: TierOption = {}): Promise<void> {
    checkShape('options', options, ['tier']);
    const set = this.tiers.of(options.tier);
    const subject = this.#chargedTo(key, this.#live ? this.#live.setFor(key, set) : set);
    const costs = this.#scope.costs(cost, subject.set);
    const units = subject.set.policies.map((_, i) => 0 - costAt(costs, i));
    if (costs.cost > 0 && units.length > 0)
      await this.#account.adjust({ ...subject, units, charged: undefined, degraded: undefined });
  }

  /**
   * Forgets what was charged to a key in this limiter's scope. This covers the limiter's own policies, those of all its tiers, and those of
   * the first 100 other shapes that {@link compile} made. With a `tier`, only the charges of that tier's policies are forgotten; other
   * tiers may share them. If several keys are given, each is reset. With `slotBy`, the key of that dimension is required. Beside other keys
   * it only says where they are counted; alone, it is reset itself. A ban stays: see `unban`.
   *
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_TIER`, `HEADGATE_CLOSED`, or what the store fails with
   */
  async reset(key: Key, options: TierOption = {}): Promise<void> {
    checkShape('options', options, ['tier']);
    const set = options.tier === undefined ? this.#scope.everything : this.tiers.of(options.tier);
    const subject = this.#chargedTo(key, set);
    if (subject.set.policies.length > 0) await this.#store.reset(subject);
    this.#waiting.wake(idsOf(subject));
  }

  /**
   * Bans a key by hand. The limiter needs the option `ban` (`{}` is enough), because without it bans are not checked.
   *
   * @param key with the option `ban: { by: 'account' }`, an object with a key of that dimension: `{ account: 'ada' }`. With `slotBy`, it
   * also needs the key of that dimension, or `undefined` for requests without one: `{ account: 'ada', org: 'acme' }`
   * @param duration ms or `'1h'`, up to 366 days
   * @param note who bans, and why
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_CLOSED`, or what the
   * store fails with
   */
  async ban(key: Key, duration: Duration, note: BanNoteOptions = {}): Promise<void> {
    const subject = this.#scope.checkBan(this.subject(key), key);
    await this.#store.ban(subject, toMilliseconds('duration', duration), checkNote('ban', note));
  }

  /** Ends a ban, and forgets the key's earlier denials and bans. @throws as `ban` */
  async unban(key: Key, note: BanNoteOptions = {}): Promise<void> {
    const subject = this.#scope.checkBan(this.subject(key), key);
    await this.#store.ban(subject, 0, checkNote('unban', note));
    this.#waiting.wake(idsOf(subject));
  }

  /**
   * Gives a key limits of its own, at once and in every process that shares the store. What it has spent stays spent. The limiter needs the
   * option `overrides: true`.
   *
   * @param key any string; or an object with the key of one dimension (`{ org: 'acme' }`), whose policies then change
   * @param change a policy as text (`'1000/1m'`), some of its fields (`{ limit: 1000 }`), changes by the policies' names, or another tier:
   * see `OverrideChange`. It replaces an earlier override
   * @param note how long, who, and why. Without `for` and `until` it lasts until it is removed
   * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_UNKNOWN_TIER`, `HEADGATE_INVALID_KEY`,
   * `HEADGATE_UNKNOWN_DIMENSION`, before anything is stored; `HEADGATE_OVERRIDES` without the option; `HEADGATE_CLOSED`; or what the store
   * fails with
   */
  async override(key: Key, change: OverrideChange, note?: OverrideNote): Promise<void> {
    this.#wake(await this.#overriding().set(someKey(key), change, note));
  }

  /**
   * Gives all keys of the limiter other limits, in every process within two seconds. A key's own override is stronger.
   *
   * @throws as `override`
   */
  async overrideAll(change: OverrideChange, note?: OverrideNote): Promise<void> {
    await this.#overriding().set(undefined, change, note);
  }

  /** The override that a key has now; without a key, that of all keys. `undefined`: none. @throws as `override` */
  async overrideOf(key?: Key): Promise<Override | undefined> {
    return this.#overriding().of(key);
  }

  /**
   * Ends the override of a key; without a key, that of all keys. Returns whether there was one.
   *
   * @param note who, and why
   * @throws as `override`
   */
  async removeOverride(key?: Key, note: BanNoteOptions = {}): Promise<boolean> {
    const [place, was] = await this.#overriding().remove(key, note);
    this.#wake(place);
    return was;
  }

  /** @internal Throws what `override` would refuse, and stores nothing. */
  checkOverride(key: Key | undefined, change: OverrideChange, note: OverrideNote): void {
    this.#overriding().check(key, change, note);
  }

  #overriding(): LiveLimits {
    if (this.#decider.closed) throw this.#decider.closedError();
    if (this.#live) return this.#live;
    throw new HeadgateError(
      'HEADGATE_OVERRIDES',
      'override: the limiter has none. Make it with the option overrides: true.',
    );
  }

  /** Those who wait for a key may go on sooner now. */
  #wake(place: OverridePlace): void {
    if ('subject' in place) this.#waiting.wake(idsOf(place.subject));
  }

  /**
   * Compiles policies for {@link decide}, in this limiter's scope. Use it for policies that are not known when the limiter is made. For
   * known ones use `tiers`.
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

  /** Forgets what was charged to a key that has just been banned. If this fails, the charges count until their window ends. */
  async #forget(subject: Subject): Promise<void> {
    this.#scope.remember(subject.set.policies);
    await this.#store.reset(this.#scope.banned(subject));
  }

  /** @internal @throws HeadgateError `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_POLICY` */
  checkCost(cost: unknown, set = this.set): Cost {
    return checkCosts(cost, set.policies, this.#scope.everything.policies);
  }

  /** @internal A decision that a list made, not a policy. The store is not asked, and nothing is charged. */
  listed(key: Key, reason: 'allow-listed' | 'deny-listed'): LimiterDecision {
    return this.#decider.listed(this.subject(key), reason);
  }

  /**
   * Waits until a request is admitted, and charges it. Requests of this process that wait for the
   * same key (or the same keys of several dimensions) are served in order of arrival, whatever their
   * costs. Buckets give requests of all processes their turns up to a second ahead, in the order in
   * which they ask. Of other policies, each process gets about its share. What another process gives
   * back is noticed within a second.
   *
   * @throws HeadgateError, with nothing charged: `HEADGATE_WAIT_TIMEOUT` at the timeout, or as soon as it is certain that the request
   * cannot be admitted before it; `HEADGATE_ABORTED`; `HEADGATE_DENIED` for a cost that can never be admitted; `HEADGATE_QUEUE_FULL` if
   * it has to wait and `maxWaiting` leaves no room, at once or later; `HEADGATE_CLOSED`; otherwise as `consume`
   */
  async wait(key: Key, options: WaitOptions = {}): Promise<Decision> {
    checkShape('options', options, ['cost', 'tier', 'timeout', 'signal']);
    checkSignal(options.signal);
    const set = this.tiers.of(options.tier);
    const subject = this.subject(key, set);
    const { cost = 1 } = options;
    const costs = this.#scope.costs(cost, subject.set);
    const timeout = options.timeout === undefined ? Infinity : toMilliseconds('timeout', options.timeout);
    const isHopeless = subject.set.policies.some(
      ({ shadow, traits }, i) => !shadow && costAt(costs, i) > traits.capacity,
    );
    if (!this.enabled || isNothing(subject.set) || isHopeless) {
      const decision = await this.decide(key, cost, patient(set, 0, 0));
      if (!decision.allowed) throw deniedError(decision);
      return decision;
    }
    const who = { key: typeof key === 'string' ? key : { ...key }, set, ids: idsOf(subject) };
    return this.#track(this.#waiting.wait(who, cost, timeout, options.signal));
  }

  /**
   * Takes a slot of the limiter's concurrency policies if one is free, and charges its other policies. `decision.release()` gives the slot
   * back, and `decision.renew()` holds it for another lease. `await using` releases it at the end of a block. To wait for a slot, use
   * {@link wait}.
   *
   * @throws HeadgateError `HEADGATE_INVALID_OPTION` if the limiter has no concurrency policy; otherwise as `consume`
   */
  async acquire(key: Key, options?: ConsumeOptions): Promise<Decision> {
    if (!holdsSlots(this.tiers.of(options?.tier).policies)) {
      const fix = "Make the limiter with a policy of algorithm 'concurrency'.";
      throw invalidOption('algorithm', undefined, fix);
    }
    return this.consume(key, options);
  }

  /**
   * Holds an admitted request until its turn, which comes after `delayMs` (leaky bucket with `maxDelay`). Requests leave in order, at the
   * leak rate. If the signal is aborted, the requests behind this one move up, and the quota gets the last turn back.
   *
   * @returns the decision, when the request's turn has come. As soon as `maxWaiting` leaves no room: a denied one with the reason
   * `'queue-full'`, after its charge was given back
   * @throws HeadgateError `HEADGATE_ABORTED`, `HEADGATE_CLOSED`, after the charge was given back; or what the store fails with
   */
  async hold(decision: Decision, options: HoldOptions = {}): Promise<Decision> {
    checkShape('options', options, ['signal']);
    checkSignal(options.signal);
    if (this.#decider.closed) throw this.#decider.closedError();
    return this.#track(this.#hold(ofLimiter(decision), options.signal));
  }

  /** @param isLast whether it came after all that are held. Then it waits for them, even without a delay */
  async #hold(
    decision: LimiterDecision,
    signal: AbortSignal | undefined,
    isLast = false,
  ): Promise<LimiterDecision> {
    const { delayMs, units } = decision;
    if (units.every((each) => each === 0) || (delayMs === 0 && !isLast)) return decision;
    const request = holdRequestOf(decision);
    if (request.unitMs === Infinity) return decision;
    const outcome = await this.#held.hold(request, signal, isLast);
    if (outcome === 'turn') return decision;
    await decision.cancel();
    if (outcome === 'full') return this.#decider.report(decision.queueFull());
    if (outcome === 'closed') throw this.#decider.closedError();
    throw aborted(signal);
  }

  async #track<T>(promise: Promise<T>): Promise<T> {
    this.#pending.add(promise);
    try {
      return await promise;
    } finally {
      this.#pending.delete(promise);
    }
  }

  /** Frees what the limiter made: its name, its timers, its own memory store. A store that was passed in stays open. */
  async close(): Promise<void> {
    if (this.#decider.closed) return;
    this.#decider.closed = true;
    this.#release();
    this.#announced?.withdraw();
    this.#live?.close();
    this.#held.close();
    this.#waiting.close(this.#decider.closedError());
    await Promise.allSettled(this.#pending);
    await this.#store.close?.();
  }

  /** @internal @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_DIMENSION`, `HEADGATE_CLOSED` */
  subject(key: Key, set = this.set): Subject {
    return this.#decider.subject(key, set);
  }

  #chargedTo(key: Key, set: PolicySet): Subject {
    if (this.#decider.closed) throw this.#decider.closedError();
    return this.#scope.chargedTo(set, key);
  }
}

/** @throws HeadgateError `HEADGATE_INVALID_KEY` */
function someKey(key: Key): Key {
  if (key !== undefined && key !== null) return key;
  throw new HeadgateError(
    'HEADGATE_INVALID_KEY',
    'key: it is missing. Pass whose limits change. For all keys there is overrideAll.',
  );
}
