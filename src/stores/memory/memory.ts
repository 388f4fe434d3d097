import { compileWarnings, type Warn, type Warnings } from '../../common/warnings.js';
import { choice, custom, fn, integer, readOptions, type OptionTable } from '../../common/options.js';
import { checkShape } from '../../common/validate.js';
import { UP, type Health } from '../../contract/health.js';
import { changeRecord, type OverrideRecord, type RecordChange } from '../../contract/overrides.js';
import type { Announced, Announcement } from '../../contract/announcement.js';
import { NO_NOTE, type BanNote } from '../../contract/ban-options.js';
import { partsOf, type Part } from '../../contract/parts.js';
import { adjust, ban, lease, reset } from '../state/changes.js';
import { decide } from '../state/evaluate.js';
import type { Place } from '../state/place.js';
import { MemoryPlace, type View } from './place.js';
import {
  stepAfter,
  perSet,
  type Change,
  type ChangeReply,
  type Clock,
  type LeaseChange,
  type OverridePlace,
  type OverrideStore,
  type PolicySet,
  type Query,
  type Reply,
  type Store,
  type Subject,
} from '../../contract/store.js';
import {
  bannedChange,
  ChangeLog,
  overrideChange,
  resetChange,
  struckChange,
  type Change as LogChange,
} from '../journal.js';
import { escapeKey, ownerText, ownerTextOfPlace } from '../keys.js';
import { configurationOf, describe } from '../published.js';
import { Table } from './table.js';

/** Options of `memoryStore`. */
export interface MemoryStoreOptions {
  /**
   * The current time in whole milliseconds since the epoch, for tests. @default Date.now, looked up at each decision, so that fake timers
   * work
   */
  clock?: Clock;
  /**
   * The most keys per limiter name and dimension, 100 to 16,000,000. At this number, new keys replace expired ones first, then keys that are
   * neither denied nor banned. If there are none, `onFull` decides. Per limiter name, the state of 1,000 different policies is kept.
   * @default 1_000_000
   */
  maxKeys?: number;
  /**
   * The answer to a request whose key finds no room, because all other keys are denied or banned. The decision's `reason` is `'store-full'`:
   * - `'admit'` (default): admitted if its policies admit a new key, and not charged. Its key is not limited meanwhile;
   * - `'deny'`: denied, 503 over HTTP, until there may be room (`retryAfterMs`, estimated). A client that can fill the store keeps new
   *   clients out.
   *
   * A ban by hand always finds room. It evicts a denied key; without one, a key banned by denials; and only then a key banned by hand. Of
   * each kind it evicts the key that is free soonest.
   */
  onFull?: 'admit' | 'deny';
  /** The store's warnings to silence: `false` for all, or a list of codes. See docs/errors.md. */
  warnings?: Warnings;
}

/** The rows of `MemoryStoreOptions`. */
export const MEMORY_TABLE = {
  clock: fn(),
  maxKeys: integer(100, 16e6, 1e6),
  onFull: choice(['admit', 'deny'], 'admit'),
  warnings: custom('`false`, or an array of codes', (_, warnings) => compileWarnings(warnings as Warnings)),
} satisfies OptionTable<MemoryStoreOptions>;

/** The store of {@link memoryStore}. */
export interface MemoryStore extends Store {
  /** The number of keys that have state now, or had it recently. */
  readonly size: number;
  /** Forgets everything, including bans, for all limiters on this store. Earlier charges cannot be given back afterwards. For tests. */
  clear(): void;
}

/** The data that a store keeps about a policy set. */
interface SetData {
  readonly views: readonly View[];
  /** A place for each view. */
  readonly places: readonly MemoryPlace[];
}

/** Whether the ban of a set is part of the state of a part. */
const banned = ({ set }: Part): boolean => set.ban !== undefined;

