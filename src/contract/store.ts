import type { BanNote } from './ban-options.js';
import type { CompiledBan } from '../algorithms/ban.js';
import type { Decision } from '../common/decision.js';
import { HeadgateError, show } from '../common/errors.js';
import { MAX_UNITS } from '../common/validate.js';
import type { Costs } from './costs.js';
import type { CompiledPolicy } from './policy.js';
import type { Health } from './health.js';
import type { OverrideRecord, OverrideTerms, RecordChange } from './overrides.js';
import { areVerdicts, countOf, resetOf, type Verdicts } from './verdicts.js';

/** A value, or a promise of it. The memory store returns values, which saves a promise per request. */
export type MaybePromise<T> = T | Promise<T>;

export function isPromise<T>(value: MaybePromise<T>): value is Promise<T> {
  return typeof (value as Partial<Promise<T>> | undefined)?.then === 'function';
}

/** The current time in whole milliseconds since the Unix epoch. */
export type Clock = () => number;

/** The dimensions by which a set's policies count. */
export interface Dimensions {
  /** The dimensions of its policies, of its ban and of `slotBy`. `'key'`, the dimension of policies without `by`, stands first. */
  readonly names: readonly string[];
  /** The dimension whose key is banned. */
  readonly banBy: string;
  /** All keys of a decision lie in the cluster slot of the key of this dimension. Other keys are then counted once per key of it. */
  readonly slotBy: string | undefined;
  /** Whether keys in several slots may be decided one after the other. */
  readonly acrossSlots: boolean;
}

/**
 * Who is limited. A string if all policies of the set are by one dimension; otherwise one string for each of `dimensions.names`, in this
 * order. With `slotBy`, even a single key of another dimension is an array.
 */
export type Keys = string | readonly string[];

/** What a limiter enforces. It is made once and shared by all queries, so that a store can keep data about it: see `perSet`. */
export interface PolicySet {
  /** The quota's scope: sets of one name on one store share their state. */
  readonly name: string;
  /** The policies, in the order in which they were written. */
  readonly policies: readonly CompiledPolicy[];
  /** Undefined: the limiter never bans. */
  readonly ban: CompiledBan | undefined;
  /** Absent: all policies, and the ban, are by the request's key. */
  readonly dimensions?: Dimensions | undefined;
  /** Absent: the limiter has no overrides, so no record of them is read. */
  readonly overrides?: OverrideTerms | undefined;
  /**
   * How long the caller waits for an answer, ms, from when the question was sent. If it can, a store must not decide later than that: the
   * caller has another answer by then.
   */
  readonly timeout: number;
}

/**
 * What the caller and the store tell each other about a call under way. It is the only part of a question that changes, and all copies of
 * the question share it. So a store that wraps another one need not pass anything on.
 */
export interface Call {
  /**
   * Until when the caller waits for the answer, by `performance.now()`. A store that sends questions elsewhere sets it when it sends this
   * one. 0: the question is not sent yet, or the store does not tell.
   */
  until: number;
  /** The name of the server that is asked. A store with several servers sets it when it sends the question. */
  server: string | undefined;
  /** The servers that have answered a part of the question. A store that asks several of them sets it. */
  answered?: Set<string>;
  /** Set by the caller once it no longer waits for the answer. Then the question must not be sent (again). */
  abandoned: boolean;
}

/** What is known of a call before it is sent. */
export function newCall(): Call {
  return { until: 0, server: undefined, abandoned: false };
}

/**
 * Makes something once per policy set, and remembers it as long as the set. A set stays plain data, because a store around a store may
 * hand on a changed copy. The last set is found without a search, as most requests are about the same one.
 */
export function perSet<T>(make: (set: PolicySet) => T): (set: PolicySet) => T {
  const known = new WeakMap<PolicySet, { readonly made: T }>();
  let lastSet: PolicySet | undefined;
  let last: T;
  return (set) => {
    if (set === lastSet) return last;
    let found = known.get(set);
    if (!found) known.set(set, (found = { made: make(set) }));
    lastSet = set;
    return (last = found.made);
  };
}

