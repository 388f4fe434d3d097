import { randomBytes } from 'node:crypto';
import {
  banDimension,
  checkNote,
  compileBan,
  type BanNoteOptions,
  type BanOptions,
} from '../contract/ban-options.js';
import {
  decisionChannel,
  storeChannel,
  type DecisionMessage,
  type StoreMessage,
} from '../contract/diagnostics.js';
import type { Account } from './charge.js';
import { conclude, ofLimiter, type LimiterDecision, type Override } from './decision.js';
import type { Decision } from '../common/decision.js';
import {
  checkSlots,
  dimensionsOf,
  distinct,
  subjectOf,
  unknownDimension,
  withPolicies,
} from '../contract/dimensions.js';
import { DEFAULT_DIMENSION, type Key } from '../contract/key.js';
import { toMilliseconds, type Duration } from '../common/duration.js';
import { HeadgateError, invalidOption, show } from '../common/errors.js';
import { compilePolicies, POLICY_FIELDS } from '../contract/compile-policies.js';
import {
  holdsSlots,
  type CompiledPolicy,
  type NoPolicy,
  type Policies,
  type Policy,
  type StrictPolicies,
  type StrictPolicy,
} from '../contract/policy.js';
import { HoldQueue, unitTime } from './waiting/queue.js';
import { checkTimeout, withFailurePolicy, type FailureOptions } from '../stores/guard/failure.js';
import { UP } from '../contract/health.js';
import type { Health } from '../contract/health.js';
import { listen, type Listener } from '../common/eventual.js';
import { makeMemoryStore } from '../stores/memory/memory.js';
import { checkProcess, checkWindows } from './setup-checks.js';
import { claimName } from './names.js';
import { performance } from '../common/real-time.js';
import {
  isPromise,
  type Announced,
  type Dimensions,
  type Keys,
  type MaybePromise,
  type PolicySet,
  type Query,
  type Reply,
  type Store,
  type Subject,
} from '../contract/store.js';
import { soleVerdict } from '../contract/verdicts.js';
import { checkEnabled, isOn, type Switch } from './switch.js';
import { Tiers, type TierOptions } from './tiers.js';
import { realTiming } from '../common/timing.js';
import { compileWarnings, type Warn, type Warnings } from '../common/warnings.js';
import { idsOf, joined } from './who.js';
import { deniedError, fullError, WaitingRoom } from './waiting/wait.js';
import {
  checkBoolean,
  checkCost,
  checkFunction,
  checkInteger,
  checkShape,
  checkSignal,
  checkStore,
} from '../common/validate.js';

/** Options of every limiter, with or without HTTP. The policy stands inline (`limit`, `window`, ...) or in `policies`. */
export interface CommonOptions extends FailureOptions {
  /**
   * The quota's scope: limiters of one name on one store share their quota, and must have equal policies. Any string of 1 to
   * 256 characters. Default `'default'`, for one limiter per store.
   */
  name?: string;
  /** Where state lives. Default: a memory store of its own. */
  store?: Store;
  /**
   * Named sets of policies, 1 to 100, of which each request has one: `{ free: '100/1m', pro: '1000/1m' }`. Policies beside them are for
   * requests without a tier.
   */
  tiers?: TierOptions;
  /** Bans a key after repeated denials. `{}` only allows bans by hand. Default: no bans. */
  ban?: BanOptions;
  /** Decide and report, never deny. Default `false`. */
  shadow?: boolean;
  /**
   * A switch: `false`, or a function that returns `false`, turns the limiter off. Then every request is admitted: nothing is asked, charged,
   * written or reported. The function is called for each decision, and must answer at once. Default `true`.
   */
  enabled?: boolean | (() => boolean);
  /**
   * Which warnings about the set-up are not wanted: `false` for all, or their codes. Each comes once per process, as a process warning:
   * see docs/errors.md.
   */
  warnings?: Warnings;
  /**
   * The most requests that this limiter holds for their turn (`maxDelay`) in this process, and the most that it lets wait in
   * `wait`: 1 to 1,000,000, default 10,000. Further ones are denied (`reason: 'queue-full'`); but one of a key that has fewer
   * than others takes the place of the last one of the key that has most.
   */
  maxWaiting?: number;
  /** How many of these may be of one key: 1 to `maxWaiting`, default a tenth of it, rounded down, but at least 1. */
  maxWaitingPerKey?: number;
  /**
   * With Redis Cluster, and policies by several dimensions: the dimension in whose slot all keys of a decision lie. Each other key is
   * then counted within it: an address has a quota for each `org` that it comes with. Requests without a key of it share one slot. It
   * means the same on every store.
   */
  slotBy?: string;
  /**
   * The other way: keys of several slots are decided one after the other, and given back if one denies. Default `false`. Meanwhile a
   * simultaneous request may be denied though it need not be. Other stores than a cluster decide in one step all the same. See
   * docs/redis.md.
   */
  acrossSlots?: boolean;
}

