import type { CompiledBan } from './ban-options.js';
import type { ChangeNote } from './change-note.js';
import type { HeadgateError } from '../common/errors.js';
import { oncePer } from '../common/lazy.js';
import { MAX_UNITS } from '../common/validate.js';
import type { Announced, Announcement } from './announcement.js';
import type { Costs } from './costs.js';
import type { CompiledPolicy } from './policy.js';
import type { Health } from './health.js';
import type { OverrideRecord, AppliedOverrides, RecordChange } from './overrides.js';
import type { ThresholdEvent } from './crossing.js';
import type { ChangeReply, Charged, Reply, UsageReply } from './reply.js';
import { areVerdicts } from './verdicts.js';

/** A value, or a promise of the value. The memory store returns values, which saves a promise per request. */
export type MaybePromise<T> = T | Promise<T>;

export function isPromise<T>(value: MaybePromise<T>): value is Promise<T> {
  return typeof (value as Partial<Promise<T>> | undefined)?.then === 'function';
}

/** The current time in whole milliseconds since the Unix epoch. */
export type Clock = () => number;

/** The dimensions by which a set's policies count. */
export interface Dimensions {
  /** The dimensions of the policies, of the ban and of `slotBy`. `'key'`, the dimension of policies without `by`, comes first. */
  readonly names: readonly string[];
  /** The dimension whose key is banned. */
  readonly banBy: string;
  /** The dimension whose key determines the cluster slot of a decision's keys. Other keys are then counted once per key of the slot's dimension. */
  readonly slotBy: string | undefined;
  /** Whether keys in several slots may be decided one after the other. */
  readonly acrossSlots: boolean;
}

/**
 * The client's key as a string if all policies of the set count by one dimension; otherwise a string per dimension in `dimensions.names`,
 * in the same order. With `slotBy`, even a single key of another dimension is an array.
 */
export type Keys = string | readonly string[];

/** The rules of a limiter. All queries share the set, so that a store can keep data about the set: see `perSet`. */
export interface PolicySet {
  /** The quota's scope. On one store, sets with the same name share state. */
  readonly name: string;
  /** The policies, in the order of the options. */
  readonly policies: readonly CompiledPolicy[];
  /** The ban options, or undefined if the limiter never bans. */
  readonly ban?: CompiledBan | undefined;
  /** Set if a ban by denials forgets charges of the banned key, in the step that begins the ban: those in these policies, which may grow in number. */
  readonly freshBans?: { readonly charges: PolicySet } | undefined;
  /** Absent if all policies and the ban count by the request's key. */
  readonly dimensions?: Dimensions | undefined;
  /** Absent if the limiter has no overrides, so that no record is read. */
  readonly overrides?: (AppliedOverrides & Later) | undefined;
  /** Whether the last policy is the line of the processes that wait for slots, which users do not see. */
  readonly isInLine?: boolean;
  /** The time for which ids are remembered, ms. */
  readonly idsFor?: number | undefined;
  /** The most repetitions of an id that are not charged. */
  readonly repeats?: number | undefined;
  /** The set with the whole limits, if this is the substitute's with a part of each limit. */
  readonly scaledFrom?: PolicySet;
  /**
   * The time for which the caller waits for an answer, ms, from when the question was sent. If it can, a store must not decide later,
   * because the caller has another answer by then.
   */
  readonly timeout: number;
  /** Receives each crossing of a threshold that a store reports. */
  readonly onThreshold?: ((event: ThresholdEvent) => void) | undefined;
  /** The name of the tier, if the policies are those of a tier. Reports show it. */
  readonly tier?: string;
}

/**
 * The state of a call under way, shared by the caller and the store. The call is the only changing part of a question, and all copies of
 * the question share the call, so that a store around another store need not pass changes on.
 */
export interface Call {
  /**
   * The end of the caller's patience, by `performance.now()`. A store that sends questions elsewhere sets the time with each question. 0
   * before, and for other stores.
   */
  until: number;
  /** The name of the server with the question, set by a store with several servers when it sends the question. */
  server: string | undefined;
  /** The servers that have answered a part of the question, set by a store that asks several servers. */
  answered?: Set<string>;
  /** Set by the caller once it no longer waits. From then on the question must not be sent, nor sent again. */
  abandoned: boolean;
}

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

/** A key with the policies that apply to it: the subject of every operation. */
export interface Subject {
  /** The policies, and the name of their scope. */
  readonly set: PolicySet;
  /** Any string, or one string for each dimension. */
  readonly key: Keys;
  /** Absent if the caller waits without a time limit. */
  readonly call?: Call | undefined;
}