/** Whether the units of one of a set's policies are slots. */
export const holdsSlots = perSet(({ policies }) => policies.some(({ traits }) => traits.holdsSlots));

/** A key and the policies that apply to it. All operations have these. */
export interface Subject {
  /** The policies, and the name of their scope. */
  readonly set: PolicySet;
  /** Any string, or one string for each dimension. */
  readonly key: Keys;
  /** Absent: nobody waits for the answer only for a time. */
  readonly call?: Call | undefined;
}

/** A request for a decision. */
export interface Query extends Subject, Costs {
  /** Whether the store only looks: it answers as usual, and writes nothing. */
  readonly peek: boolean;
  /** A unique name for the slots that this query takes of concurrency policies. Empty if the set has no such policy. */
  readonly lease: string;
}

/** What a store answers to a query. */
export interface Reply {
  /** The store's time of the decision, ms since the epoch. */
  readonly now: number;
  /**
   * The same time in microseconds. Each later change of a key has a greater step, so that steps tell whether a charge or a reset came
   * first.
   */
  readonly step: number;
  /** 0: not banned. > 0: banned for that many ms; no policy was evaluated. < 0: this denial started a ban of that many ms. */
  readonly ban: number;
  /** The verdict of each policy. Empty if the key is banned, or if no store could decide. */
  readonly verdicts: Verdicts;
  /** Per policy, its step. Set if several servers answered, because each has its own clock. */
  readonly steps?: readonly number[];
  /** Per policy, its mark (see `Charged`). Set together with `steps`. */
  readonly marks?: readonly number[];
  /**
   * Set by a store that had no room for a new key: it charged nothing although the verdicts admit. 0: the query is admitted all the same. >
   * 0: the query is denied, and there may be room in that many ms.
   */
  readonly full?: number;
  /** Per policy, its limit. Set if an override changes one of them. */
  readonly limits?: readonly number[];
  /**
   * Set if an override says what the store cannot decide by, such as another tier: by dimension, its revision, a tab, and the change as it was
   * written. Empty: none. Nothing was decided. The caller asks again by a set whose `overrides.rules` are those revisions.
   */
  readonly rules?: Readonly<Record<string, string>>;
  /** Set by the guard if the store did not decide: how the query was answered instead. */
  readonly degraded?: 'local' | 'allow' | 'deny';
  /** Set by the guard: the store's error, if the store was asked. */
  readonly error?: HeadgateError | undefined;
  /** Set by the guard if this process was too busy to ask the store in time. Then the store is not at fault. */
  readonly late?: boolean;
}

export function malformedReply(reply: unknown): HeadgateError {
  return new HeadgateError(
    'HEADGATE_MALFORMED_REPLY',
    `The store's reply is not a decision: ${show(reply)}.`,
  );
}

/** Whether a store's answer is a reply with verdicts on a set. Stores are not trusted to answer correctly. */
export function isReply(answer: unknown, { policies, ban: banning, overrides }: PolicySet): answer is Reply {
  const { now, step, ban, verdicts, full = 0, degraded, limits, rules } = (answer ?? {}) as Partial<Reply>;
  if (
    !Number.isSafeInteger(step) ||
    !Number.isSafeInteger(now) ||
    now! < 0 ||
    !Number.isSafeInteger(ban) ||
    !Array.isArray(verdicts)
  )
    return false;
  if (ban !== 0 && !banning) return false;
  if (rules !== undefined) return overrides !== undefined && verdicts.length === 0;
  if (limits !== undefined && !(Array.isArray(limits) && limits.length === policies.length)) return false;
  if (!Number.isSafeInteger(full) || full < 0) return false;
  if (ban! > 0 || degraded === 'allow' || degraded === 'deny') return verdicts.length === 0;
  return areVerdicts(verdicts, policies.length);
}