/** What `createLimiter` takes besides the policy. */
export interface LimiterOptions extends CommonOptions {
  /** Every decision, for logs and metrics. What it throws is reported as a process warning. */
  onDecision?: (decision: Decision) => void;
}

/** Several policies, which decide together. */
export interface JointPolicies {
  /**
   * 1 to 32 policies, each as data or as text: `['300/1m', { limit: 5, window: '1s' }]`. A sole one may be its text alone. All of them
   * charge a request, or none does. Their names differ.
   */
  policies: StrictPolicies;
}

/** No policies beside the `tiers`: each request has a tier. */
export interface OnlyTiers {
  policies?: undefined;
  /** Named sets of policies, 1 to 100, of which each request has one: `{ free: '100/1m', pro: '1000/1m' }`. */
  tiers: TierOptions;
}

/** What `createLimiter` takes: a policy inline, `policies`, or `tiers`. */
export type CreateLimiterOptions = LimiterOptions &
  ((StrictPolicy & { policies?: undefined }) | (NoPolicy & (JointPolicies | OnlyTiers)));

/** Names of the options that are not the policy's. */
export const LIMITER_OPTIONS = [
  'name',
  'store',
  'policies',
  'tiers',
  'ban',
  'shadow',
  'enabled',
  'warnings',
  'onStoreError',
  'localShare',
  'timeout',
  'connectTimeout',
  'maxWaiting',
  'maxWaitingPerKey',
  'slotBy',
  'acrossSlots',
  'onHealth',
  'onDecision',
] as const;

/** Inline policy fields; `name` and `shadow` are the limiter's there. */
export const INLINE_FIELDS = POLICY_FIELDS.filter((field) => field !== 'name' && field !== 'shadow');

/** By which policies is decided. */
export interface TierOption {
  /** Which of the limiter's `tiers` decides. Default: its policies that stand beside them. */
  tier?: string | undefined;
}

/** Options of `consume`, `peek` and `acquire`. */
export interface ConsumeOptions extends TierOption {
  /** Whole units, 0 (only look) to 1e12. Default 1. */
  cost?: number;
}

/** Options of `wait`. */
export interface WaitOptions extends ConsumeOptions {
  /** Give up after so long: ms or `'5s'`, up to 366 days. Default: never. */
  timeout?: Duration;
  /** Gives up. */
  signal?: AbortSignal;
}

/** Options of `hold`. */
export interface HoldOptions {
  /** Gives up the request's turn. */
  signal?: AbortSignal;
}

/** What the failure policy answers without a store. A denied caller may try again in a second. */
const OVERRIDES: Readonly<Record<NonNullable<Reply['degraded']>, Override | undefined>> = {
  local: undefined,
  allow: { allowed: true, reason: 'store-error', retryAfterMs: 0 },
  deny: { allowed: false, reason: 'store-error', retryAfterMs: 1000 },
};

/** How many states of a key a reset knows. A function of the request may make any number of them. */
const MOST_KNOWN = 100;

/** For those who wait: until it is admitted, a request is neither a denial that counts towards a ban, nor an attempt. */
function patient(set: PolicySet): PolicySet {
  const { policies, ban } = set;
  if (!ban && !policies.some(({ attempts }) => attempts)) return set;
  return {
    ...set,
    policies: policies.map((policy) => (policy.attempts ? { ...policy, attempts: false } : policy)),
    ban: ban && { ...ban, after: 0 },
  };
}

/** What a limiter's dimensions are made of, besides its policies. */
interface ByOptions extends Omit<Dimensions, 'names'> {
  /** Dimensions that an adapter has keys of. */
  readonly known: readonly string[];
}

/** What a limiter consists of: its options, checked. */
interface Parts {
  readonly set: PolicySet;
  readonly tiers: Tiers;
  readonly by: ByOptions;
  readonly store: Store;
  readonly shadow: boolean;
  readonly enabled: Switch;
  readonly warn: Warn;
  readonly waiting: readonly [most: number, mostPerKey: number];
  readonly onDecision: LimiterOptions['onDecision'];
  /** Gives the name back. */
  readonly release: () => void;
  /** Whether a ban by denials forgets what was charged. */
  readonly freshBans: boolean;
}