/** Keeps bounded state in this process without timers, and answers synchronously. Use {@link memoryStore}. */
export class Memory implements MemoryStore {
  readonly embedded = true;
  readonly #clock: Clock;
  readonly #maxKeys: number;
  readonly #onFull: MemoryStoreOptions['onFull'];
  /** The tables by dimension and limiter name, so that no dimension takes room from another. */
  readonly #tables = new Map<string, Table>();
  /** The places of questions about one key, two keys, and so on, by their number. */
  readonly #places: (readonly MemoryPlace[])[] = [];
  /** The data about each policy set. Forgotten whenever a selection is dropped. */
  #dataOf = this.#freshData();
  /** The records of all keys, by limiter name. */
  readonly #overridesOfAll = new Map<string, { record: OverrideRecord; until: number }>();
  /** The limiters on this store. */
  readonly announced = new Set<Announcement>();
  /** The changes for operators. */
  readonly log = new ChangeLog();
  #remembersKeys = false;
  #lastStep = 0;
  /** The step of the last `clear`. */
  #cleared = 0;

  readonly #warn: Warn;

  constructor(clock: Clock, maxKeys: number, onFull: MemoryStoreOptions['onFull'], warn: Warn) {
    this.#clock = clock;
    this.#maxKeys = maxKeys;
    this.#onFull = onFull;
    this.#warn = warn;
  }

