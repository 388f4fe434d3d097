import type { BanNote } from './ban-options.js';
import type { CompiledBan } from '../algorithms/ban.js';
import type { Decision } from '../common/decision.js';
import type { HeadgateError } from '../common/errors.js';
import type { CompiledPolicy } from './policy.js';
import type { Health } from './health.js';
import type { Verdicts } from './verdicts.js';

/** A value now, or a promise of it. The memory store answers now, so that no promise is on the request's path. */
export type MaybePromise<T> = T | Promise<T>;

export function isPromise<T>(value: MaybePromise<T>): value is Promise<T> {
  return typeof (value as Partial<Promise<T>> | undefined)?.then === 'function';
}

/** Milliseconds since the Unix epoch, whole. */
export type Clock = () => number;

/** By which kinds of keys a set's policies count. */
export interface Dimensions {
  /** Those of its policies, of its ban and `slotBy`; `'key'`, that of policies without `by`, stands first. */
  readonly names: readonly string[];
  /** Whose key is banned. */
  readonly banBy: string;
  /** The dimension in whose slot of a cluster all keys of a decision lie: the state of another key is then one of both. */
  readonly slotBy: string | undefined;
  /** Whether keys in several slots may be decided one after the other. */
  readonly acrossSlots: boolean;
}

/**
 * Who is asked for: a string if all policies of the set are by one dimension; else a string for each of `dimensions.names`, in this
 * order. (With `slotBy` a sole key of another dimension is an array, too.)
 */
export type Keys = string | readonly string[];

/** What one limiter enforces; compiled once and shared by all its queries, so that stores can key caches by identity. */
export interface PolicySet {
  /** The quota's scope: sets of one name on one store share their state. */
  readonly name: string;
  /** In the order in which they were written. */
  readonly policies: readonly CompiledPolicy[];
  /** Undefined: nobody is ever banned. */
  readonly ban: CompiledBan | undefined;
  /** Absent: all of its policies, and its ban, are by the request's key. */
  readonly dimensions?: Dimensions | undefined;
  /**
   * How long an answer is awaited, ms, from when the question was written. A store that can must not decide later: the caller has
   * been answered otherwise.
   */
  readonly timeout: number;
}

/** Whose state in which set; the part that all operations have in common. */
export interface Subject {
  /** The policies, and their scope. */
  readonly set: PolicySet;
  /** Any string; or any strings, one for each dimension. */
  readonly key: Keys;
  /**
   * Set by a store that sends the question elsewhere, when it writes it: until when the answer is waited for, by
   * `performance.now()`. Absent or 0: it is not written yet, or the store does not tell.
   */
  until?: number;
  /** Set by a store with several servers, when it sends the question: the name of the one that it asks. */
  server?: string;
  /** Set by whoever asked, once the answer is not waited for any more: then the question must not be sent (again). */
  abandoned?: boolean;
}

/** One decision asked for. */
export interface Query extends Subject {
  /** Whole units, 0 or more. */
  readonly cost: number;
  /** Write nothing: answer what a query without it would. */
  readonly peek: boolean;
  /** Identifies the slots of a concurrency policy that this query acquires; unique. Empty if the set has none. */
  readonly lease: string;
}

/** What a store answers to a query. */
export interface Reply {
  /** The store's time of the decision, ms since the epoch. */
  readonly now: number;
  /** The same in microseconds, such that it tells which of a charge and a reset came first: a later charge has a greater one. */
  readonly step: number;
  /** 0: not banned. > 0: banned for so long (no policy was evaluated). < 0: this denial started a ban of so long. */
  readonly ban: number;
  /** What each policy says; empty if banned, or if no store could decide. */
  readonly verdicts: Verdicts;
  /** Set by a store that asked several servers, each by its own clock: per policy, the step, and the mark as of `Charged`. */
  readonly steps?: readonly number[];
  /** See `steps`. */
  readonly marks?: readonly number[];
  /**
   * Set by a store that had no room for what the verdicts admit, so that it charged nothing. 0: the query is admitted all the same.
   * More: it is denied, and there may be room in so many ms.
   */
  readonly full?: number;
  /** Set by the failure policy: the store could not be asked, and how the query was answered instead. */
  readonly degraded?: 'local' | 'allow' | 'deny';
  /** Set by the failure policy: what the store has failed with, where it was asked. */
  readonly error?: HeadgateError | undefined;
  /** Set by the failure policy: not the store was the reason, but this process, which was too busy to ask it in time. */
  readonly late?: boolean;
}

/** A charge that is given back: what the store needs to know of it, so that nobody else's units are taken for its own. */
export interface Charged {
  /** The step by which it was charged. What was reset since is gone. */
  readonly step: number;
  /** Per policy, if they were charged by several steps: see `Reply.steps`. */
  readonly steps?: readonly number[];
  /** Per policy, the moment (store's time, ms) at which it would have left the account by itself: `now` + `resetAfter`. */
  readonly marks: readonly number[];
}