/** The next step after `last`, at a time in ms. Steps of one millisecond differ by their order, as far as microseconds allow. */
export function stepAfter(last: number, now: number): number {
  const first = now * 1000;
  return last >= first && last < first + 1000 ? Math.min(last + 1, first + 999) : first;
}

/** What a store needs to know of a charge to give back exactly this one, and no units of others. */
export interface Charged {
  /** The step of the charge. If the key was reset since, there is nothing left to give back. */
  readonly step: number;
  /** Per policy, its step, if the steps differ: see `Reply.steps`. */
  readonly steps?: readonly number[];
  /** Per policy, when the charge ends by itself by the store's time, ms: `now` + `resetAfter`. */
  readonly marks: readonly number[];
}

/** Per policy: when the units that a reply charged stop counting by themselves. See `Charged`. */
export function marksOf({ now, verdicts, marks: known }: Omit<Reply, 'step' | 'ban'>): number[] {
  if (known) return [...known];
  const marks: number[] = [];
  for (let i = 0; i < countOf(verdicts); i++) marks.push(now + resetOf(verdicts, i));
  return marks;
}

/** What a store needs to give back exactly the charge of a reply. */
export function chargedOf(reply: Reply): Charged {
  const { step, steps } = reply;
  return { step, marks: marksOf(reply), ...(steps && { steps }) };
}

/** A change of what was charged. */
export interface Change extends Subject {
  /** Per policy, the units. > 0: charge them, even beyond what is left. < 0: give them back. 0: no change. */
  readonly units: readonly number[];
  /** The charge to give back. The policies that it did not charge have 0 `units`. Undefined: the oldest units. */
  readonly charged: Charged | undefined;
  /** How the query was answered: see `Reply.degraded`. Only the guard can change what it decided itself. */
  readonly degraded: Reply['degraded'];
}

/** Whose override is meant. */
export type OverridePlace =
  | {
      /** The whole set, and the keys of one of its dimensions: that of `by`, and that of `slotBy` if it lies in another one's slot. */
      readonly subject: Subject;
      /** The dimension whose policies change. */
      readonly by: string;
    }
  | {
      /** The set of the limiter whose keys are all meant. */
      readonly set: PolicySet;
      /** As a subject's. */
      readonly call?: Call | undefined;
    };

/** Keeps overrides beside the state that they change, or, for all keys of a limiter, under a key of its own. */
export interface OverrideStore {
  /** Changes a record in one step. Returns the record as it was, empty if there was none, and the store's time. */
  change(place: OverridePlace, change: RecordChange): MaybePromise<readonly [OverrideRecord, number]>;
  /** The record, empty if there is none, and the store's time. */
  read(place: OverridePlace): MaybePromise<readonly [OverrideRecord, number]>;
}

/** What a store answers to a change. */
export interface ChangeReply extends Reply {
  /** Per policy, the units that were charged. A bound on debt may make them fewer than requested. */
  readonly charged: readonly number[];
}

/** Whether a store's answer to a change tells what each policy was charged. */
export function tellsCharges({ charged }: Partial<ChangeReply>, { policies }: PolicySet): boolean {
  return (
    Array.isArray(charged) &&
    charged.length === policies.length &&
    charged.every((units) => Number.isSafeInteger(units) && units >= 0 && units <= MAX_UNITS)
  );
}

/** What to do with the concurrency slots that a query acquired. */
export interface LeaseChange extends Subject, Costs {
  /** The `lease` of the query. */
  readonly lease: string;
  /** Whether the slots are given back, or held for another full lease. */
  readonly action: 'release' | 'renew';
  /** How the query was answered: see `Reply.degraded`. Only the guard can change what it decided itself. */
  readonly degraded: Reply['degraded'];
}

