import type { HeadgateError } from '../common/errors.js';
import { oncePer } from '../common/lazy.js';
import { MAX_UNITS } from '../common/validate.js';
import type { Announced, Announcement } from './announcement.js';
import type { Costs } from './costs.js';
import type { ChangeParts, QueryParts, StoreParts } from './features.js';
import type { Health } from './health.js';
import type { Call, MaybePromise, PolicySet, Subject } from './policy-set.js';
import type { ChangeReply, Charged, Reply, UsageReply } from './reply.js';
import { areVerdicts } from './verdicts.js';

export type { Claim } from '../features/ids/contract/ids.js';
export type { OverridePlace, OverrideStore } from '../features/overrides/contract/override-store.js';
export type { LeaseChange } from '../features/slots/contract/lease.js';
export type { Call, Dimensions, Keys, MaybePromise, PolicySet, Subject } from './policy-set.js';

export function isPromise<T>(value: MaybePromise<T>): value is Promise<T> {
  return typeof (value as Partial<Promise<T>> | undefined)?.then === 'function';
}

/** The current time in whole milliseconds since the Unix epoch. */
export type Clock = () => number;

/** The state of a call before it is sent. */
export function newCall(): Call {
  return { until: 0, server: undefined, abandoned: false };
}

/** Remembers the value of the last set, because most requests have the same set. */
export function withLast<T>(find: (set: PolicySet) => T): (set: PolicySet) => T {
  let lastSet: PolicySet | undefined;
  let last: T;
  return (set) => {
    if (set === lastSet) return last;
    last = find(set);
    lastSet = set;
    return last;
  };
}

/**
 * Makes a value once per policy set, and remembers the value as long as the set. A set stays plain data, because a store around a store may
 * pass on a changed copy.
 */
export const perSet = <T>(make: (set: PolicySet) => T): ((set: PolicySet) => T) => withLast(oncePer(make));

/**
 * Whether the units of one of a set's policies are slots. A loop takes less time than `perSet` if a process has many limiters, whose sets
 * then come in turns.
 */
export function holdsSlots({ policies }: Pick<PolicySet, 'policies'>): boolean {
  for (let i = 0; i < policies.length; i++) if (policies[i]!.traits.holdsSlots) return true;
  return false;
}

/** Whether one of a set's policies may hold a request until its turn. */
export function mayDelay({ policies }: PolicySet): boolean {
  for (let i = 0; i < policies.length; i++) if (policies[i]!.traits.aheadMs !== undefined) return true;
  return false;
}

/** A request for a decision. */
export interface Query extends Subject, Costs, QueryParts {
  /** Whether the store only looks: it answers as usual and writes nothing. */
  readonly peek: boolean;
  /** @internal The store's error at a read before this query. The guard answers without asking the store again. */
  failure?: HeadgateError;
}

/** A question that charges and writes nothing. */
export function lookOf(subject: Subject, costs: Costs): Query {
  return { ...subject, ...costs, peek: true, lease: '' };
}

/** Whether a store's answer is a reply with verdicts on a set. A store written by a user may answer incorrectly. */
export function isReply(answer: unknown, { policies, ban: banning, overrides }: PolicySet): answer is Reply {
  const {
    now,
    step,
    ban,
    verdicts,
    full = 0,
    degraded,
    limits,
    clientChanges,
    first,
  } = (answer ?? {}) as Partial<Reply>;
  if (
    !Number.isSafeInteger(step) ||
    !Number.isSafeInteger(now) ||
    now! < 0 ||
    !Number.isSafeInteger(ban) ||
    !Array.isArray(verdicts)
  )
    return false;
  if (ban !== 0 && !banning) return false;
  if (clientChanges !== undefined) return overrides !== undefined && verdicts.length === 0;
  // The set that decided first may be another one: see `decisionBy`.
  if (first !== undefined)
    return Array.isArray(first.costs) && Array.isArray(first.verdicts) && verdicts.length === 0;
  if (limits !== undefined && !(Array.isArray(limits) && limits.length === policies.length)) return false;
  if (!Number.isSafeInteger(full) || full < 0) return false;
  if (degraded === 'allow' || degraded === 'deny') return verdicts.length === 0;
  // A store may know only the ban, and then the policies do not extend the wait.
  if (ban! > 0 && verdicts.length === 0) return true;
  return areVerdicts(verdicts, policies.length);
}

