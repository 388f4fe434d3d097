import type { BanNote } from './ban-options.js';
import type { CompiledBan } from '../algorithms/ban.js';
import type { Decision } from '../common/decision.js';
import type { HeadgateError } from '../common/errors.js';
import type { CompiledPolicy } from './policy.js';
import type { Health } from './health.js';
import type { Verdicts } from './verdicts.js';

/** A value, or a promise of it. The memory store returns values, so that a request costs no promise. */
export type MaybePromise<T> = T | Promise<T>;

export function isPromise<T>(value: MaybePromise<T>): value is Promise<T> {
  return typeof (value as Partial<Promise<T>> | undefined)?.then === 'function';
}

/** Milliseconds since the Unix epoch, whole. */
export type Clock = () => number;

/** The kinds of keys by which a set's policies count. */
export interface Dimensions {
  /** The dimensions of its policies, of its ban and of `slotBy`. `'key'`, the dimension of policies without `by`, stands first. */
  readonly names: readonly string[];
  /** The dimension whose key is banned. */
  readonly banBy: string;
  /** The dimension in whose slot of a cluster all keys of a decision lie. Other keys are then counted for each key of this dimension. */
  readonly slotBy: string | undefined;
  /** Whether keys in several slots may be decided one after the other. */
  readonly acrossSlots: boolean;
}

/**
 * Who is limited. It is a string if all policies of the set are by one dimension, else a string for each of `dimensions.names`, in this
 * order. (With `slotBy` a sole key of another dimension is an array, too.)
 */
export type Keys = string | readonly string[];

/** What a limiter enforces. It is made once and shared by all queries, so that a store can keep what it knows of a set in a `WeakMap`. */
export interface PolicySet {
  /** The quota's scope: sets of one name on one store share their state. */
  readonly name: string;
  /** The policies, in the order in which they were written. */
  readonly policies: readonly CompiledPolicy[];
  /** Undefined: nobody is ever banned. */
  readonly ban: CompiledBan | undefined;
  /** Absent: all of its policies, and its ban, are by the request's key. */
  readonly dimensions?: Dimensions | undefined;
  /**
   * How long an answer is awaited, ms, from when the question was sent. A store that can prevent it must not decide later, as the caller
   * has got another answer by then.
   */
  readonly timeout: number;
}

/** A key and the policies that are by it: what all operations have in common. */
export interface Subject {
  /** The policies, and the name of their scope. */
  readonly set: PolicySet;
  /** Any string; or any strings, one for each dimension. */
  readonly key: Keys;
  /**
   * Until when the answer is waited for, by `performance.now()`. A store that sends questions elsewhere sets it when it sends this one.
   * Absent or 0: the question is not sent yet, or the store does not tell.
   */
  until?: number;
  /** The name of the server that is asked. A store with several servers sets it when it sends the question. */
  server?: string;
  /** Set by the caller once it no longer waits for the answer. Then the question must not be sent (again). */
  abandoned?: boolean;
}

/** A decision that is asked for. */
export interface Query extends Subject {
  /** Whole units, 0 or more. */
  readonly cost: number;
  /** Whether the store only looks: it answers as always, and writes nothing. */
  readonly peek: boolean;
  /** A unique name for the slots that this query takes of concurrency policies. Empty if the set has no such policy. */
  readonly lease: string;
}

/** What a store answers to a query. */
export interface Reply {
  /** The store's time of the decision, ms since the epoch. */
  readonly now: number;
  /** The same in microseconds. It is greater for each later change of a key, so that it tells whether a charge or a reset came first. */
  readonly step: number;
  /** 0: not banned. > 0: banned for so many ms (no policy was evaluated). < 0: this denial started a ban of so many ms. */
  readonly ban: number;
  /** What each policy says. Empty if the key is banned, or if no store could decide. */
  readonly verdicts: Verdicts;
  /** Per policy, its step. Set by a store that asked several servers, as each has its own clock. */
  readonly steps?: readonly number[];
  /** Per policy, its mark, as of `Charged`. Set together with `steps`. */
  readonly marks?: readonly number[];
  /**
   * Set by a store that had no room for a new key, so that it charged nothing although the verdicts admit. 0: the query is admitted all
   * the same. More: it is denied, and there may be room in so many ms.
   */
  readonly full?: number;
  /** Set by the failure policy if the store did not decide: how the query was answered instead. */
  readonly degraded?: 'local' | 'allow' | 'deny';
  /** Set by the failure policy: the error of the store, if it was asked. */
  readonly error?: HeadgateError | undefined;
  /** Set by the failure policy if this process was too busy to ask the store in time. Then the store is not at fault. */
  readonly late?: boolean;
}

/** What a store needs to know of a charge to give back exactly this one, and no units of others. */
export interface Charged {
  /** The step of the charge. If the key was reset since, there is nothing left to give back. */
  readonly step: number;
  /** Per policy, its step, if they differ: see `Reply.steps`. */
  readonly steps?: readonly number[];
  /** Per policy, the moment at which the charge would have ended by itself, by the store's time, ms: `now` + `resetAfter`. */
  readonly marks: readonly number[];
}

