import type { BanColumn } from './bans/ban.js';
import type { AnyKernel, MemoryColumn } from '../algorithms/index.js';
import type { Announcement } from '../contract/announcement.js';
import type { DimensionSet } from '../contract/dimension-sets.js';
import type { CompiledPolicy } from '../contract/policy.js';
import type { Costs } from '../contract/costs.js';
import type { Reply, UsageReply } from '../contract/reply.js';
import type { ChangeParts, RequestFields } from '../contract/features.js';
import type { ChargeChange, Keys, PolicySet, Query, Store, Subject } from '../contract/store.js';
import type { IdPlace } from './ids/id-record.js';
import type { FeatureOptions, Layout } from './layout.js';
import type { KeyLimits } from './overrides/limits.js';
import type { Histories } from './charge-history.js';
import type { KeptValues } from './kept-values.js';
import type { Crossing } from './thresholds/contract/crossing.js';

/**
 * A feature of decisions beside their policies. Every hook is optional. The sections of the feature's Lua file are the hooks of the same
 * decision on Redis.
 */
export interface Feature {
  /** The name of its Lua file. */
  readonly name: string;
  /** The kernels of the policies by which a script has the feature. Absent if a script has the feature by the options of its limiter. */
  readonly kernels?: readonly AnyKernel[];
  /** The option of requests. */
  readonly option?: RequestOption;
  appliesTo(set: PolicySet): boolean;
  /** Whether `evaluate-single.lua` can decide by a set of a single policy with the feature. */
  isInSingle?(set: PolicySet): boolean;
  /** Whether the scripts of the feature read no key and no argument for it. */
  readonly isPlain?: boolean;
  /** Whether usage and the views of operators, which only look, depend on the feature. */
  readonly isInLooks?: boolean;

  /** The arguments of the scripts that decide; of these and of the scripts that change a charge; and further ones for a change. */
  readonly decisionArgs?: Layout<PolicySet>;
  readonly args?: Layout<PolicySet>;
  readonly changeArgs?: Layout<ChargeChange>;
  /**
   * The arguments of each request of a decision, one value each. In Lua, `<name>_at` is the position of that of the first request. They are
   * no part of `evaluate-single.lua`.
   */
  readonly requestArgs?: Layout<Query>;
  /** The Redis keys of a request that only decisions read, and that a reset keeps, directly behind the keys of its policies. */
  tags?(set: PolicySet): readonly Tag[];
  /** A further set on which its keys and arguments depend. Another object once they change. */
  beside?(set: PolicySet): PolicySet | undefined;
  /** Appends further Redis keys of a request, behind these; and those of a change, behind all others. */
  keys?(to: string[], headsOf: HeadsOf, request: FeatureSubject): void;
  changeKeys?(to: string[], headsOf: HeadsOf, change: ChargeChange): void;
  /** Arguments that the feature's sections read themselves, behind those of all features: of a decision, by the script, or of a change. */
  readonly lastArgs?: {
    readonly decision: (set: PolicySet) => readonly string[];
    readonly single: (set: PolicySet) => readonly string[];
    readonly change: (set: PolicySet) => readonly string[];
  };
  /** Appends keys and arguments behind all others of a call that decides, before those of `callKeys`. */
  sender?(set: PolicySet, parts: SenderParts): Sender;
  /** Of a call that looks: the tag of the keys behind all others, one for each dimension of a request, and the argument that announces them. */
  readonly lastOfLooks?: { readonly tag: string; readonly arg: string };
  /** The tag of an entry in the state of a key, if the tag does not begin with a capital letter. */
  readonly entryTag?: string;
  /** The option of a store, as users write it, by which decisions write to a stream that `scripts` read. */
  readonly streamOption?: string;
  /** The scripts that only the feature needs, beside those of `byHand`. */
  readonly scripts?: readonly string[];
  /** For features that operators change by hand: see `ByHand`. */
  readonly byHand?: ByHand;
  /** Whether a call can return charges of one key only. */
  readonly isPerKey?: boolean;
  /** Appends the Redis keys of a call, behind those of its requests. */
  callKeys?(to: string[], options: FeatureOptions): void;
  /** Whether the requests of a call share its step, although each charge of a bucket otherwise has its own. */
  readonly sharesStep?: boolean;
  /**
   * Reads the numbers before the verdicts of a request. @returns the position behind them
   *
   * @param answer receives fields of the reply. With `first`, the answer is complete
   */
  read?(reply: readonly unknown[], at: number, answer: Writable<Reply>, readVerdict: ReadVerdict): number;
  /** Reads the numbers behind the sign that a request was not decided. @returns the position behind them */
  readUndecided?(reply: readonly unknown[], at: number, answer: Writable<Reply>, set: PolicySet): number;
  /** Takes the feature's part off the end of a reply about usage. @returns fields of the reply */
  readUsage?(reply: unknown[], set: PolicySet): Partial<UsageReply>;
  /** Takes the feature's part off the end of a reply. @returns the fields of replies, by the position of the request */
  readEnd?(reply: unknown[]): ReadonlyMap<number, Partial<Reply>>;

