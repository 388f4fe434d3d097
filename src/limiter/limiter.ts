import type { Decision } from '../common/decision.js';
import { visiblePolicies } from '../features/shares/contract/shares.js';
import { compilePolicies } from '../contract/compile-policies.js';
import { noteOpen, type Gauges, type KeyQueue } from '../contract/gauges.js';
import { UP, type Health } from '../contract/health.js';
import type { Cost } from '../contract/costs.js';
import type { Key } from '../contract/key.js';
import type { CompiledPolicy, Policies } from '../contract/policy.js';
import type { MaybePromise, PolicySet, Store } from '../contract/store.js';
import { checkHoldsSlots } from '../features/slots/slots.js';
import { Decider } from './decide.js';
import type { LimiterDecision } from './decision.js';
import { OverridableLimiter } from './overrides/overridable-limiter.js';
import { Operations } from './operations.js';
import type { ConsumeOptions, HoldOptions, RequestOptions, TierOption, WaitOptions } from './options.js';
import { requestOf } from './request.js';
import { checkDimensions, type Scope } from './scope.js';
import { checkPolicies } from './setup-checks.js';
import type { CheckedOptions } from './checked-options.js';
import type { Tiers } from './tiers.js';
import type { Usage } from './usage.js';
import { Waits } from './waiting/waits.js';

/** The parts of a limiter, which adapters and the command line also call directly. */
export interface Internals {
  readonly decider: Decider;
  readonly operations: Operations;
  /** Waiting requests, and requests held until their turn. */
  readonly waits: Waits;
  readonly scope: Scope;
}

/** A rate limiter, which decides about requests. Made by `createLimiter`. */
export class Limiter extends OverridableLimiter {
  /** The quota's scope. */
  readonly name: string;
  /** The limiter's policies. Empty if each request determines the policies. */
  readonly policies: readonly CompiledPolicy[];
  /** @internal */
  readonly set: PolicySet;
  /** @internal */
  readonly tiers: Tiers;
  /** @internal The store passed to the limiter. */
  readonly source: Store;
  /** @internal */
  readonly shadow: boolean;
  /** @internal The prefix lengths with which adapters turn IPv6 addresses into keys. */
  readonly ipv6Subnets = new Set<number>();
  /** @internal */
  readonly internals: Internals;
  readonly #noteClosed: () => void;

  /** @internal */
  constructor(setup: CheckedOptions) {
    super(setup);
    const { set, tiers, source, scope, life } = setup;
    this.name = set.name;
    this.policies = visiblePolicies(set.policies);
    this.set = set;
    this.tiers = tiers;
    this.source = source;
    this.shadow = setup.shadow;
    const decider = new Decider(setup, life);
    const operations = new Operations(setup, decider.account);
    this.internals = { decider, operations, waits: new Waits(setup, decider), scope };
    this.#noteClosed = noteOpen(this);
  }

  /** The health of the store. An embedded store is always up. */
  get health(): Health {
    return this.setup.store.health ?? UP;
  }

  /** The current counts of the limiter in this process, for metrics. */
  get gauges(): Gauges {
    const { decider, waits } = this.internals;
    const keys = this.setup.store.keysOf?.(this.name) ?? 0;
    return {
      ...waits.gauges,
      slots: decider.slots.size,
      overrides: Number(this.setup.live?.hasOverrideOfAll ?? 0),
      keys,
    };
  }

  /** @internal */
  queues(): ReadonlyMap<string, KeyQueue> {
    return this.internals.waits.queues();
  }

  /** Whether the limiter is on: see the option. @throws HeadgateError `HEADGATE_INVALID_OPTION` if the function does not return a boolean */
  get enabled(): boolean {
    return this.internals.decider.enabled;
  }

  /**
   * Decides a request, and charges the cost if every policy admits.
   *
   * @param key the client to limit: any string, or an object with a key for each dimension: `{ key: ip, account: 'ada' }`
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_DIMENSION`, `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_POLICY`,
   * `HEADGATE_UNKNOWN_TIER`, before anything is charged; the store's error under `onStoreError: 'throw'`; `HEADGATE_CLOSED`
   */
  consume(key: Key, options?: RequestOptions): Promise<Decision> {
    return this.internals.decider.answer(key, options, false);
  }

  /**
   * Decides like `consume`, but returns the decision itself if the store answers at once, as in memory. Errors are then thrown.
   *
   * @param set the deciding policies, from {@link compile}. @default the limiter's own
   */
  decide(key: Key, cost: Cost = 1, set: PolicySet = this.tiers.of(undefined)): MaybePromise<LimiterDecision> {
    return this.internals.decider.decide(requestOf(key, cost, set));
  }

  /**
   * The answer of `consume`, without charging or writing. After the store's clock went back, `retryAfterMs` counts from the next
   * `consume`, which repairs the state, and not from the look.
   *
   * @throws as `consume`
   */
  peek(key: Key, options?: ConsumeOptions): Promise<Decision> {
    return this.internals.decider.answer(key, options, true);
  }