/** A change of what was charged. */
export interface Change extends Subject {
  /** Per policy, the units. > 0: charge, even beyond what is left. < 0: give back. 0: leave it alone. */
  readonly units: readonly number[];
  /** The charge that is given back. Undefined: the oldest units that there are. */
  readonly charged: Charged | undefined;
  /** How the query was answered: see `Reply.degraded`. What the failure policy decided, only the failure policy can change. */
  readonly degraded: Reply['degraded'];
}

/** What a store answers to a change. */
export interface ChangeReply extends Reply {
  /** Per policy, the units that were charged. They may be fewer than were asked for, as a policy may bound a debt. */
  readonly charged: readonly number[];
}

/** What to do with the concurrency slots that a query acquired. */
export interface LeaseChange extends Subject {
  /** The `lease` of the query. */
  readonly lease: string;
  /** The units that the query took. */
  readonly cost: number;
  /** Whether the slots are given back, or held for another full lease. */
  readonly action: 'release' | 'renew';
  /** How the query was answered: see `Reply.degraded`. What the failure policy decided, only the failure policy can change. */
  readonly degraded: Reply['degraded'];
}

/** What a store may tell operators of a limiter. */
export interface Announcement {
  /** The limiter's scope. */
  readonly name: string;
  /** Undefined: nobody is ever banned. */
  readonly ban: CompiledBan | undefined;
  /** The dimension whose key is banned. */
  readonly banBy: string;
  /** The dimension of the option `slotBy`. */
  readonly slotBy: string | undefined;
  /** Whether it never denies. */
  readonly shadow: boolean;
  /** Whether its policies come with each request. */
  readonly dynamic: boolean;
  /** The prefix lengths by which its adapters make keys of IPv6 addresses. Empty if the program makes all keys itself. */
  readonly ipv6Subnets: ReadonlySet<number>;
  /** The policies that it has now for requests without a tier. */
  policies(): readonly CompiledPolicy[];
  /** The policies of each tier. */
  readonly tiers: ReadonlyMap<string, readonly CompiledPolicy[]>;
}

/** What the store does about an announcement. */
export interface Announced {
  /** Takes it back. */
  withdraw(): void;
  /** Is told each decision of the limiter; absent if the store counts none. */
  readonly count?: ((decision: Decision) => void) | undefined;
}

/**
 * The contract between limiter and store. A store keeps state and decides. Each method is one atomic step. Policies of one query are
 * decided together: all charge, or none does. A store that fails throws or rejects, and never guesses. If it can, it does not carry out a
 * call later than the set's timeout. Stores can wrap stores, with the same five methods.
 */
export interface Store {
  /** Whether it decides in this process, at once, and is never away. Then it needs no failure policy. */
  readonly embedded?: boolean;
  /** Set by the failure policy and by memory stores. */
  readonly health?: Health;
  /**
   * Decides a query. If every policy that is not a shadow admits it, all policies that admit it are charged. If not, only those that count
   * attempts and admit it are charged. Their verdicts then also tell for how long they deny the same query from now on.
   */
  decide(query: Query): MaybePromise<Reply>;
  /** Charges or gives back without asking. The verdicts tell what remains; `wait` is 0. */
  adjust(change: Change): MaybePromise<ChangeReply>;
  /** Releases or renews concurrency slots. Returns false if they were no longer held. Doing it twice is harmless. */
  lease(change: LeaseChange): MaybePromise<boolean>;
  /** Forgets what the policies of a set charged to a key. It cannot be given back afterwards. Bans stay. */
  reset(subject: Subject): MaybePromise<void>;
  /**
   * Bans a key for `duration` ms. 0 ends the ban and forgets earlier ones. A store may keep the note, to show it to operators.
   */
  ban(subject: Subject, duration: number, note?: BanNote): MaybePromise<void>;
  /**
   * Throws if the store cannot decide by the dimensions of a set. A store without this method knows nothing of dimensions. Limiters with
   * policies by other keys than the request's are then refused.
   */
  checkDimensions?: ((set: PolicySet) => void) | undefined;
  /** The names of the servers, if several share the keys. One may be down while others answer. */
  servers?(): readonly string[];
  /** The name of the server that has a key. Undefined if there is only one, or if it is not known. */
  serverOf?(subject: Subject): string | undefined;
  /**
   * Resolves the next time that the store's client is connected. A store that was down is then asked at once whether it is back. A store
   * with this method must end each call when its connection ends. It is not asked again as long as a call is on its way.
   */
  whenReady?(): Promise<void> | undefined;
  /** While the client is not connected: what it waits for, as a sentence for people. */
  waitsFor?(): string | undefined;
  /** Is told of each limiter that uses the store, so that the store can show it to operators. */
  announce?(limiter: Announcement): Announced | undefined;
  /** How many keys the store keeps in this process for the limiters of a name. For metrics. */
  keysOf?(name: string): number;
  /** Frees what the store itself has made, such as timers. The user's client stays open. */
  close?(): MaybePromise<void>;
}
