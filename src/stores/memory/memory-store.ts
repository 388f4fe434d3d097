import type { Warn } from '../../common/warnings.js';
import { UP, type Health } from '../../contract/health.js';
import { setsByDimension, type DimensionSet } from '../../contract/dimension-sets.js';
import type { Announced, Announcement, CountedDecision } from '../../contract/announcement.js';
import { adjust } from '../state/changes.js';
import { decide } from '../state/evaluate.js';
import { PlaceOperations } from '../state/place-operations.js';
import type { Place } from '../../features/feature.js';
import { passOn } from '../../features/thresholds/crossing-reports.js';
import type { CrossingList } from '../../features/thresholds/crossings.js';
import { ONE_UNIT } from '../../contract/costs.js';
import { featuresOf } from '../../features/features.js';
import { MemoryRecords, overridesIn } from '../../features/overrides/memory-records.js';
import { RequestIds } from '../../features/ids/memory-ids.js';
import { MemoryPlace, type StoreParts, type View } from './memory-place.js';
import type { MemoryStore, MemoryStoreOptions } from './options.js';
import type { ChangeReply, Reply } from '../../contract/reply.js';
import {
  lookOf,
  perSet,
  stepAfter,
  type ChargeChange,
  type Clock,
  type PolicySet,
  type Query,
  type Subject,
} from '../../contract/store.js';
import { ChangeLog, type JournalEntry } from '../journal.js';
import { configurationOf, describe } from '../published.js';
import { MemoryTable } from './table.js';

interface SetData {
  readonly views: readonly View[];
  readonly places: readonly MemoryPlace[];
}

interface MemorySettings {
  readonly clock: Clock | undefined;
  readonly maxKeys: number;
  readonly onFull: MemoryStoreOptions['onFull'];
  readonly warn: Warn;
  readonly stream: CrossingList | undefined;
  readonly counts: boolean;
}

/** Keeps bounded state in this process without timers, and answers synchronously. Use {@link memoryStore}. */
export class Memory extends PlaceOperations implements MemoryStore {
  readonly embedded = true;
  readonly remembersIds = true;
  readonly #parts: StoreParts;
  readonly #clock: Clock;
  readonly #maxKeys: number;
  /** The tables by dimension and limiter name, so that no dimension takes room from another. */
  readonly #tables = new Map<string, MemoryTable>();
  /** The places of questions about one key, two keys, and so on, by their number. */
  readonly #places: (readonly MemoryPlace[])[] = [];
  /** The data about each policy set. Forgotten whenever a selection is dropped. */
  #dataOf = this.#freshData();
  /** The records of overrides of all keys, by limiter name. */
  readonly recordsOfAll = new MemoryRecords();
  readonly stream: CrossingList | undefined;
  readonly announced = new Set<Announcement>();
  /** The handles of the announced limiters, which count decisions once an administration begins. */
  readonly #handles = new Map<Announcement, { count: Announced['count'] }>();
  readonly log = new ChangeLog();
  readonly isCounted: boolean;
  /** Counts the decisions of a limiter. Undefined until an administration begins. */
  #count: ((name: string, decision: CountedDecision) => void) | undefined;
  #remembersKeys = false;
  #lastStep = 0;
  #cleared = 0;

  readonly #warn: Warn;

  constructor({ clock, maxKeys, onFull, warn, stream, counts }: MemorySettings) {
    super();
    this.stream = stream;
    this.isCounted = counts;
    // `Date.now` is looked up at each decision, so that fake timers work.
    this.#clock = clock ?? (() => Date.now());
    this.#maxKeys = maxKeys;
    this.#parts = { onFull, ids: new RequestIds(maxKeys), events: [] };
    this.#warn = warn;
  }