  /**
   * The time for which a request is refused whatever the policies of a place say, ms, or 0. They are then only looked at.
   *
   * @param writable whether the state may be repaired
   */
  refuses?(place: Place, now: number, writable: boolean): number;
  /** Runs if a policy of a place denies a request. @returns the value of `Reply.ban` */
  denied?(place: Place, now: number): number;
  /** May answer a request before it is decided. */
  before?(places: readonly Place[], query: Query, now: number): Reply | undefined;
  /**
   * Compares the policies of a question with those by which the places must decide. If they differ, the caller must apply the returned
   * changes first, and nothing is decided. This hook and the next three run if the feature applies to the first place.
   */
  correct?(places: readonly Place[], set: PolicySet): Partial<Reply> | undefined;
  /** May move the waits in the columns of places whose limits change by themselves (`KeyLimits.next`). @param costsOf the costs of a place */
  report?(places: readonly Place[], costsOf: (place: Place) => Costs, now: number): void;
  /** Adds fields to a reply that has verdicts. */
  verdicts?(places: readonly Place[], reply: Reply): Reply;
  /** Adds fields to a reply about usage. */
  usage?(places: readonly Place[]): Partial<UsageReply>;
  /** Receives the decision. @returns the answer */
  after?(places: readonly Place[], query: Query, reply: Reply): Reply;
  /** Whether a charge may be changed. If not, the store only looks. */
  mayChange?(places: readonly Place[], change: ChargeChange, now: number): boolean;
  /** Runs before a charge to the i-th policy. */
  charges?(place: Place, i: number, query: Query): void;
  /** Runs after a charge to the i-th policy, whose column has the verdict. @param before the units that remained before */
  charged?(place: Place, i: number, before: number, now: number): void;
  /** Whether a policy is charged for a request that another policy denies. In Lua the sections `charges` and `due`. */
  chargesDenied?(policy: CompiledPolicy): boolean;
  /** Runs after such a charge to the i-th policy, before `charged`. In Lua the section `charged_denied`. */
  chargedDenied?(place: Place, i: number, cost: number, now: number): void;
  reset?(place: Place): void;
  /**
   * For a memory of denials: the longest time for which it may give a reply again, ms. 0 if the store must see each such request.
   *
   * @param isRefused whether the denial is not by the policies: see `refuses`
   */
  remembered?(set: PolicySet, reply: Reply, isRefused: boolean): number;
  /** Whether units of a set may be charged before their requests come. */
  mayChargeAhead?(set: PolicySet): boolean;
  /** Runs for each answer of a store, even if the caller no longer waits. */
  answered?(subject: Subject, reply: Partial<Reply>): void;
}