  /**
   * Gives back the oldest units, never more than are charged. For the charge of a single request, call `decision.refund()`
   * instead, and never both, because the store does not know to which request the units belong. With `slotBy`, the key of that dimension is
   * required: see `reset`.
   *
   * @param cost units, or units by policy name: `{ tokens: 800 }`. As in `consume`, an unnamed policy costs 1
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_POLICY`, `HEADGATE_UNKNOWN_TIER`,
   * `HEADGATE_CLOSED`, or the store's error
   */
  refund(key: Key, cost: Cost = 1, options: TierOption = {}): Promise<void> {
    return this.internals.operations.refund(key, cost, options);
  }

  /**
   * Forgets the charges of a key. They are those by the limiter's policies, by those of every tier, and by the first 100 further shapes
   * from {@link compile}. With a `tier`, only the charges of the tier's policies are forgotten, which several tiers may share. Of several
   * keys, each is reset. With `slotBy`, the key of the dimension is required. Beside other keys, the key of `slotBy` only selects the place
   * of the counts; alone, the key itself is reset. A ban stays: see `unban`.
   *
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_TIER`, `HEADGATE_CLOSED`, or the store's error
   */
  reset(key: Key, options: TierOption = {}): Promise<void> {
    return this.internals.operations.reset(key, options);
  }

  /**
   * The quota of a key as customers see it: used and remaining units of each policy. Untouched and banned keys
   * have one, too. Nothing is charged.
   *
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_DIMENSION`, `HEADGATE_UNKNOWN_TIER`, `HEADGATE_CLOSED`, or the store's
   * error, because `onStoreError` has no usage to return
   */
  usage(key: Key, options: TierOption = {}): Promise<Usage> {
    return this.internals.operations.usage(key, options);
  }

  /**
   * Compiles policies for {@link decide} that are not known when the limiter is made. For known policies, use `tiers`.
   *
   * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_DIMENSIONS`
   */
  compile(policies: Policies): PolicySet {
    const { scope, store, warn } = this.setup;
    const set = scope.with(compilePolicies('policies', policies));
    checkDimensions(store, set);
    checkPolicies(set.policies, warn);
    scope.remember(set.policies);
    return set;
  }

  /**
   * Waits until a request is admitted, and charges the cost. Requests of this process that wait for the same key (or the same keys of
   * several dimensions) are served by priority, then in order of arrival, whatever their costs. Buckets give the requests of all processes
   * their turns up to a second ahead, in the order of the questions. Of other policies, each process gets about its share, and notices a
   * refund by another process within a second.
   *
   * @throws HeadgateError, with nothing charged: `HEADGATE_WAIT_TIMEOUT` at the timeout, because a refund may come until then, or at once if
   * a ban or the turn of a `maxDelay` outlasts the timeout; `HEADGATE_ABORTED`; `HEADGATE_DENIED` for a cost that can never be admitted; `HEADGATE_QUEUE_FULL` if the request
   * has to wait and `maxWaiting` leaves no room, at once or later; `HEADGATE_CLOSED`; otherwise as `consume`
   */
  wait(key: Key, options: WaitOptions = {}): Promise<Decision> {
    return this.internals.waits.wait(key, options);
  }

  /**
   * Takes a slot of the concurrency policies, and charges the others. `decision.release()` gives the slot back, and
   * `decision.renew()` holds the slot for another lease. `await using` releases the slot at the end of a block. To wait for a slot, call
   * {@link wait}.
   *
   * @throws HeadgateError `HEADGATE_INVALID_OPTION` if the limiter has no concurrency policy; otherwise as `consume`
   */
  async acquire(key: Key, options?: ConsumeOptions): Promise<Decision> {
    checkHoldsSlots(this.tiers.of(options?.tier));
    return this.consume(key, options);
  }

  /**
   * Holds an admitted request for `delayMs`, until its turn (leaky bucket with `maxDelay`). Requests leave in order, at the
   * leak rate. If the signal is aborted, the requests behind move up, and the last turn goes back to the quota.
   *
   * @returns the decision; or, if `maxWaiting` leaves no room, a refunded denial with the reason `'queue-full'`
   * @throws HeadgateError `HEADGATE_ABORTED`, `HEADGATE_CLOSED`, after the charge was given back; or the store's error
   */
  hold(decision: Decision, options: HoldOptions = {}): Promise<Decision> {
    return this.internals.waits.hold(decision, options);
  }

  /** Frees the limiter's name, timers and own memory store. A store from the options stays open. */
  close(): Promise<void> {
    const { source, store, live, release, life } = this.setup;
    return life.close(
      () => {
        release();
        this.#noteClosed();
        this.internals.decider.reports.withdraw();
        live?.close();
        this.internals.waits.close();
      },
      // An embedded store has no guard, and stays open. Even then the end takes a moment, in which waiting callers get their errors.
      () => (store === source ? undefined : store.close?.()),
    );
  }
}
