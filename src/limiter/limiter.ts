import { checkNote, type BanNoteOptions } from '../contract/ban-options.js';
import type { Decision } from '../common/decision.js';
import { toMilliseconds, type Duration } from '../common/duration.js';
import { invalidOption } from '../common/errors.js';
import { realTiming } from '../common/timing.js';
import { checkCost, checkShape, checkSignal } from '../common/validate.js';
import type { Warn } from '../common/warnings.js';
import { compilePolicies } from '../contract/compile-policies.js';
import { noteOpen, type Gauges } from '../contract/gauges.js';
import { UP, type Health } from '../contract/health.js';
import type { Key } from '../contract/key.js';
import { holdsSlots, type CompiledPolicy, type Policies } from '../contract/policy.js';
import type { Announced, MaybePromise, PolicySet, Store, Subject } from '../contract/store.js';
import { accountOf, type Account } from './charge.js';
import { Decider, isNothing, type DeciderParts } from './decider.js';
import { ofLimiter, type LimiterDecision } from './decision.js';
import type { ConsumeOptions, HoldOptions, TierOption, WaitOptions } from './options.js';
import { checkDimensions, type Scope } from './scope.js';
import { checkWindows } from './setup-checks.js';
import { Slots } from './slots.js';
import type { Tiers } from './tiers.js';
import { patient } from './waiting/patient.js';
import { HoldQueue, turnOf } from './waiting/queue.js';
import { aborted, deniedError, fullError, WaitingRoom } from './waiting/wait.js';
import { idsOf } from './who.js';

/** What a limiter consists of: its options, checked. */
interface Parts extends Pick<
  DeciderParts,
  'scope' | 'store' | 'shadow' | 'enabled' | 'warn' | 'onDecision' | 'firstQuestion'
