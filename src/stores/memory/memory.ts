import type { BanColumn } from '../../algorithms/ban.js';
import type { Column } from '../../algorithms/index.js';
import { compileWarnings, type Warn, type Warnings } from '../../common/warnings.js';
import { choice, custom, fn, integer, readOptions, type OptionTable } from '../../common/options.js';
import { checkShape } from '../../common/validate.js';
import { UP, type Health } from '../../contract/health.js';
import {
  changeRecord,
  type OverrideEntry,
  type OverrideRecord,
  type RecordChange,
} from '../../contract/overrides.js';
import { partsOf, type Part } from '../../contract/parts.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import { adjust, ban, lease, reset } from '../state/changes.js';
import { decide, usage } from '../state/evaluate.js';
import { overriddenBy } from '../state/overrides.js';
import type { Place } from '../state/place.js';
import { claims, decideOnce } from '../state/request-ids.js';
import { RequestIds } from './request-ids.js';
import { WITHIN } from './page.js';
import type { Returns } from '../state/returns.js';
import type { Selection } from './selections.js';
import {
  stepAfter,
  perSet,
  type Change,
  type ChangeReply,
  type Clock,
  type Keys,
  type LeaseChange,
  type OverridePlace,
  type OverrideStore,
  type PolicySet,
  type Query,
  type Reply,
  type Store,
  type Subject,
  type UsageReply,
} from '../../contract/store.js';
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
   * neither denied nor banned. If there are none, `onFull` decides. As many ids of requests are remembered per limiter name. Per limiter name, the state of 1,000 different policies is kept.
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

/** A part of a policy set, and the place of its state. */
interface View {
  readonly part: Part;
  readonly table: Table;
  readonly selection: Selection;
}

/** The data that a store keeps about a policy set. */
interface SetData {
  readonly views: readonly View[];
  /** A place for each view. */
  readonly places: readonly MemoryPlace[];
}

/** The place of the current question's key. A store reuses its places for each question, so that they keep no columns alive. */
class MemoryPlace implements Place {
  readonly #isAlone: boolean;
  readonly #onFull: MemoryStoreOptions['onFull'];
  #view!: View;
  /** The row's number in the table. `row` is its number in its page. */
  #at = 0;
  row = 0;
  columns: readonly Column[] = [];
  policies: readonly CompiledPolicy[] = [];
  entry: OverrideEntry | undefined = undefined;
  next: Place['next'] = undefined;
  record: OverrideRecord = '';
  /** The key, if the question has several. */
  #key = '';

  /** @param isAlone whether the question has only this key */
  constructor(isAlone: boolean, onFull: MemoryStoreOptions['onFull']) {
    this.#isAlone = isAlone;
    this.#onFull = onFull;
  }

  find(view: View, keys: Keys, now: number): void {
    const { part, table, selection } = view;
    const key = typeof keys === 'string' ? keys : part.keyOf(keys);
    if (!this.#isAlone) this.#key = key;
    this.#view = view;
    selection.usedAt = now;
    this.#go(table.find(key, selection.number));
    const { set } = part;
    this.policies = set.policies;
    this.next = undefined;
    if (set.overrides === undefined) return;
    const record = table.overrides.size === 0 ? '' : (table.overrides.get(key)?.record ?? '');
    this.record = record;
    const { entry, policies, next } = overriddenBy(record, set.overrides.all, set, now);
    this.entry = entry;
    this.policies = policies;
    this.next = next;
  }

  #go(at: number): void {
    const { table, selection } = this.#view;
    this.#at = at;
    this.row = at & WITHIN;
    this.columns = table.columns(at, selection);
  }

  get part(): Part {
    return this.#view.part;
  }

  get bans(): BanColumn {
    return this.#view.table.pageOf(this.#at).bans;
  }

  get returns(): Returns {
    return this.#view.table.returns;
  }

  create(now: number, byHand: boolean): void {
    // A table makes room for the key of its last search, which may belong to another part.
    const { table, selection } = this.#view;
    if (!this.#isAlone) table.find(this.#key, selection.number);
    this.#go(table.create(now, byHand));
  }

  isFull(now: number): boolean {
    return this.#view.table.isFull(now);
  }

  full(now: number): number {
    // If all policies are shadows, no request may be denied.
    const denies = this.#onFull === 'deny' && this.part.set.policies.some(({ shadow }) => !shadow);
    return denies ? this.#view.table.roomIn(now) : 0;
  }

  deny(until: number): void {
    this.#view.table.deny(this.#at, until);
  }
}

/** Keeps bounded state in this process without timers, and answers synchronously. Use {@link memoryStore}. */
class Memory implements MemoryStore {
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
  #lastStep = 0;
  /** The step of the last `clear`. */
  #cleared = 0;

  readonly #warn: Warn;
  readonly #ids: RequestIds;
  readonly remembersIds = true;

  constructor(clock: Clock, maxKeys: number, onFull: MemoryStoreOptions['onFull'], warn: Warn) {
    this.#clock = clock;
    this.#maxKeys = maxKeys;
    this.#onFull = onFull;
    this.#warn = warn;
    this.#ids = new RequestIds(maxKeys);
  }

  get size(): number {
    let size = 0;
    for (const table of this.#tables.values()) size += table.size;
    return size;
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
    if (!table) this.#tables.set(id, (table = new Table(this.#maxKeys, now, this.#warn)));
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
    const places = this.#find(query, now);
    const step = this.#step(now);
    if (query.id === undefined) return decide(places, query, now, step);
    return decideOnce(this.#ids.place(query, query.id, now), places, query, now, step);
  }

  adjust(change: Change): ChangeReply {
    const now = this.#clock();
    const { charged, units, claim, set } = change;
    if (claim && !claims(this.#ids.place(change, claim.id, now), claim, set, now))
      return adjust(this.#find(change, now), { ...change, units: units.map(() => 0) }, now, this.#step(now));
    const isGone = charged !== undefined && charged.step <= this.#cleared;
    const left = isGone ? { ...change, units: units.map((each) => Math.max(0, each)) } : change;
    return adjust(this.#find(left, now), left, now, this.#step(now));
  }

  lease(change: LeaseChange): boolean {
    const now = this.#clock();
    return lease(this.#find(change, now), change, now);
  }

  reset(subject: Subject): void {
    const now = this.#clock();
    reset(this.#find(subject, now), subject, now, this.#step(now));
  }

  ban(subject: Subject, duration: number): void {
    const now = this.#clock();
    ban(this.#find(subject, now), duration, now);
  }

  usage(subject: Subject): UsageReply {
    const now = this.#clock();
    return usage(this.#find(subject, now), subject.set, now, this.#step(now));
  }

  clear(): void {
    this.#cleared = this.#step(this.#clock());
    this.#tables.clear();
    this.#ids.clear();
    this.#overridesOfAll.clear();
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
