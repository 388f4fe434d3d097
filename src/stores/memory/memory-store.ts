import type { Warn } from '../../common/warnings.js';
import { UP, type Health } from '../../contract/health.js';
import { changeRecord, type OverrideRecord, type RecordChange } from '../../contract/overrides.js';
import { NO_NOTE, type BanNote } from '../../contract/ban-options.js';
import { partsOf, type Part } from '../../contract/parts.js';
import type { Announced, Announcement } from '../../contract/announcement.js';
import { adjust, ban, lease, reset } from '../state/changes.js';
import { decide, usage } from '../state/evaluate.js';
import type { Place } from '../state/place.js';
import { claims, decideOnce } from '../state/request-ids.js';
import { reportCrossings, takeCrossings } from '../../contract/thresholds.js';
import { storedCrossing, type CrossingList } from '../crossings.js';
import { AllMarks } from './marks.js';
import { RequestIds } from './request-ids.js';
import { MemoryPlace, type View } from './memory-place.js';
import type { MemoryStore, MemoryStoreOptions } from './options.js';
import type { ChangeReply, Reply, UsageReply } from '../../contract/reply.js';
import {
  stepAfter,
  perSet,
  type Change,
  type Clock,
  type LeaseChange,
  type OverridePlace,
  type OverrideStore,
  type PolicySet,
  type Query,
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
  readonly remembersIds = true;
  readonly #ids: RequestIds;
  readonly #marks: AllMarks;
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
  /** The crossings of thresholds for readers. */
  readonly stream: CrossingList | undefined;
  /** The limiters on this store. */
  readonly announced = new Set<Announcement>();
  /** The changes for operators. */
  readonly log = new ChangeLog();
  #remembersKeys = false;
  #lastStep = 0;
  /** The step of the last `clear`. */
  #cleared = 0;

  readonly #warn: Warn;

  constructor(
    clock: Clock | undefined,
    maxKeys: number,
    onFull: MemoryStoreOptions['onFull'],
    warn: Warn,
    stream?: CrossingList,
  ) {
    this.stream = stream;
    // `Date.now` is looked up at each decision, so that fake timers work.
    this.#clock = clock ?? (() => Date.now());
    this.#maxKeys = maxKeys;
    this.#ids = new RequestIds(maxKeys);
    this.#marks = new AllMarks(maxKeys);
    this.#onFull = onFull;
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
    return { withdraw: () => void this.announced.delete(limiter) };
  };

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
    const place = new MemoryPlace(true, this.#onFull, this.#marks);
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
      const places = (this.#places[views.length] ??= views.map(
        () => new MemoryPlace(isAlone, this.#onFull, this.#marks),
      ));
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
    const places = this.#find(query, now);
    const step = this.#step(now);
    const reply =
      query.id === undefined
        ? decide(places, query, now, step)
        : decideOnce(this.#ids.place(query, query.id, now), places, query, now, step);
    if (reply.ban < 0) this.#log(query, banned, (owner) => struckChange(owner, -reply.ban), now);
    if (this.#marks.crossings.length > 0) this.#reportCrossings(query);
    return reply;
  }

  adjust(change: Change): ChangeReply {
    const now = this.#clock();
    const { charged, units, claim, set } = change;
    if (claim && !claims(this.#ids.place(change, claim.id, now), claim, set, now))
      return adjust(this.#find(change, now), { ...change, units: units.map(() => 0) }, now, this.#step(now));
    const isGone = charged !== undefined && charged.step <= this.#cleared;
    const left = isGone ? { ...change, units: units.map((each) => Math.max(0, each)) } : change;
    const reply = adjust(this.#find(left, now), left, now, this.#step(now));
    if (this.#marks.crossings.length > 0) this.#reportCrossings(change);
    return reply;
  }

  /** The list of crossings is emptied first, because a listener may ask this store. */
  #reportCrossings(subject: Subject): void {
    const crossings = takeCrossings(this.#marks.crossings);
    for (const crossing of this.stream ? crossings : [])
      this.stream!.add(storedCrossing(subject, crossing, this.#clock()));
    reportCrossings(subject, crossings);
  }

  lease(change: LeaseChange): boolean {
    const now = this.#clock();
    return lease(this.#find(change, now), change, now);
  }

  usage(subject: Subject): UsageReply {
    const now = this.#clock();
    return usage(this.#find(subject, now), subject, now, this.#step(now));
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
    this.#ids.clear();
    this.#marks.clear();
    this.#overridesOfAll.clear();
    this.log.clear();
    this.#dataOf = this.#freshData();
  }
}