/** @throws HeadgateError `HEADGATE_DIMENSIONS` if a store cannot decide by the dimensions of a set */
function checkDimensions(store: Store, set: PolicySet): void {
  if (!set.dimensions) return;
  if (store.checkDimensions) return store.checkDimensions(set);
  throw new HeadgateError(
    'HEADGATE_DIMENSIONS',
    'store: it knows nothing of dimensions, so that policies with `by` would count wrong keys. Use memoryStore, redisStore or stateStore; ' +
      'or teach it, and give it the method `checkDimensions`: see docs/extending.md.',
  );
}

const LEASE_PREFIX = randomBytes(9).toString('base64url');
let leases = 0;

/** Decides who may go on. Made by {@link createLimiter}. */
export class Limiter {
  /** The quota's scope. */
  readonly name: string;
  /** @internal */
  readonly set: PolicySet;
  /** @internal */
  readonly tiers: Tiers;
  readonly #store: Store;
  /** @internal */
  readonly shadow: boolean;
  readonly #enabled: Switch;
  readonly #warn: Warn;
  readonly #onDecision: ((decision: Decision) => void) | undefined;
  readonly #release: () => void;
  /** Whether a ban by denials forgets what was charged. */
  readonly #freshBans: boolean;
  #announced: Announced | undefined;
  #count: Announced['count'];
  /** @internal The prefix lengths by which adapters make keys of IPv6 addresses. */
  readonly ipv6Subnets = new Set<number>();
  readonly #held: HoldQueue;
  readonly #waiting: WaitingRoom;
  /** What `wait` asks by: its denials are not the caller's doing, and don't ban. */
  readonly #patientSets = new WeakMap<PolicySet, PolicySet>();
  /** Its own policies, and those that it has compiled: what a reset forgets. */
  #everything: PolicySet;
  /** What a decision changes its charge by: those who wait for its key learn what it gives back. */
  readonly #account: Account = {
    adjust: async (change) => {
      const reply = await this.#store.adjust(change);
      if (change.units.some((units) => units < 0)) this.#waiting.wake(idsOf(change));
      return reply;
    },
    lease: async (change) => {
      const held = await this.#store.lease(change);
      if (change.action === 'release') this.#waiting.wake(idsOf(change));
      return held;
    },
  };
  readonly #by: ByOptions;
  /** Dimensions that keys may have, beside those of a set: the adapter's, and those of other tiers. */
  #known: readonly string[];
  /** What must end before the store may be closed. */
  readonly #pending = new Set<Promise<unknown>>();
  #closed = false;

  /** @internal */
  constructor({
    set,
    tiers,
    by,
    store,
    shadow,
    enabled,
    warn,
    waiting,
    onDecision,
    release,
    freshBans,
  }: Parts) {
    this.#freshBans = freshBans;
    this.name = set.name;
    this.set = set;
    this.tiers = tiers;
    this.#by = by;
    this.#store = store;
    this.shadow = shadow;
    this.#enabled = enabled;
    this.#warn = warn;
    this.#onDecision = onDecision;
    this.#release = release;
    this.#held = new HoldQueue(...waiting, realTiming);
    this.#everything = tiers.everything;
    this.#known = this.#allKnown();
    this.#waiting = new WaitingRoom(...waiting, realTiming, {
      decide: (key, cost, its) => this.#ask(key, cost, its, false),
      hold: async (decision, signal) => {
        const result = await this.#hold(decision, signal);
        if (!result.allowed) throw fullError(decision.key);
        return result;
      },
    });
  }

  /** How the store is doing; always up if it is embedded. */
  get health(): Health {
    return this.#store.health ?? UP;
  }

  /** What it enforces. Empty if the policies come with each request. */
  get policies(): readonly CompiledPolicy[] {
    return this.set.policies;
  }

  /** Whether it limits now: see the option. @throws HeadgateError `HEADGATE_INVALID_OPTION` if the function returns no boolean */
  get enabled(): boolean {
    return isOn(this.#enabled);
  }

  /** @internal Tells the store of this limiter, for whoever operates it. */
  announceTo(store: Store, dynamic: boolean): void {
    const { name, ban } = this.set;
    const { sets } = this.tiers;
    const tiers = new Map([...sets].map(([tier, { policies: own }]) => [tier, own]));
    const policies = () => (sets.size > 0 ? this.policies : this.#everything.policies);
    const { shadow, ipv6Subnets } = this;
    const { banBy, slotBy } = this.#by;
    const told = { name, ban, banBy, slotBy, shadow, dynamic, ipv6Subnets, policies, tiers };
    this.#announced = store.announce?.(told);
    this.#count = this.#announced?.count;
  }

  /**
   * Decides one request and charges its cost if every policy admits it.
   *
   * @param key who is limited: any string; or an object with a key of each dimension, `{ key: ip, account: 'ada' }`
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_DIMENSION`, `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_TIER`, before
   * anything is charged; what the store fails with under `onStoreError: 'throw'`; `HEADGATE_CLOSED`
   */
  consume(key: Key, options?: ConsumeOptions): Promise<Decision> {
    return this.#promise(key, options, false);
  }

  /**
   * `consume`, without a promise where the store answers at once (memory); throws where that rejects.
   *
   * @param set the policies to decide by, of {@link compile}; default the limiter's own
   */
  decide(key: Key, cost = 1, set: PolicySet = this.tiers.of(undefined)): MaybePromise<LimiterDecision> {
    return this.#ask(key, cost, set, false);
  }

  /**
   * What `consume` would answer, without charging or writing anything.
   *
   * @throws as `consume`
   */
  peek(key: Key, options?: ConsumeOptions): Promise<Decision> {
    return this.#promise(key, options, true);
  }

  /**
   * Gives units back, of whatever is charged now; never more than that. To give back what one request was charged, and only
   * while its window lasts, use its `decision.refund()`.
   *
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_INVALID_COST`, `HEADGATE_UNKNOWN_TIER`, `HEADGATE_CLOSED`, or what the
   * store fails with
   */
  async refund(key: Key, cost = 1, options: TierOption = {}): Promise<void> {
    checkShape('options', options, ['tier']);
    const subject = this.#subject(key, this.tiers.of(options.tier));
    checkCost(cost);
    const units = subject.set.policies.map(() => -cost);
    if (cost > 0 && units.length > 0)
      await this.#account.adjust({ ...subject, units, charged: undefined, degraded: undefined });
  }

  /**
   * Forgets what was charged to a key, in this limiter's scope and nowhere else: by its own policies, by those of all its tiers, and by
   * those of the first 100 other shapes that {@link compile} has made. With a `tier`, by the policies of that tier only, which other
   * tiers may share. Of several dimensions, what was charged to each of the keys by itself. A ban stays: see `unban`.
   *
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_TIER`, `HEADGATE_CLOSED`, or what the store fails with
   */
  async reset(key: Key, options: TierOption = {}): Promise<void> {
    checkShape('options', options, ['tier']);
    const set = options.tier === undefined ? this.#everything : this.tiers.of(options.tier);
    const subject = this.#subject(key, set);
    if (subject.set.policies.length > 0) await this.#store.reset(subject);
    this.#waiting.wake(idsOf(subject));
  }

  /**
   * Bans a key by hand. The limiter must have the option `ban` (`{}` is enough), or it would not ask for bans.
   *
   * @param key with the option `ban: { by: 'account' }` an object with a key of that dimension: `{ account: 'ada' }`
   * @param duration ms or `'1h'`, up to 366 days
   * @param note who bans, and why
   * @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_CLOSED`, or what
   * the store fails with
   */
  async ban(key: Key, duration: Duration, note: BanNoteOptions = {}): Promise<void> {
    const subject = this.#banSubject(key);
    await this.#store.ban(subject, toMilliseconds('duration', duration), checkNote('ban', note));
  }

  /** Ends a ban and forgets the denials and bans before it. @throws as `ban` */
  async unban(key: Key, note: BanNoteOptions = {}): Promise<void> {
    const subject = this.#banSubject(key);
    await this.#store.ban(subject, 0, checkNote('unban', note));
    this.#waiting.wake(idsOf(subject));
  }

  /**
   * Policies for `decide`, compiled, in this limiter's scope, for policies that are not known when the limiter is made. For others
   * there are `tiers`.
   *
   * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`, `HEADGATE_DIMENSIONS`
   */
  compile(policies: Policies): PolicySet {
    const set = withPolicies(this.set, compilePolicies('policies', policies), this.#by);
    checkDimensions(this.#store, set);
    checkWindows(set.policies, this.#warn);
    this.#remember(set.policies);
    return set;
  }

  /** Of a key that was banned just now: nobody is admitted meanwhile. If it fails, what was charged counts until its window ends. */
  async #forget({ key, set }: Query): Promise<void> {
    this.#remember(set.policies);
    const names = set.dimensions?.names ?? [DEFAULT_DIMENSION];
    const keys = typeof key === 'string' ? [key] : key;
    const charged = this.#everything.policies.filter(({ by }) => by === this.#by.banBy);
    const banned = Object.fromEntries(names.map((name, i) => [name, keys[i]]));
    await this.#store.reset(subjectOf(withPolicies(this.set, charged, this.#by), banned, this.#known));
  }

  /** Notes what else is charged in this limiter's scope. */
  #remember(policies: readonly CompiledPolicy[]): void {
    const before = this.#everything.policies;
    const known = distinct([...before, ...policies]).slice(0, Math.max(MOST_KNOWN, before.length));
    if (known.length === before.length) return;
    this.#everything = withPolicies(this.set, known, this.#by);
    this.#known = this.#allKnown();
  }

  #allKnown(): string[] {
    return [...this.#by.known, ...(this.#everything.dimensions?.names ?? [])];
  }

  /** @internal A decision that no policy made: of a list. Nothing is asked or charged. */
  listed(key: Key, reason: 'allow-listed' | 'deny-listed'): LimiterDecision {
    const query: Query = { ...this.#subject(key), cost: 0, peek: true, lease: '' };
    const reply: Reply = { now: Date.now(), step: 0, ban: 0, verdicts: [] };
    const allowed = reason === 'allow-listed';
    const retryAfterMs = allowed ? 0 : undefined;
    const decision = conclude(this.#store, query, reply, this.shadow, { allowed, reason, retryAfterMs });
    this.#count?.(decision);
    return decision;
  }

  /**
   * Waits until a request is admitted, and charges it. Those who wait for one key (of several dimensions: for the same keys) in this
   * process are served in the order in which they came, whatever their costs, and the store is asked for the first of them alone, when it can be admitted.
   *
   * @throws HeadgateError, and nothing is charged: `HEADGATE_WAIT_TIMEOUT` at the timeout, or as soon as it is known that the
   * request cannot be admitted before it; `HEADGATE_ABORTED`; `HEADGATE_DENIED` for a cost that can never be admitted;
   * `HEADGATE_QUEUE_FULL` if `maxWaiting` leaves no room, or no more; `HEADGATE_CLOSED`; else as `consume`
   */
  async wait(key: Key, options: WaitOptions = {}): Promise<Decision> {
    checkShape('options', options, ['cost', 'tier', 'timeout', 'signal']);
    checkSignal(options.signal);
    const set = this.#patientSetOf(this.tiers.of(options.tier));
    const subject = this.#subject(key, set);
    const cost = checkCost(options.cost === undefined ? 1 : options.cost);
    const timeout = options.timeout === undefined ? Infinity : toMilliseconds('timeout', options.timeout);
    if (!this.enabled) return this.#ask(key, cost, set, false);
    const { policies } = subject.set;
    if (isNothing(subject.set) || policies.some(({ shadow, traits }) => !shadow && cost > traits.capacity)) {
      const decision = await this.#ask(key, cost, set, false);
      if (!decision.allowed) throw deniedError(decision);
      return decision;
    }
    const who = { key: typeof key === 'string' ? key : { ...key }, set, ids: idsOf(subject) };
    return this.#track(this.#waiting.wait(who, cost, timeout, options.signal));
  }

  /**
   * Takes a slot of the limiter's concurrency policies (and charges its others), if there is one: `decision.release()` gives
   * it back, `decision.renew()` holds it for another lease, and `await using` releases it at the end of a block. To wait for a
   * slot, use {@link wait}.
   *
   * @throws HeadgateError `HEADGATE_INVALID_OPTION` if the limiter has no concurrency policy; else as `consume`
   */
  async acquire(key: Key, options?: ConsumeOptions): Promise<Decision> {
    if (!holdsSlots(this.tiers.of(options?.tier).policies)) {
      throw invalidOption(
        'algorithm',
        undefined,
        "Make the limiter with a policy of algorithm 'concurrency'.",
      );
    }
    return this.consume(key, options);
  }

  /**
   * Holds an admitted request until its turn (`delayMs`, of a leaky bucket with `maxDelay`): requests go on at the leak rate,
   * in order. If the signal gives it up, its slot is free: those behind it move up, and the last slot goes back to the quota.
   *
   * @returns the decision, when its turn has come; or a denied one with the reason `'queue-full'`, as soon as `maxWaiting` leaves
   * no room for it: its charge is given back
   * @throws HeadgateError `HEADGATE_ABORTED`, `HEADGATE_CLOSED`: its charge is given back; or what the store fails with
   */
  async hold(decision: Decision, options: HoldOptions = {}): Promise<Decision> {
    checkShape('options', options, ['signal']);
    checkSignal(options.signal);
    if (this.#closed) throw this.#closedError();
    return this.#track(this.#hold(ofLimiter(decision), options.signal));
  }

  async #hold(decision: LimiterDecision, signal: AbortSignal | undefined): Promise<LimiterDecision> {
    if (decision.delayMs === 0 || decision.charged === 0) return decision;
    const { cost, delayMs, set, subject } = decision;
    // Requests move up among those that the same policies pace.
    const key = joined(idsOf(subject, ({ traits }) => traits.paceMs !== undefined));
    const turn = { key, cost, delayMs, unitMs: unitTime(set.policies) };
    const outcome = await this.#held.hold(turn, signal);
    if (outcome === 'turn') return decision;
    await decision.cancel();
    if (outcome === 'full') return this.#report(decision.queueFull());
    if (outcome === 'closed') throw this.#closedError();
    throw new HeadgateError('HEADGATE_ABORTED', 'The request was given up before its turn.', {
      cause: signal?.reason,
    });
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
    if (this.#closed) return;
    this.#closed = true;
    this.#release();
    this.#announced?.withdraw();
    this.#held.close();
    this.#waiting.close(this.#closedError());
    await Promise.allSettled(this.#pending);
    await this.#store.close?.();
  }

  #closedError(): HeadgateError {
    return new HeadgateError('HEADGATE_CLOSED', `The limiter ${JSON.stringify(this.name)} is closed.`);
  }

  /** @internal @throws HeadgateError `HEADGATE_INVALID_KEY`, `HEADGATE_UNKNOWN_DIMENSION`, `HEADGATE_CLOSED` */
  checkKey(key: Key): void {
    this.#subject(key);
  }

  #patientSetOf(set: PolicySet): PolicySet {
    let patientSet = this.#patientSets.get(set);
    if (!patientSet) this.#patientSets.set(set, (patientSet = patient(set)));
    return patientSet;
  }

  #subject(key: Key, set = this.set): Subject {
    if (this.#closed) throw this.#closedError();
    return subjectOf(set, key, this.#known);
  }

  #banSubject(key: Key): Subject {
    if (!this.set.ban)
      throw invalidOption('ban', undefined, 'Make the limiter with the option `ban` ({} is enough).');
    const subject = this.#subject(key);
    if (subject.set.ban) return subject;
    const { banBy } = this.#by;
    throw new HeadgateError(
      'HEADGATE_INVALID_KEY',
      `key: ${show(key)} is not banned, as the bans of this limiter are by ${show(banBy)}. Pass { ${banBy}: ... }.`,
    );
  }

  #ask(key: Key, cost: number, set: PolicySet, peek: boolean): MaybePromise<LimiterDecision> {
    if (this.#closed) throw this.#closedError();
    if (typeof key === 'string' && set.dimensions === undefined) return this.#decide(set, key, cost, peek);
    const subject = subjectOf(set, key, this.#known);
    if (!isNothing(subject.set)) return this.#decide(subject.set, subject.key, cost, peek);
    const query: Query = { ...subject, cost: checkCost(cost), peek: true, lease: '' };
    if (!this.enabled) return switchedOff(query);
    return this.#conclude(query, { now: Date.now(), step: 0, ban: 0, verdicts: [] }, true);
  }

  #decide(set: PolicySet, key: Keys, cost: number, peek: boolean): MaybePromise<LimiterDecision> {
    checkCost(cost);
    const leased = !peek && cost > 0 && holdsSlots(set.policies);
    const lease = leased ? `${LEASE_PREFIX}${(leases++).toString(36)}` : '';
    const query: Query = { set, key, cost, peek: peek || cost === 0, lease, until: 0, abandoned: false };
    if (this.#enabled !== true && !this.enabled) return switchedOff(query);
    const reply = this.#store.decide(query);
    if (!isPromise(reply)) return this.#conclude(query, reply, peek);
    if (storeChannel.hasSubscribers) this.#observe(reply);
    return this.#eventually(query, reply, peek);
  }

  /** An async function would make a second promise of a store's, and wait for the first: 4 % of a decision on Redis. */
  #promise(key: Key, options: ConsumeOptions | undefined, peek: boolean): Promise<LimiterDecision> {
    try {
      const cost = checkArguments(options);
      const decision = this.#ask(key, cost, this.tiers.of(options?.tier), peek);
      return isPromise(decision) ? decision : Promise.resolve(decision);
    } catch (thrown) {
      const error = thrown as Error;
      return Promise.reject(error);
    }
  }

  /** In its own method: V8 allocates a closure's context at function entry, even on paths that never create the closure. */
  #eventually(query: Query, reply: Promise<Reply>, peek: boolean): Promise<LimiterDecision> {
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

  /** Tells those who listen how long the store took. */
  #observe(reply: Promise<Reply>): void {
    const asked = performance.now();
    const load = performance.eventLoopUtilization();
    const publish = (degraded: boolean, error?: unknown): void => {
      const message: StoreMessage = {
        limiter: this.name,
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

  #conclude(query: Query, reply: Reply, peek: boolean): LimiterDecision {
    const account = peek ? undefined : this.#account;
    // By a name that is there: V8 is slow at looking up what is not.
    const known = reply.degraded === undefined ? undefined : OVERRIDES[reply.degraded];
    const override = known && reply.late ? { ...known, reason: 'process-late' as const } : known;
    const decision = this.#report(conclude(account, query, reply, this.shadow, override));
    if (reply.ban < 0 && this.#freshBans) void this.#track(this.#forget(query)).catch(() => {});
    if (this.#count && !query.peek) this.#count(decision);
    if (decision.reason === 'cost-exceeds-capacity') this.#warnOfCost(decision);
    return decision;
  }

  #warnOfCost({ cost, policy }: Decision): void {
    this.#warn(
      'HEADGATE_COST_ABOVE_CAPACITY',
      `The limiter ${JSON.stringify(this.name)} was asked for a cost of ${cost}, which its policy '${policy}' can never admit. Give the policy a ` +
        'larger limit or burst, or bound the cost.',
    );
  }

  #report(decision: LimiterDecision): LimiterDecision {
    if (decisionChannel.hasSubscribers) {
      const message: DecisionMessage = { limiter: this.name, shadow: this.shadow, decision };
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

/** Decides as for a key that has used nothing. */
function switchedOff(query: Query): LimiterDecision {
  const verdicts = query.set.policies.flatMap(({ traits }) => soleVerdict(0, traits.capacity, 0));
  const reply: Reply = { now: Date.now(), step: 0, ban: 0, verdicts };
  return conclude(undefined, query, reply, false, { allowed: true, reason: 'disabled', retryAfterMs: 0 });
}

/** Whether nothing of a set applies to a request. */
function isNothing({ policies, ban }: PolicySet): boolean {
  return policies.length === 0 && !ban;
}

function checkArguments(options: ConsumeOptions | undefined): number {
  if (options === undefined) return 1;
  checkShape('options', options, ['cost', 'tier']);
  return options.cost === undefined ? 1 : options.cost;
}

/** Whether options have policies, in `policies` or inline. */
export function hasPolicies(options: object): boolean {
  return ['policies', ...INLINE_FIELDS].some((field) => options[field as keyof typeof options] !== undefined);
}

/** The policies among options: `policies`, or one inline. @throws HeadgateError `HEADGATE_INVALID_OPTION` */
function policiesOf(options: object): Policies {
  const inline = Object.fromEntries(
    INLINE_FIELDS.filter((field) => field in options).map((field) => [
      field,
      options[field as keyof typeof options],
    ]),
  );
  const { policies } = options as Partial<JointPolicies>;
  const both = Object.keys(inline);
  if (policies === undefined) {
    if (both.length > 0) return [inline as unknown as Policy];
    throw invalidOption(
      'policy.limit',
      undefined,
      "Write { limit: 100, window: '1m' }, or several in `policies`.",
    );
  }
  if (both.length > 0) {
    throw invalidOption(
      both.join(', '),
      inline,
      'Write one policy inline, or all of them in `policies`, not both.',
    );
  }
  return policies;
}

/**
 * Makes a limiter.
 *
 * @example
 * const limiter = createLimiter({ name: 'api', store: redisStore(redis), limit: 100, window: '1m' })
 * const { allowed, remaining, retryAfterMs } = await limiter.consume('user:42')
 *
 * @param given the options, or a sole policy's text: `createLimiter('100/1m')`
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`; `HEADGATE_NAME_REQUIRED` for a second limiter
 * without a name on one store; `HEADGATE_POLICY_MISMATCH` for one of the same name with other policies
 */
export function createLimiter(given: CreateLimiterOptions | string): Limiter {
  const options = optionsOf(given);
  checkOptions('createLimiter', options, [...LIMITER_OPTIONS, ...INLINE_FIELDS]);
  return assembleLimiter(options);
}

/** Options; a text is the limiter's policy. */
export function optionsOf<Options extends object>(given: Options | string): Options {
  return typeof given === 'string' ? ({ policies: given } as unknown as Options) : given;
}

/** What an adapter knows of its limiter besides the user's options. */
export interface Assembly {
  /** The name if the user gave none. */
  defaultName?: string;
  /** Policies come with each request, by `compile`: the limiter has none of its own. */
  dynamic?: boolean;
  /** What each request costs, where it is known. */
  cost?: number;
  /** Dimensions of which the adapter has keys. */
  dimensions?: readonly string[];
}

/** `createLimiter` for options that were checked. @throws as it */
export function assembleLimiter(
  options: LimiterOptions & { policies?: Policies | undefined },
  { defaultName = 'default', dynamic = false, cost = 0, dimensions: known = [] }: Assembly = {},
): Limiter {
  const inTiers = options.tiers !== undefined && !hasPolicies(options);
  const policies =
    dynamic || inTiers
      ? []
      : compilePolicies('policies' in options ? 'policies' : 'policy', policiesOf(options));
  checkCapacity(cost, policies);
  const ban = compileBan(options.ban);
  const by: ByOptions = { ...checkSlots(options), banBy: banDimension(options.ban), known };
  const set: PolicySet = Object.freeze({
    name: checkLimiterName(options.name) ?? defaultName,
    policies,
    ban,
    dimensions: dimensionsOf(policies, ban, by),
    timeout: checkTimeout('timeout', options.timeout),
  });
  const tiers = new Tiers(options.tiers, set, by);
  if (!dynamic) checkUsed(by, tiers.all);
  const shadow = checkBoolean('shadow', options.shadow, false);
  const enabled = checkEnabled(options.enabled);
  const warn = compileWarnings(options.warnings);
  checkFunction('onDecision', options.onDecision);
  const own = options.store === undefined;
  const inner = options.store === undefined ? makeMemoryStore({}, warn) : checkStore(options.store);
  for (const each of tiers.all) checkDimensions(inner, each);
  const store = withFailurePolicy(inner, options, set.timeout, warn);
  const waiting = checkWaiting(options);
  // Last: options that are refused claim nothing.
  const release = own ? () => {} : claimName(inner, options.name, set, tiers.sets, dynamic);
  const limiter = new Limiter({
    ...{ set, tiers, by, store, shadow, enabled, warn, waiting, release },
    onDecision: options.onDecision,
    freshBans: options.ban?.fresh ?? false,
  });
  limiter.announceTo(inner, dynamic);
  for (const each of tiers.all) checkWindows(each.policies, warn);
  if (inner.embedded) checkProcess(warn);
  return limiter;
}

/** @throws HeadgateError `HEADGATE_UNKNOWN_DIMENSION` for a dimension of which no request has a key */
function checkUsed({ banBy, slotBy, known }: ByOptions, sets: readonly PolicySet[]): void {
  const used = [DEFAULT_DIMENSION, ...known, ...sets.flatMap(({ policies }) => policies.map(({ by }) => by))];
  if (!used.includes(banBy)) throw unknownDimension('ban.by', banBy, used);
  if (slotBy !== undefined && !used.includes(slotBy)) throw unknownDimension('slotBy', slotBy, used);
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` for a cost that no request could ever be admitted with */
export function checkCapacity(cost: number, policies: readonly CompiledPolicy[]): void {
  const tooSmall = policies.find(({ shadow, traits }) => !shadow && cost > traits.capacity);
  if (!tooSmall) return;
  const { name, traits } = tooSmall;
  const fix = `The policy '${name}' never admits more than ${traits.capacity} at once. Write less, or give it a larger limit or burst.`;
  throw invalidOption('cost', cost, fix);
}

/** Refuses a limiter in place of options, and what `checkShape` refuses. */
export function checkOptions(what: string, options: unknown, known: readonly string[]): void {
  if (options instanceof Limiter) {
    const fix = known.includes('limiter') ? 'Write { limiter } instead of limiter.' : 'Write its options.';
    throw new HeadgateError(
      'HEADGATE_INVALID_OPTION',
      `${what}: a limiter is not an object of options. ${fix}`,
    );
  }
  checkShape(what, options, known);
}

function checkWaiting({ maxWaiting, maxWaitingPerKey }: CommonOptions): [most: number, mostPerKey: number] {
  const most = maxWaiting === undefined ? 10_000 : checkInteger('maxWaiting', maxWaiting, 1, 1e6);
  const share = Math.max(1, Math.floor(most / 10));
  if (maxWaitingPerKey === undefined) return [most, share];
  return [most, checkInteger('maxWaitingPerKey', maxWaitingPerKey, 1, most)];
}

function checkLimiterName(name: unknown): string | undefined {
  if (name === undefined) return undefined;
  if (typeof name !== 'string' || name.length < 1 || name.length > 256) {
    throw invalidOption('name', name, 'Write a string of 1 to 256 characters.');
  }
  return name;
}