  get size(): number {
    let size = 0;
    for (const table of this.#tables.values()) size += table.size;
    return size;
  }

  /** A property, because an application's store may inherit from a memory store. */
  readonly announce = (limiter: Announcement): Announced => {
    this.announced.add(limiter);
    this.log.configure(configurationOf(describe(limiter)), this.#clock());
    const withdraw = (): void => {
      this.announced.delete(limiter);
      this.#handles.delete(limiter);
    };
    const handle = { withdraw, count: this.#count?.bind(undefined, limiter.name) };
    this.#handles.set(limiter, handle);
    return handle;
  };

  countBy(count: (name: string, decision: CountedDecision) => void): void {
    this.#count = count;
    for (const [{ name }, handle] of this.#handles) handle.count = count.bind(undefined, name);
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

  get tables(): ReadonlyMap<string, MemoryTable> {
    return this.#tables;
  }

  get clock(): Clock {
    return this.#clock;
  }

  /** Remembers the texts of keys from now on, for operators. Without that, a key can only be looked up. */
  rememberKeys(): void {
    this.#remembersKeys = true;
    for (const table of this.#tables.values()) table.rememberKeys();
  }

  /** The answer to a peek of cost 1. @param scope as in `Part` @param set policies of one dimension, without a ban */
  lookAt(scope: string, key: string, set: PolicySet): Reply {
    const now = this.#clock();
    const [part] = setsByDimension(set);
    const place = new MemoryPlace(true, this.#parts);
    place.find(this.#makeView({ ...part!, scope }), key, now);
    const query = lookOf({ set, key }, ONE_UNIT);
    return decide([place], query, now, this.step(now));
  }

  protected time(): number {
    return this.#clock();
  }

  protected placesBeside(_: number, subject: Subject, now: number): readonly Place[] {
    return this.places(subject, now);
  }

  protected note(_: number, change: JournalEntry, now: number): void {
    this.log.add({ ...change, at: now });
  }

  protected places({ set, key }: Subject, now: number): readonly Place[] {
    const { views, places } = this.#dataOf(set);
    for (let i = 0; i < places.length; i++) places[i]!.find(views[i]!, key, now);
    return places;
  }

  #freshData(): (set: PolicySet) => SetData {
    return perSet((set) => {
      const views = setsByDimension(set).map((part) => this.#makeView(part));
      const isAlone = views.length === 1;
      const places = (this.#places[views.length] ??= views.map(() => new MemoryPlace(isAlone, this.#parts)));
      return { views, places };
    });
  }

  #makeView(part: DimensionSet): View {
    const { set, scope } = part;
    const now = this.#clock();
    const id = `${scope} ${set.name}`;
    let table = this.#tables.get(id);
    if (!table) {
      this.#tables.set(id, (table = new MemoryTable(this.#maxKeys, now, this.#warn)));
      if (this.#remembersKeys) table.rememberKeys();
    }
    table.pageOf(0).bans.use(set.ban);
    const selection = table.select(set.policies, now, () => (this.#dataOf = this.#freshData()));
    return { part, features: featuresOf(set), table, selection };
  }

  protected step(now: number): number {
    return (this.#lastStep = stepAfter(this.#lastStep, now));
  }

  // All dimensions are supported.
  checkDimensions(): void {}

  readonly overrides = overridesIn({
    clock: () => this.#clock(),
    recordsOf: (place) => {
      if (!('subject' in place)) return [this.recordsOfAll, place.set.name];
      const { subject, by } = place;
      const { part, table } = this.#dataOf(subject.set).views.find(({ part: { name } }) => name === by)!;
      return [table.records, part.keyOf(subject.key)];
    },
    placesOf: (subject, now) => this.places(subject, now),
    log: (change, now) => this.log.add({ ...change, at: now }),
  });

  decide(query: Query): Reply {
    const now = this.#clock();
    const reply = decide(this.places(query, now), query, now, this.step(now));
    if (reply.ban < 0 || this.#parts.events.length > 0) this.#report(query, reply, now);
    return reply;
  }

  adjust(change: ChargeChange): ChangeReply {
    const now = this.#clock();
    const { charged, units } = change;
    // After a clear, a charge of a later step is from before it, too, because the clock has gone back since.
    const isGone =
      charged !== undefined &&
      this.#cleared > 0 &&
      (charged.step <= this.#cleared || charged.step > this.#lastStep);
    const made = isGone ? { ...change, units: units.map((each) => Math.max(0, each)) } : change;
    const reply = adjust(this.places(change, now), made, now, this.step(now));
    if (this.#parts.events.length > 0) this.#report(change, reply, now);
    return reply;
  }

  /** Reports a ban by denials, and events. A method of its own, because V8 allocates a closure's context at each entry of a method. */
  #report(subject: Subject, reply: Reply, now: number): void {
    if (reply.ban < 0) this.struck(subject, reply, now);
    passOn(this.#parts.events, subject, this.stream, this.#clock());
  }

  clear(): void {
    this.#cleared = this.step(this.#clock());
    this.#tables.clear();
    this.#parts.ids.clear();
    this.recordsOfAll.clear();
    this.log.clear();
    this.#dataOf = this.#freshData();
  }
}