> {
  readonly set: PolicySet;
  readonly tiers: Tiers;
  /** The store that was given; `store` is how it is asked. */
  readonly source: Store;
  readonly waiting: readonly [most: number, mostPerKey: number];
  /** Gives the name back. */
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
  /** @internal The store that it was made with. */
  readonly source: Store;
  /** @internal */
  readonly shadow: boolean;
  /** @internal The prefix lengths by which adapters make keys of IPv6 addresses. */
  readonly ipv6Subnets = new Set<number>();
  readonly #store: Store;
  readonly #scope: Scope;
  readonly #warn: Warn;
  readonly #decider: Decider;
  readonly #account: Account;
  readonly #release: () => void;
  readonly #held: HoldQueue;
  readonly #waiting: WaitingRoom;
  readonly #maxWaiting: number;
  readonly #slots = new Slots();
  #announced: Announced | undefined;
  /** What must end before the store may be closed. */
  readonly #pending = new Set<Promise<unknown>>();

  /** @internal */
  constructor({ waiting, freshBans, release, ...parts }: Parts) {
    const { set, tiers, scope, source, store, shadow, warn } = parts;
    this.name = set.name;
    this.set = set;
    this.tiers = tiers;
    this.source = source;
    this.shadow = shadow;
    this.#store = store;
    this.#scope = scope;
    this.#warn = warn;
    const onBan = (subject: Subject): void => void this.#track(this.#forget(subject)).catch(() => {});
    const account = accountOf(store, this.#slots, (subject) => this.#waiting.wake(idsOf(subject)));
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
      decide: (key, cost, its) => this.decide(key, cost, its),
      hold: async (decision, signal) => {
        const result = await this.#hold(decision, signal);
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

  /** How the store is doing; always up if it is embedded. */
  get health(): Health {
    return this.#store.health ?? UP;
  }

  /** What it has in this process now, for metrics. */
  get gauges(): Gauges {
    return {
      waiting: this.#waiting.size,
      held: this.#held.size,
      maxWaiting: this.#maxWaiting,
      slots: this.#slots.size,
      keys: this.#store.keysOf?.(this.name) ?? 0,
    };
  }

  /** What it enforces. Empty if the policies come with each request. */
  get policies(): readonly CompiledPolicy[] {
    return this.set.policies;
  }

  /** Whether it limits now: see the option. @throws HeadgateError `HEADGATE_INVALID_OPTION` if the function returns no boolean */
  get enabled(): boolean {
    return this.#decider.enabled;
  }

  /** @internal Tells the store of this limiter, so that the command line can show it. */
  announceTo(store: Store, dynamic: boolean): void {
    const { name, ban } = this.set;
    const { sets } = this.tiers;
    const tiers = new Map([...sets].map(([tier, { policies: own }]) => [tier, own]));
    const policies = () => (sets.size > 0 ? this.policies : this.#scope.everything.policies);
    const { shadow, ipv6Subnets } = this;
    const { banBy, slotBy } = this.#scope.by;
    const its = { name, ban, banBy, slotBy, shadow, dynamic, ipv6Subnets, policies, tiers };
    this.#announced = store.announce?.(its);
    this.#decider.count = this.#announced?.count;
  }

  /**
   * Decides one request and charges its cost if every policy admits it.
   *
   * @param key who is limited: any string; or an object with a key of each dimension, `{ key: ip, account: 'ada' }`
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_DIMENSION`, `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_TIER`, before
   * anything is charged; what the store fails with under `onStoreError: 'throw'`; `HEADGATE_CLOSED`
   */
  consume(key: Key, options?: ConsumeOptions): Promise<Decision> {
    return this.#decider.promise(key, options, this.tiers, false);
  }

  /**
   * As `consume`, but without a promise if the store answers at once, as the memory store does. Then it throws instead of rejecting.
   *
   * @param set the policies to decide by, of {@link compile}; default the limiter's own
   */
  decide(key: Key, cost = 1, set: PolicySet = this.tiers.of(undefined)): MaybePromise<LimiterDecision> {
    return this.#decider.ask(key, cost, set, false);
  }

  /** What `consume` would answer, without charging or writing anything. @throws as `consume` */
  peek(key: Key, options?: ConsumeOptions): Promise<Decision> {
    return this.#decider.promise(key, options, this.tiers, true);
  }

  /**
   * Gives units back: the oldest ones, and never more than are charged now. To give back what one request was charged, use its
   * `decision.refund()`. With `slotBy` the key of that dimension is needed: see `reset`.
   *
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_TIER`, `HEADGATE_CLOSED`, or what the
   * store fails with
   */
  async refund(key: Key, cost = 1, options: TierOption = {}): Promise<void> {
    checkShape('options', options, ['tier']);
    const subject = this.#chargedTo(key, this.tiers.of(options.tier));
    checkCost(cost);
    const units = subject.set.policies.map(() => -cost);
    if (cost > 0 && units.length > 0)
      await this.#account.adjust({ ...subject, units, charged: undefined, degraded: undefined });
  }

  /**
   * Forgets what was charged to a key in this limiter's scope: by its own policies, by those of all its tiers, and by those of the first
   * 100 other shapes that {@link compile} has made. With a `tier`, only what the policies of that tier charged; other tiers may share
   * these. Each key of several dimensions is reset. With `slotBy` the key of that dimension is needed, too: beside other keys it only
   * says where they are counted, alone it is reset itself. A ban stays: see `unban`.
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
   * Bans a key by hand. The limiter must have the option `ban` (`{}` is enough), or it would not ask for bans.
   *
   * @param key with the option `ban: { by: 'account' }` an object with a key of that dimension: `{ account: 'ada' }`; with `slotBy` also
   * the key of that one, or `undefined` for requests without it: `{ account: 'ada', org: 'acme' }`
   * @param duration ms or `'1h'`, up to 366 days
   * @param note who bans, and why
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_CLOSED`, or what
   * the store fails with
   */
  async ban(key: Key, duration: Duration, note: BanNoteOptions = {}): Promise<void> {
    const subject = this.#scope.checkBan(this.subject(key), key);
    await this.#store.ban(subject, toMilliseconds('duration', duration), checkNote('ban', note));
  }

  /** Ends a ban and forgets the denials and bans before it. @throws as `ban` */
  async unban(key: Key, note: BanNoteOptions = {}): Promise<void> {
    const subject = this.#scope.checkBan(this.subject(key), key);
    await this.#store.ban(subject, 0, checkNote('unban', note));
    this.#waiting.wake(idsOf(subject));
  }

  /**
   * Compiles policies for {@link decide}, in this limiter's scope. It is for policies that are not known when the limiter is made: for
   * those that are, use `tiers`.
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

  /** Forgets what was charged to a key that has just been banned. If that fails, the charges count until their window ends. */
  async #forget(subject: Subject): Promise<void> {
    this.#scope.remember(subject.set.policies);
    await this.#store.reset(this.#scope.banned(subject));
  }

  /** @internal A decision that no policy made: of a list. Nothing is asked or charged. */
  listed(key: Key, reason: 'allow-listed' | 'deny-listed'): LimiterDecision {
    return this.#decider.listed(this.subject(key), reason);
  }

  /**
   * Waits until a request is admitted, and charges it. Requests that wait in this process for the same key, or for the same keys of
   * several dimensions, are served in the order in which they came, whatever their costs. The store is asked for the first one only.
   *
   * @throws HeadgateError, and nothing is charged: `HEADGATE_WAIT_TIMEOUT` at the timeout, or as soon as it is known that the
   * request cannot be admitted before it; `HEADGATE_ABORTED`; `HEADGATE_DENIED` for a cost that can never be admitted;
   * `HEADGATE_QUEUE_FULL` if `maxWaiting` leaves no room, at once or later; `HEADGATE_CLOSED`; else as `consume`
   */
  async wait(key: Key, options: WaitOptions = {}): Promise<Decision> {
    checkShape('options', options, ['cost', 'tier', 'timeout', 'signal']);
    checkSignal(options.signal);
    const set = patient(this.tiers.of(options.tier));
    const subject = this.subject(key, set);
    const cost = checkCost(options.cost === undefined ? 1 : options.cost);
    const timeout = options.timeout === undefined ? Infinity : toMilliseconds('timeout', options.timeout);
    const isHopeless = subject.set.policies.some((each) => !each.shadow && cost > each.traits.capacity);
    if (!this.enabled || isNothing(subject.set) || isHopeless) {
      const decision = await this.decide(key, cost, set);
      if (!decision.allowed) throw deniedError(decision);
      return decision;
    }
    const who = { key: typeof key === 'string' ? key : { ...key }, set, ids: idsOf(subject) };
    return this.#track(this.#waiting.wait(who, cost, timeout, options.signal));
  }

  /**
   * Takes a slot of the limiter's concurrency policies if one is free, and charges its other policies. `decision.release()` gives the
   * slot back, `decision.renew()` holds it for another lease, and `await using` releases it at the end of a block. To wait for a slot, use
   * {@link wait}.
   *
   * @throws HeadgateError `HEADGATE_INVALID_OPTION` if the limiter has no concurrency policy; else as `consume`
   */
  async acquire(key: Key, options?: ConsumeOptions): Promise<Decision> {
    if (!holdsSlots(this.tiers.of(options?.tier).policies)) {
      const fix = "Make the limiter with a policy of algorithm 'concurrency'.";
      throw invalidOption('algorithm', undefined, fix);
    }
    return this.consume(key, options);
  }

  /**
   * Holds an admitted request until its turn, which comes after `delayMs` (leaky bucket with `maxDelay`). Requests go on in order, at the
   * leak rate. If the signal is aborted, the requests behind it move up, and the last turn goes back to the quota.
   *
   * @returns the decision, when its turn has come; or a denied one with the reason `'queue-full'`, as soon as `maxWaiting` leaves no room.
   * Then the charge is given back
   * @throws HeadgateError `HEADGATE_ABORTED`, `HEADGATE_CLOSED`: its charge is given back; or what the store fails with
   */
  async hold(decision: Decision, options: HoldOptions = {}): Promise<Decision> {
    checkShape('options', options, ['signal']);
    checkSignal(options.signal);
    if (this.#decider.closed) throw this.#decider.closedError();
    return this.#track(this.#hold(ofLimiter(decision), options.signal));
  }

  async #hold(decision: LimiterDecision, signal: AbortSignal | undefined): Promise<LimiterDecision> {
    if (decision.delayMs === 0 || decision.charged === 0) return decision;
    const outcome = await this.#held.hold(turnOf(decision), signal);
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

  /** Frees what the limiter made: its name, timers, its own memory store. The store that was passed in stays open. */
  async close(): Promise<void> {
    if (this.#decider.closed) return;
    this.#decider.closed = true;
    this.#release();
    this.#announced?.withdraw();
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
