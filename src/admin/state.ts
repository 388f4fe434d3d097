import type { TenantState } from '../algorithms/shares/sharing.js';
import type { Reply } from '../contract/reply.js';
import type { MaybePromise, PolicySet, Store } from '../contract/store.js';
import type { Hash, KeyText } from '../stores/keys.js';
import type { Finding } from '../stores/redis/operators/finding.js';
import type { LiveLimiter } from '../features/overrides/redis-check.js';
import type { CrossingSource } from '../features/thresholds/crossings.js';
import type { MinuteCounts } from '../stores/counts/history.js';
import type { KeyDenials } from '../stores/counts/denials.js';
import type { Counted } from '../stores/counts/sink.js';
import type { JournalEntry, ListedChange } from '../stores/journal.js';
import type { BanSource } from './bans/ban-source.js';
import type { OverrideSource, OverrideFields } from './overrides/override-source.js';
import type { FoundKey, Owner } from './owners.js';
import type { Published } from './published.js';
import type { Origin } from './unlogged.js';

export type { ListedChange } from '../stores/journal.js';
export type { FoundKey, Owner } from './owners.js';

export interface Search {
  /** The limiter, or `undefined` for all. */
  readonly name?: string | undefined;
  /** The key of the default dimension, or `undefined` for all. */
  readonly key?: string | undefined;
  /** The id of the state, or `undefined` for all. */
  readonly id?: string | undefined;
  /** The approximate number of keys that a step checks. @default 500 */
  readonly count?: number | undefined;
  /** Receives, after each step, the share of all keys that was checked. The search waits for a promise that it returns. */
  readonly progress?: ((share: number) => void | Promise<void>) | undefined;
  /** Stops after the current step. */
  readonly signal?: AbortSignal | undefined;
}

/** The counts of decisions in the last minute, the oldest first. */
export interface RecentCounts {
  /** The time by the store's clock, ms since 1970. */
  readonly now: number;
  readonly counts: readonly { readonly at: number; readonly counted: Counted }[];
}

/** The counts of limiters by the minute, the oldest first. */
export interface MinutesByLimiter {
  /** The starts of the minutes by the store's clock, ms since 1970. The last one is the current minute. */
  readonly minutes: readonly number[];
  readonly limiters: ReadonlyMap<string, readonly MinuteCounts[]>;
}

/** The memory of a server. */
export interface ServerMemory {
  /** The server's name in a cluster, `host:port`. Empty if the server is the only one. */
  readonly server: string;
  /** The memory in use, `used_memory`. */
  readonly usedBytes: number;
  /** The limit `maxmemory`, or `null`. */
  readonly maxBytes: number | null;
  /** The memory of the keys of this prefix, estimated from a sample of keys every five minutes. Null if the server refuses the commands. */
  readonly ownBytes: number | null;
  /** The growth of the data since the first reading of the last five minutes, bytes a second. Null for the first reading. */
  readonly growth: number | null;
  /** The time until the server is full, ms, by the growth in each third of the last minutes. Null without a limit, or without a steady growth. */
  readonly fullInMs: number | null;
}

/** A loss of records of running processes. */
export interface Loss {
  /** The start of the server, or of the oldest minute with a record. */
  readonly at: Date;
  /** Whether the server restarted without its data, or was emptied. */
  readonly cause: 'restart' | 'flush';
}

export interface CountSource {
  readonly text: KeyText;
  read(): Promise<RecentCounts>;
  /** The counts of the last minutes, or of steps of ten minutes, of one limiter or of all. @param length MINUTE_MS or STEP_MS */
  minutes(count: number, length: number, name: string | undefined): Promise<MinutesByLimiter>;
  /** For each owner, the records of the denials of the last 24 hours, the oldest first. @param owners the texts of owners */
  denials(owners: readonly string[]): Promise<KeyDenials[][]>;
}

export interface ChangeLog {
  /** Logs a change. @returns the reason why the change could not be recorded, or `undefined` */
  add(change: JournalEntry): Promise<string | undefined>;
  /** The logged changes, the newest first. @param time the earliest time, ms since 1970 */
  since(time: number): AsyncIterable<ListedChange>;
}

export interface StateSettings {
  /** The time limit for an answer of the store, ms. */
  readonly timeout: number;
  readonly origin: Origin;
}

/** The state of limiters in one kind of store, as `createAdmin` reads and changes it. Each method works on any scopes and keys. */
export interface State {
  readonly kind: 'redis' | 'sqlite' | 'postgres' | 'memory';
  /** The time limit of limiters on this state, ms. */
  readonly timeout: number;
  readonly log: ChangeLog;
  readonly bans: BanSource;
  readonly overrides: OverrideSource;
  readonly crossings: CrossingSource;
  /** Absent if the store does not count. */
  readonly counts?: CountSource;
  /** The memory of the servers, if there are any. */
  readonly memory?: { read(): Promise<readonly ServerMemory[]> };
  /** Whether the server lost records in the last hour. Absent for stores without a server. */
  loss?(): Promise<Loss | null>;
  /** The time by the store's clock, ms since 1970. */
  now(): MaybePromise<number>;
  /** A store for limiters of the administration, which is not announced. */
  openStore(changes?: OverrideFields): Store;
  /** The owner of a key's state. @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` for a hash on a store that needs the key */
  ownerOf(name: string | Hash, key: string | Hash, dimension?: string): Owner;
  published(): Promise<Published>;
  /** Pages of state. State that exists throughout the search is found, possibly twice. */
  search(search: Search): AsyncIterable<readonly FoundKey[]>;
  /** The number of keys with state and an unknown name. Absent if the store has all names. */
  unnamed?(name: string | undefined): number;
  /** The answers to a peek of cost 1, by policies of one dimension. */
  look(set: PolicySet, owners: readonly Owner[]): Promise<(Reply | Error)[]>;
  /** The remaining time of each state, ms: `null` without an end, `undefined` if there is no such state. */
  lives(found: readonly FoundKey[]): Promise<(number | null | undefined)[]>;
  /** The texts that features keep beside keys, by tag and id. Undefined if there is none. */
  values(found: readonly FoundKey[]): Promise<(string | undefined)[]>;
  /** Forgets the charges of a state whose policy is not known. Absent if the store cannot do that. */
  forget?(found: FoundKey): Promise<void>;
  /** The state of each tenant that shares units, or `undefined` if there is none. @param segments as of the hidden policy */
  tenants(found: readonly FoundKey[], segments: number): Promise<(TenantState | undefined)[]>;
  /** The bytes that each state takes, or `undefined` if the store cannot tell. */
  bytes(found: readonly FoundKey[]): Promise<(number | undefined)[]>;
  check(live: readonly LiveLimiter[]): Promise<readonly Finding[]>;
  close(): Promise<void>;
}