/** A change of what was charged. */
export interface Change extends Subject {
  /** Per policy. > 0: charge, even beyond what is left. < 0: give back. 0: leave it alone. */
  readonly units: readonly number[];
  /** What is given back; undefined: units of no charge in particular, the oldest that there are. */
  readonly charged: Charged | undefined;
  /** How the query that is changed was answered: what the failure policy decided, only it can change. */
  readonly degraded: Reply['degraded'];
}

/** What a store answers to a change. */
export interface ChangeReply extends Reply {
  /** Per policy, the units that were charged: what a policy carries as debt may be bounded. */
  readonly charged: readonly number[];
}

/** What to do with the concurrency slots that a query acquired. */
export interface LeaseChange extends Subject {
  /** The query's `lease`. */
  readonly lease: string;
  /** The units that it acquired. */
  readonly cost: number;
  /** Gives them back, or holds them for another full lease. */
  readonly action: 'release' | 'renew';
  /** How the query was answered: what the failure policy decided, only it can change. */
  readonly degraded: Reply['degraded'];
}

/** What a store may tell of a limiter to whoever operates it. */
export interface Announcement {
  /** Its scope. */
  readonly name: string;
  /** Undefined: nobody is ever banned. */
  readonly ban: CompiledBan | undefined;
  /** Whose key is banned, and in whose slot keys lie. */
  readonly banBy: string;
  /** The dimension of the option `slotBy`. */
  readonly slotBy: string | undefined;
  /** Whether it never denies. */
  readonly shadow: boolean;
  /** Its policies come with each request. */
  readonly dynamic: boolean;
  /** The prefix lengths by which IPv6 addresses become its keys; none if they never do, as its program makes its keys. */
  readonly ipv6Subnets: ReadonlySet<number>;
  /** Those that it has now, for requests without a tier. */
  policies(): readonly CompiledPolicy[];
  /** Those of each of its tiers. */
  readonly tiers: ReadonlyMap<string, readonly CompiledPolicy[]>;
}

/** What becomes of an announcement. */
export interface Announced {
  /** Takes it back. */
  withdraw(): void;
  /** Is told each decision of the limiter; absent if the store counts none. */
  readonly count?: ((decision: Decision) => void) | undefined;
}

/**
 * The contract between limiter and store. A store holds state and decides; each method is one atomic step. Policies of
 * one query are decided together: all charge, or none does. A store that fails throws or rejects; it never guesses, and a
 * call that was not answered within the set's timeout is not carried out later.
 * Stores can wrap stores (failure policy, local denials): they implement the same five methods.
 */
export interface Store {
  /** It decides in this process, at once, and is never away: it needs no failure policy. */
  readonly embedded?: boolean;
  /** Of the failure policy, and of a memory store. */
  readonly health?: Health;
  /**
   * Decides a query; charges only if every policy that is not a shadow admits. If not, those policies are charged that count attempts
   * and admit it; their verdicts then also tell for how long they deny the same query from now on.
   */
  decide(query: Query): MaybePromise<Reply>;
  /** Charges or gives back without asking. The verdicts tell what remains; `wait` is 0. */
  adjust(change: Change): MaybePromise<ChangeReply>;
  /** Releases or renews concurrency slots; false if they were no longer held. Doing it twice is harmless. */
  lease(change: LeaseChange): MaybePromise<boolean>;
  /** Forgets what the policies of a set charged to one key: it cannot be given back later. Bans stay. */
  reset(subject: Subject): MaybePromise<void>;
  /**
   * Bans a key for `duration` ms; 0 ends the ban and forgets earlier ones. A store may keep the note, for whoever operates the
   * limiters.
   */
  ban(subject: Subject, duration: number, note?: BanNote): MaybePromise<void>;
  /**
   * Throws if the store cannot decide by the dimensions of a set. A store without this method knows nothing of dimensions: limiters
   * with policies by others than the request's key are refused.
   */
  checkDimensions?: ((set: PolicySet) => void) | undefined;
  /** Of a store with several servers, each with its own keys: their names. One may be down while others answer. */
  servers?(): readonly string[];
  /** The name of the server that has a key; undefined if there is but one, or it is not known. */
  serverOf?(subject: Subject): string | undefined;
  /**
   * Resolves the next time that the store's client is connected: a store that was found down is then asked at once. A store that has
   * this method ends each call at the latest when its connection ends, and is not asked anew as long as a call is on its way.
   */
  whenReady?(): Promise<void> | undefined;
  /** As long as its client is not connected: what the client waits for, as a sentence for people. */
  waitsFor?(): string | undefined;
  /** Takes note of a limiter that uses it, to tell others of it. */
  announce?(limiter: Announcement): Announced | undefined;
  /** Of a store that keeps state in this process: how many keys it keeps for the limiters of a name. For metrics. */
  keysOf?(name: string): number;
  /** Frees what the store itself created (timers, not the user's client). */
  close?(): MaybePromise<void>;
}