/** A request for a decision. */
export interface Query extends Subject, Costs {
  /** The weight of the tenant in shared policies. Undefined if the policies' own weights count. */
  readonly weight?: number | undefined;
  /** Whether the store only looks: it answers as usual and writes nothing. */
  readonly peek: boolean;
  /** A unique name for the slots of concurrency policies that the query takes. Empty for a set without concurrency policies. */
  readonly lease: string;
  /** The id of the request. A store with `remembersIds` answers a repetition of a charged request with `Reply.first`, without a charge. */
  readonly id?: string | undefined;
  /** The subject beside whose first key the id is remembered, if not the query's. */
  readonly idHome?: Subject | undefined;
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

/** The part of a request with an id in a change of its charge. Of all decisions about the charge, only the first to change it may change it again. */
export interface Claim {
  readonly id: string;
  /** The step of the charge. */
  readonly step: number;
  /** Whether the decision made the charge, and does not only repeat it. */
  readonly isFirst: boolean;
  /** A name of the decision, 5 characters. */
  readonly owner: string;
  /** Whether nothing of the charge is left after the change, so that the id is free again. */
  readonly isLast: boolean;
  /** Whether the limiter returns the charge by itself. It then stays if the request was repeated, because a repetition may have been served. */
  readonly isAutomatic?: boolean;
}

/** A refund, a settled cost, or another change of a charge. */
export interface ChargeChange extends Subject {
  /** The units of each policy: above 0 to charge, even beyond the remaining units; below 0 to give back. */
  readonly units: readonly number[];
  /** The charge to give back, or undefined for the oldest units. `units` is 0 for policies without a charge. */
  readonly charged: Charged | undefined;
  /** Set if the request has an id: whether the change may be made. If not, the store only looks. */
  readonly claim?: Claim | undefined;
  /** As in `Query`. */
  readonly idHome?: Subject | undefined;
  /** The substitute behind the answer: see `Reply.degraded`. Only the guard can change its own charges. */
  readonly degraded: Reply['degraded'];
}

/** The key, or all keys, that an override is for. */
export type OverridePlace =
  | {
      /** The whole set, and the keys of one of its dimensions: the key of `by`, and the key of `slotBy` if it determines the slot. */
      readonly subject: Subject;
      /** The dimension whose policies change. */
      readonly by: string;
    }
  | {
      /** The set of the limiter, for all keys. */
      readonly set: PolicySet;
      /** As in `Subject`. */
      readonly call?: Call | undefined;
    };

/** The set that follows at the next end of an override which the caller applies. Absent if no such override ends by itself. */
interface Later {
  readonly later?: { readonly at: number; readonly set: () => PolicySet };
}

/** Keeps overrides beside the state of a key, or for all keys of a limiter under a separate key. */
export interface OverrideStore {
  /** Changes a record in one step. @returns the record before the change, empty if there was no record, and the store's time */
  change(place: OverridePlace, change: RecordChange): MaybePromise<readonly [OverrideRecord, number]>;
  /** Reads a record. @returns the record, empty if there is none, and the store's time */
  read(place: OverridePlace): MaybePromise<readonly [OverrideRecord, number]>;
}

/** Whether a store's answer to a change contains the charge of each policy. */
export function hasCharges({ charged }: Partial<ChangeReply>, { policies }: PolicySet): boolean {
  return (
    Array.isArray(charged) &&
    charged.length === policies.length &&
    charged.every((units) => Number.isSafeInteger(units) && units >= 0 && units <= MAX_UNITS)
  );
}

/** An action on the concurrency slots that a query took. */
export interface LeaseChange extends Subject, Costs {
  /** The `lease` of the query. */
  readonly lease: string;
  /** Whether to give the slots back, or to hold them for another full lease. */
  readonly action: 'release' | 'renew';
  /** The substitute behind the answer: see `Reply.degraded`. Only the guard can change its own slots. */
  readonly degraded: Reply['degraded'];
}

/**
 * The contract between limiter and store. A store keeps state and decides, and each method is one atomic step. The policies of a query are
 * decided together: either every policy is charged, or none. A failing store throws or rejects, and never guesses. If possible, a store
 * does not carry out a call later than the set's timeout. A store can wrap another store, by implementing the same five methods.
 */
export interface Store {
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
  /** Releases or renews concurrency slots. @returns false if they were no longer held, in which case nothing changes */
  lease(change: LeaseChange): MaybePromise<boolean>;
  /**
   * Forgets the charges of a key in the policies of a set, which cannot be given back afterwards. Bans stay.
   *
   * @param isLogged whether a store with a log for operators logs the change. @default true
   */
  reset(subject: Subject, isLogged?: boolean): MaybePromise<void>;
  /**
   * Bans a key for `duration` ms. 0 ends the ban and forgets earlier ones. A store may keep the note for operators. The administration passes
   * a duration below 0 to end only the ban: denials, and the growth of bans, stay.
   *
   * @param isLogged as in `reset`
   */
  ban(subject: Subject, duration: number, note?: ChangeNote, isLogged?: boolean): MaybePromise<void>;
  /** Whether the store remembers the ids of requests: of all, or by their set. Limiters refuse ids that the store would not remember. */
  readonly remembersIds?: boolean | ((set: PolicySet) => boolean) | undefined;
  /** Looks at a key without changing anything: see {@link UsageReply}. Without this method, limiters ask `decide` and read the records. */
  usage?(subject: Subject): MaybePromise<UsageReply>;
  /** Keeps overrides. Limiters with the option `overrides` refuse a store without it. */
  readonly overrides?: OverrideStore | undefined;
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