/** What a store may show operators of a limiter. */
export interface Announcement {
  /** The limiter's scope. */
  readonly name: string;
  /** Undefined: the limiter never bans. */
  readonly ban: CompiledBan | undefined;
  /** The dimension whose key is banned. */
  readonly banBy: string;
  /** The dimension of the option `slotBy`. */
  readonly slotBy: string | undefined;
  /** Whether the limiter only reports and never denies. */
  readonly shadow: boolean;
  /** Whether its policies are given with each request. */
  readonly dynamic: boolean;
  /** Whether its limits can be overridden. */
  readonly overrides?: boolean;
  /** The prefix lengths by which its adapters turn IPv6 addresses into keys. Empty if the program makes all keys itself. */
  readonly ipv6Subnets: ReadonlySet<number>;
  /** The current policies for requests without a tier. */
  policies(): readonly CompiledPolicy[];
  /** The policies of each tier. */
  readonly tiers: ReadonlyMap<string, readonly CompiledPolicy[]>;
}

/** How a store handles an announcement. */
export interface Announced {
  /** Ends the announcement. */
  withdraw(): void;
  /** Receives each decision of the limiter. Absent if the store counts none. */
  readonly count?: ((decision: Decision) => void) | undefined;
}

/**
 * The contract between limiter and store. A store keeps state and decides. Each method is one atomic step. The policies of a query are
 * decided together: all are charged, or none is. A store that fails throws or rejects, and never guesses. If it can, it does not carry out
 * a call later than the set's timeout. A store can wrap another store, with the same five methods.
 */
export interface Store {
  /** Whether the store decides in this process, at once, and is never away. Then it needs no guard. */
  readonly embedded?: boolean;
  /** Set by the guard and by memory stores. */
  readonly health?: Health;
  /**
   * Decides a query. If every policy that is not a shadow admits it, all policies that admit it are charged. Otherwise only those that
   * count attempts and admit it are charged. Their verdicts then also tell how long they deny the same query from now on.
   */
  decide(query: Query): MaybePromise<Reply>;
  /** Charges or gives back unconditionally. The verdicts tell what remains; their `wait` is 0. */
  adjust(change: Change): MaybePromise<ChangeReply>;
  /** Releases or renews concurrency slots. Returns false if they were no longer held. A second call does no harm. */
  lease(change: LeaseChange): MaybePromise<boolean>;
  /** Forgets what the policies of a set charged to a key. Those charges cannot be given back afterwards. Bans stay. */
  reset(subject: Subject): MaybePromise<void>;
  /**
   * Bans a key for `duration` ms. 0 ends the ban and forgets earlier ones. A store may keep the note, to show it to operators.
   */
  ban(subject: Subject, duration: number, note?: BanNote): MaybePromise<void>;
  /** Keeps overrides. A store without it is refused by limiters with the option `overrides`. */
  readonly overrides?: OverrideStore | undefined;
  /**
   * Throws if the store cannot decide by the dimensions of a set. A store without this method does not support dimensions: limiters with
   * policies by other keys than the request's are then refused.
   */
  checkDimensions?: ((set: PolicySet) => void) | undefined;
  /** The names of the servers, if several share the keys. One may be down while others answer. */
  servers?(): readonly string[];
  /** The name of the server that holds a key. Undefined if there is only one, or if it is not known. */
  serverOf?(subject: Subject): string | undefined;
  /**
   * Resolves the next time the store's client is connected. A store that was down is then asked at once whether it is back. A store with
   * this method must end each call when its connection ends. It is not asked again while a call is under way.
   */
  whenReady?(): Promise<void> | undefined;
  /** Tells people, in a sentence, what the client is waiting for while it is not connected. */
  waitsFor?(): string | undefined;
  /** Receives each limiter that uses the store, so that the store can show it to operators. */
  announce?(limiter: Announcement): Announced | undefined;
  /** For metrics: how many keys the store keeps in this process for limiters of a name. */
  keysOf?(name: string): number;
  /** Frees what the store itself made, such as timers. The user's client stays open. */
  close?(): MaybePromise<void>;
}