  get size(): number {
    let size = 0;
    for (const table of this.#tables.values()) size += table.size;
    return size;
  }

  announce(limiter: Announcement): Announced {
    this.announced.add(limiter);
    this.log.configure(configurationOf(describe(limiter)), this.#clock());
    return { withdraw: () => void this.announced.delete(limiter) };
  }

  keysOf(name: string): number {
    let keys = 0;
    for (const [scope, { size }] of this.#tables)
      if (scope.slice(scope.indexOf(' ') + 1) === name) keys += size;
    return keys;
  }

  get health(): Health {
    let unremembered = 0;
    for (const table of this.#tables.values()) unremembered += table.unremembered;
    return { ...UP, unremembered };
  }

  /** The tables, by dimension and limiter name. */
  get tables(): ReadonlyMap<string, Table> {
    return this.#tables;
  }

  get clock(): Clock {
    return this.#clock;
  }

  /** The records of all keys, by limiter name. */
  get overridesOfAll(): ReadonlyMap<string, { readonly record: OverrideRecord }> {
    return this.#overridesOfAll;
  }

  /** Remembers the texts of keys from now on, for operators. Without that, a key can only be looked up. */
  rememberKeys(): void {
    this.#remembersKeys = true;
    for (const table of this.#tables.values()) table.rememberKeys();
  }

  /** The answer to a peek of cost 1. @param scope as in `Part` @param set policies of one dimension, without a ban */
  lookAt(scope: string, key: string, set: PolicySet): Reply {
    const now = this.#clock();
    const [part] = partsOf(set);
    const place = new MemoryPlace(true, this.#onFull);
    place.find(this.#makeView({ ...part!, scope }), key, now);
    const query = { set, key, cost: 1, costs: undefined, peek: true, lease: '' };
    return decide([place], query, now, this.#step(now));
  }

  #find({ set, key }: Subject, now: number): readonly Place[] {
    const { views, places } = this.#dataOf(set);
    for (let i = 0; i < places.length; i++) places[i]!.find(views[i]!, key, now);
    return places;
  }

  #freshData(): (set: PolicySet) => SetData {
    return perSet((set) => {
      const views = partsOf(set).map((part) => this.#makeView(part));
      const isAlone = views.length === 1;
      const places = (this.#places[views.length] ??= views.map(() => new MemoryPlace(isAlone, this.#onFull)));
      return { views, places };
    });
  }

  #makeView(part: Part): View {
    const { set, scope } = part;
    const now = this.#clock();
    const id = `${scope} ${set.name}`;
    let table = this.#tables.get(id);
    if (!table) {
      this.#tables.set(id, (table = new Table(this.#maxKeys, now, this.#warn)));
      if (this.#remembersKeys) table.rememberKeys();
    }
    if (set.ban) table.ban = set.ban;
    const selection = table.select(set.policies, now, () => (this.#dataOf = this.#freshData()));
    return { part, table, selection };
  }

  #step(now: number): number {
    return (this.#lastStep = stepAfter(this.#lastStep, now));
  }

  // All dimensions are supported.
  checkDimensions(): void {}

  readonly overrides: OverrideStore = {
    read: (place) => {
      const [records, key] = this.#recordsOf(place);
      return [records.get(key)?.record ?? '', this.#clock()];
    },
    change: (place, change: RecordChange) => {
      const now = this.#clock();
      const [records, key] = this.#recordsOf(place);
      const before = records.get(key)?.record ?? '';
      // Operators change overrides rarely enough to look for all expired ones here.
      for (const [other, { until }] of records) if (until <= now) records.delete(other);
      const after = changeRecord(before, change, now);
      if (after.record === '') records.delete(key);
      else records.set(key, after);
      const logged = overrideChange(ownerTextOfPlace(place, escapeKey), change, before, now);
      if (logged) this.log.add({ ...logged, at: now });
      return [before, now];
    },
  };

  /** The records that contain the record of a place, and its key among them. */
  #recordsOf(place: OverridePlace): [Map<string, { record: OverrideRecord; until: number }>, string] {
    if (!('subject' in place)) return [this.#overridesOfAll, place.set.name];
    const { subject, by } = place;
    const { views } = this.#dataOf(subject.set);
    const { part, table } = views.find(({ part: { name } }) => name === by)!;
    return [table.overrides, part.keyOf(subject.key)];
  }

  decide(query: Query): Reply {
    const now = this.#clock();
    const reply = decide(this.#find(query, now), query, now, this.#step(now));
    if (reply.ban < 0) this.#log(query, banned, (owner) => struckChange(owner, -reply.ban), now);
    return reply;
  }

  adjust(change: Change): ChangeReply {
    const now = this.#clock();
    const { charged, units } = change;
    const isGone = charged !== undefined && charged.step <= this.#cleared;
    const left = isGone ? { ...change, units: units.map((each) => Math.max(0, each)) } : change;
    return adjust(this.#find(left, now), left, now, this.#step(now));
  }

  lease(change: LeaseChange): boolean {
    const now = this.#clock();
    return lease(this.#find(change, now), change, now);
  }

  reset(subject: Subject, isLogged = true): void {
    const now = this.#clock();
    reset(this.#find(subject, now), subject, now, this.#step(now));
    if (isLogged) this.#log(subject, () => true, resetChange, now);
  }

  ban(subject: Subject, duration: number, note: BanNote = NO_NOTE, isLogged = true): void {
    const now = this.#clock();
    const places = this.#find(subject, now);
    const { bans, row } = places.find(({ part }) => banned(part))!;
    const left = bans.look(row, subject.set.ban!, now, false);
    ban(places, duration, now);
    if (isLogged) this.#log(subject, banned, (owner) => bannedChange(owner, duration, left, note), now);
  }

  /** Logs a change of some parts of a subject. */
  #log(
    { set, key }: Subject,
    isOf: (part: Part) => boolean,
    make: (owner: string) => LogChange | undefined,
    now: number,
  ): void {
    for (const part of partsOf(set)) {
      const change = isOf(part) ? make(ownerText(set, key, part.name)) : undefined;
      if (change) this.log.add({ ...change, at: now });
    }
  }

  clear(): void {
    this.#cleared = this.#step(this.#clock());
    this.#tables.clear();
    this.#overridesOfAll.clear();
    this.log.clear();
    this.#dataOf = this.#freshData();
  }
}

/**
 * A store in this process: for one process, for tests, and as a substitute while Redis is down.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
 */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  checkShape('memoryStore', options, Object.keys(MEMORY_TABLE));
  return makeMemoryStore(options, compileWarnings(options.warnings));
}

/** Like `memoryStore`, for options whose names were already checked. */
export function makeMemoryStore(options: MemoryStoreOptions, warn: Warn): MemoryStore {
  const { clock = () => Date.now(), maxKeys, onFull } = readOptions(MEMORY_TABLE, options, 'memoryStore.');
  return new Memory(clock, maxKeys, onFull, warn);
}