/** The next step after `last`, at a time in ms. Steps in the same millisecond differ in their order, as far as microseconds allow. */
export function stepAfter(last: number, now: number): number {
  const first = now * 1000;
  return last >= first && last < first + 1000 ? Math.min(last + 1, first + 999) : first;
}

/** The step of the i-th request of a call, in the same millisecond. */
export function stepOf(first: number, i: number): number {
  return Math.min(first + i, Math.floor(first / 1000) * 1000 + 999);
}

/** A refund, a settled cost, or another change of a charge. */
export interface ChargeChange extends Subject, ChangeParts {
  /** The units of each policy: above 0 to charge, even beyond the remaining units; below 0 to give back. */
  readonly units: readonly number[];
  /** The charge to give back, or undefined for the oldest units. `units` is 0 for policies without a charge. */
  readonly charged: Charged | undefined;
  /** The substitute behind the answer: see `Reply.degraded`. Only the guard can change its own charges. */
  readonly degraded: Reply['degraded'];
}

/** Whether a store's answer to a change contains the charge of each policy. */
export function hasCharges({ charged }: Partial<ChangeReply>, { policies }: PolicySet): boolean {
  return (
    Array.isArray(charged) &&
    charged.length === policies.length &&
    charged.every((units) => Number.isSafeInteger(units) && units >= 0 && units <= MAX_UNITS)
  );
}

/**
 * The contract between limiter and store. A store keeps state and decides, and each method is one atomic step. The policies of a query are
 * decided together: either every policy is charged, or none. A failing store throws or rejects, and never guesses. If possible, a store
 * does not carry out a call later than the set's timeout. A store can wrap another store, by implementing the same five methods.
 */
export interface Store extends StoreParts {
  /** Whether the store decides in this process, at once, and is never down, so that no guard is needed. */
  readonly embedded?: boolean;
  /** Set by the guard and by memory stores. */
  readonly health?: Health;
  /**
   * Decides a query. If every policy except shadows admits the query, the admitting policies are charged. Otherwise only admitting policies
   * that count attempts are charged, and their verdicts also contain the time for which the same query is denied from now on.
   */
  decide(query: Query): MaybePromise<Reply>;
  /** Charges or gives back unconditionally. The verdicts contain the remaining units, and their `wait` is 0. */
  adjust(change: ChargeChange): MaybePromise<ChangeReply>;
  /**
   * Forgets the charges of a key in the policies of a set, which cannot be given back afterwards. Bans stay.
   *
   * @param isLogged whether a store with a log for operators logs the change. @default true
   */
  reset(subject: Subject, isLogged?: boolean): MaybePromise<void>;
  /** Looks at a key without changing anything: see {@link UsageReply}. Without this method, limiters ask `decide` and read the records. */
  usage?(subject: Subject): MaybePromise<UsageReply>;
  /**
   * Throws if the store cannot decide by the dimensions of a set. A store without this method does not support dimensions, and limiters
   * with policies by other keys than the request's key refuse such a store.
   */
  checkDimensions?: ((set: PolicySet) => void) | undefined;
  /** The names of the servers, if several servers share the keys. A server can be down while the rest answer. */
  servers?(): readonly string[];
  /** The name of the server with a key, or undefined for a single server or an unknown name. */
  serverOf?(subject: Subject): string | undefined;
  /**
   * Resolves at the next connection of the store's client, so that a store that was down is probed at once. A store with this method must
   * end each call when its connection ends, because no probe starts while a call is under way.
   */
  whenReady?(): Promise<void> | undefined;
  /** Explains in a sentence why the client is not connected, for messages. */
  waitsFor?(): string | undefined;
  /** Receives each limiter of the store, to show to operators. */
  announce?(limiter: Announcement): Announced | undefined;
  /** The number of keys that the store keeps in this process for a name of limiters, for metrics. */
  keysOf?(name: string): number;
  /** Frees everything that the store itself made, such as timers. The user's client stays open. */
  close?(): MaybePromise<void>;
}

/** Whether neither a policy nor a ban of a set applies to a request. */
export function isNothing({ policies, ban }: PolicySet): boolean {
  return policies.length === 0 && !ban;
}