/** The scripts of a feature that operators change by hand, for a check of the permissions. */
export interface ByHand {
  isOf(limiter: Announcement): boolean;
  /** The scripts that change the state of a key. */
  readonly scripts: readonly string[];
  /** The command that reads the records of changes. */
  readonly command: string;
  /** Whether changes are recorded in the background. */
  readonly isBestEffort?: boolean;
}

/** The parts of a store for a sender. */
export interface SenderParts {
  readonly prefix: string;
  readonly keys: { pushTagged(to: string[], key: Keys, tag: string): void };
  /** Whether the decisions are by `evaluate-single.lua`. */
  readonly single: boolean;
  /** Times that the senders of a store have in common, by names of their own. */
  readonly memory: Map<string, number>;
}

/** The part of a feature in the calls of a set. */
export interface Sender {
  push(queries: readonly Query[], keys: string[], args: string[], isCluster: boolean): void;
  /** Whether the store must send a call anew, because of an instructive error. */
  learns(error: unknown): boolean;
}

export interface FeatureSubject extends Subject, Partial<Pick<Query, 'id' | 'idHome'>> {}

/** The beginnings of a subject's Redis keys. */
export type HeadsOf = (subject: Subject) => Heads;

export interface RequestOption {
  /** Its name in the options of `consume`, and in the query to the store. */
  readonly name: keyof RequestFields;
  /**
   * Whether `peek`, `acquire` and `wait` take the option, too. Otherwise only a request with the option has the feature, and a request that charges
   * nothing is asked without it.
   */
  readonly isForAll?: boolean;
  /** Checks a value where a caller passes it. */
  check?(value: unknown): void;
  /** Checks a value once the policies are known. */
  checkFor?(value: unknown, set: PolicySet, store: Store): void;
  /** The field of a change of a charge which only the charges of such requests have. */
  readonly change?: keyof ChangeParts;
  /** Whether the store must see each such request, so that neither a remembered denial nor a slice answers. */
  readonly needsStore?: boolean;
}

/** The tag of a Redis key, and the dimension of the key before it. */
export interface Tag {
  readonly tag: string;
  readonly by: string;
}

export type Writable<T> = { -readonly [Field in keyof T]: T[Field] };

/** Appends the verdict at a position of a reply, and returns the position behind it. */
type ReadVerdict = (reply: readonly number[], at: number, verdicts: number[]) => number;

/** The Redis keys of a request up to their tags. */
export interface Heads {
  readonly policies: readonly string[];
  /** Of the request's first key. */
  readonly first: string;
  of(by: string): string;
  text(key: string): string;
}

/**
 * The state of one key, for a part of a set. A decision has one place for each part, and usually there is one part. The functions of
 * this folder do the work of the Lua scripts on Redis, and make all decisions outside Redis.
 */
export interface Place {
  readonly part: DimensionSet;
  readonly features: readonly Feature[];
  /** The part's policies for this key, whose limits may differ from those of the set. */
  readonly policies: readonly CompiledPolicy[];
  /** The limits from which the policies follow. Undefined if they are always those of the set. */
  readonly limits: KeyLimits | undefined;
  /** The columns of the part's policies, in the part's order. */
  readonly columns: readonly MemoryColumn[];
  readonly bans: BanColumn;
  /** The key's row in the columns and in `bans`; 0 as long as the key has no state. */
  readonly row: number;
  /** The resets and refunds, by policy and key. */
  readonly histories: Histories;
  /** The events of the current question. */
  readonly events: Crossing[];
  /** The values that a feature keeps beside the state of this key, by a tag of its own. */
  kept(tag: string): KeptValues;
  /** The record of an id, beside the state of this key. */
  idOf(subject: Subject, id: string): IdPlace;
  /** Creates the state of a key. If the store is full, `row` stays 0. `byHand`: for a ban by hand, for which there is always room. */
  create(now: number, byHand: boolean): void;
  /** Whether `create` would fail because the store is full. */
  isFull(now: number): boolean;
  /** The value of `Reply.full` for a query that the policies admit but for which there is no room. */
  full(now: number): number;
  deny(until: number): void;
}
