import { ConcurrencyColumn } from '../algorithms/concurrency.js';
import type { Column } from '../algorithms/index.js';
import { checkChoice, checkFunction, checkInteger, checkShape } from '../validate.js';
import { UP, type Health } from './breaker.js';
import { small } from './reply.js';
import {
  NEVER,
  type Change,
  type ChangeReply,
  type Clock,
  type LeaseChange,
  type PolicySet,
  type Query,
  type Reply,
  type Store,
  type Subject,
} from './store.js';
import { WITHIN } from './page.js';
import type { Selection } from './selections.js';
import { stepAfter } from './step.js';
import { Table } from './table.js';

export interface MemoryStoreOptions {
  /** Whole milliseconds since the epoch; for tests. Default `Date.now`. */
  clock?: Clock;
  /**
   * The most keys kept per limiter name: 100 to 16,000,000, default 1,000,000. At the cap, keys that are as good as new make
   * room; then keys that are neither denied nor banned. If there are none, `onFull` decides. The state of 1,000 different policies
   * is kept per limiter name.
   */
  maxKeys?: number;
  /**
   * What becomes of a request whose key finds no room, as all others are denied or banned. The decision's `reason` is `'store-full'`:
   * - `'admit'` (default): it is admitted if its policies admit a new key, and not charged. Its key is not limited meanwhile;
   * - `'deny'`: it is denied, 503 over HTTP, until there may be room (`retryAfterMs`, estimated). Whoever can fill the store
   *   keeps new clients out.
   *
   * A ban by hand always finds room. It evicts a key that is denied, else one that is banned by denials, and only then one that is
   * banned by hand: of each kind the one that is free soonest.
   */
  onFull?: 'admit' | 'deny';
}

/** A policy set's part of a table. */
class View {
  readonly table: Table;
  readonly selection: Selection;

  constructor(table: Table, selection: Selection) {
    this.table = table;
    this.selection = selection;
  }

  /** A key's slot, or 0. */
  find(key: string): number {
    return this.table.find(key, this.selection.number);
  }

  /** The columns of the set's policies that have a slot, `slot & WITHIN` in each. */
  columns(slot: number): readonly Column[] {
    return this.table.columns(slot, this.selection);
  }
}

/** Keeps state in this process. Bounded; no timers; answers synchronously. Use {@link memoryStore}. */
class MemoryStore implements Store {
  readonly embedded = true;
  readonly #clock: Clock;
  readonly #maxKeys: number;
  readonly #onFull: MemoryStoreOptions['onFull'];
  readonly #tables = new Map<string, Table>();
  #views = new WeakMap<PolicySet, View>();
  #lastStep = 0;
  #lastSet: PolicySet | undefined;
  #lastView: View | undefined;

  constructor(clock: Clock, maxKeys: number, onFull: MemoryStoreOptions['onFull']) {
    this.#clock = clock;
    this.#maxKeys = maxKeys;
    this.#onFull = onFull;
  }

  /** How many keys have state now, or had not long ago. */
  get size(): number {
    let size = 0;
    for (const table of this.#tables.values()) size += table.size;
    return size;
  }

  get health(): Health {
    let unremembered = 0;
    for (const table of this.#tables.values()) unremembered += table.unremembered;
    return { ...UP, unremembered };
  }

  #view(set: PolicySet, now: number): View {
    if (set !== this.#lastSet) {
      const found = this.#views.get(set) ?? this.#makeView(set, now);
      this.#lastSet = set;
      this.#lastView = found;
    }
    const view = this.#lastView!;
    view.selection.usedAt = now;
    return view;
  }

  #makeView(set: PolicySet, now: number): View {
    let table = this.#tables.get(set.name);
    if (!table) this.#tables.set(set.name, (table = new Table(this.#maxKeys, now)));
    if (set.ban) table.ban = set.ban;
    const selection = table.select(set.policies, now, () => (this.#views = new WeakMap()));
    const view = new View(table, selection);
    this.#views.set(set, view);
    return view;
  }

  #step(now: number): number {
    return (this.#lastStep = stepAfter(this.#lastStep, now));
  }

  decide({ set, key, cost, peek, lease }: Query): Reply {
    const now = this.#clock();
    const view = this.#view(set, now);
    const { table } = view;
    const { ban } = set;
    let slot = view.find(key);
    const banned = ban ? table.pageOf(slot).bans.look(slot & WITHIN, ban, now, !peek) : 0;
    if (banned > 0) return { now, step: this.#step(now), ban: banned, verdicts: [] };

    let columns = view.columns(slot);
    const admitted = look(columns, set, slot, cost, now, !peek);
    let struck = 0;
    if (peek) {
      if (slot === 0 && admitted && cost > 0 && table.isFull(now)) return this.#full(view, set, now);
    } else if (admitted ? cost > 0 : ban !== undefined || (cost > 0 && countsAttempts(set))) {
      if (slot === 0) {
        slot = table.create(now);
        if (view.columns(slot) !== columns) {
          columns = view.columns(slot);
          look(columns, set, slot, cost, now, true);
        }
      }
      if (slot === 0) {
        if (admitted) return this.#full(view, set, now);
      } else {
        if (cost > 0) commit(columns, set, slot, cost, now, lease, admitted);
        if (!admitted && ban) struck = table.pageOf(slot).bans.strike(slot & WITHIN, ban, now);
      }
    }
    if (slot !== 0 && !peek) table.deny(slot, deniedUntil(columns, set, now));
    return { now, step: this.#step(now), ban: struck === 0 ? 0 : -struck, verdicts: verdictsOf(columns) };
  }

  /** The answer to a query that its policies admit, as they have just said, and that cannot be remembered. */
  #full(view: View, { policies }: PolicySet, now: number): Reply {
    // What is only watched is not denied.
    const denies = this.#onFull === 'deny' && policies.some(({ shadow }) => !shadow);
    return {
      now,
      step: this.#step(now),
      ban: 0,
      verdicts: verdictsOf(view.columns(0)),
      full: denies ? view.table.roomIn(now) : 0,
    };
  }

  adjust({ set, key, units, charged }: Change): ChangeReply {
    const now = this.#clock();
    const view = this.#view(set, now);
    let slot = view.find(key);
    if (slot === 0 && units.some((each) => each > 0)) slot = view.table.create(now);
    const columns = view.columns(slot);
    const { returns } = view.table;
    const step = this.#step(now);
    const done = columns.map((column, i) => {
      const { id, life, params } = set.policies[i]!;
      const of = units[i]! < 0 ? charged : undefined;
      if (slot === 0 || units[i] === 0 || (of && returns.isReset(id, key, of.step))) {
        column.look(slot & WITHIN, params, 0, now, false);
        return 0;
      }
      const shift = of ? returns.shift(id, key, of.step) : 0;
      const returned = of && { mark: of.marks[i]!, at: Math.floor(of.step / 1000), shift };
      const amount = column.adjust(slot & WITHIN, params, units[i]!, now, returned);
      if (of && column.drains && amount > 0)
        returns.note(id, key, { from: of.step, to: step, amount }, now, life);
      return units[i]! > 0 ? amount : 0;
    });
    if (slot !== 0) view.table.deny(slot, deniedUntil(columns, set, now));
    return { now, step, ban: 0, verdicts: verdictsOf(columns), charged: done };
  }

  lease({ set, key, lease, action }: LeaseChange): boolean {
    const now = this.#clock();
    const view = this.#view(set, now);
    const slot = view.find(key);
    if (slot === 0) return false;
    const columns = view.columns(slot);
    let held = true;
    columns.forEach((column, i) => {
      if (!(column instanceof ConcurrencyColumn)) return;
      const params = set.policies[i]!.params as { limit: number; lease: number };
      const done =
        action === 'release'
          ? column.release(slot & WITHIN, params, lease, now)
          : column.renew(slot & WITHIN, params, lease, now);
      held &&= done;
    });
    look(columns, set, slot, 0, now, false);
    view.table.deny(slot, deniedUntil(columns, set, now));
    return held;
  }

  reset({ set, key }: Subject): void {
    const now = this.#clock();
    const view = this.#view(set, now);
    const step = this.#step(now);
    for (const { id, life } of set.policies) view.table.returns.reset(id, key, step, now, life);
    const slot = view.find(key);
    if (slot === 0) return;
    const columns = view.columns(slot);
    for (const column of columns) column.clear(slot & WITHIN);
  }

  ban({ set, key }: Subject, duration: number): void {
    const now = this.#clock();
    const view = this.#view(set, now);
    const { table } = view;
    const slot = view.find(key) || (duration > 0 ? table.create(now, true) : 0);
    if (slot !== 0) table.pageOf(slot).bans.set(slot & WITHIN, set.ban!, now, duration);
  }
}

/** Whether all policies that are not shadows admit; their verdicts are in the columns. */
function look(
  columns: readonly Column[],
  { policies }: PolicySet,
  slot: number,
  cost: number,
  now: number,
  writable: boolean,
): boolean {
  let admitted = true;
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i]!;
    const policy = policies[i]!;
    column.look(slot & WITHIN, policy.params, cost, now, writable);
    if (!admits(column) && !policy.shadow) admitted = false;
  }
  return admitted;
}

function commit(
  columns: readonly Column[],
  { policies }: PolicySet,
  slot: number,
  cost: number,
  now: number,
  lease: string,
  admitted: boolean,
): void {
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i]!;
    const { params, attempts } = policies[i]!;
    // A shadow that would deny charges nothing, as if it had.
    if (!admits(column) || !(admitted || attempts)) continue;
    column.commit(slot & WITHIN, params, cost, now, lease);
    // When it would be admitted now, so that `retryAfter` holds.
    if (!admitted) column.look(slot & WITHIN, params, cost, now, false);
  }
}

function countsAttempts({ policies }: PolicySet): boolean {
  return policies.some(({ attempts }) => attempts);
}

function admits({ wait }: Column): boolean {
  return wait === 0 || wait < NEVER;
}

/** Until when a key must not be forgotten; 0 if it may. A key with nothing left is as good as denied. */
function deniedUntil(columns: readonly Column[], { policies }: PolicySet, now: number): number {
  let until = 0;
  for (let i = 0; i < columns.length; i++) {
    const { wait, remaining, reset } = columns[i]!;
    if ((wait > 0 || remaining === 0) && !policies[i]!.shadow) until = Math.max(until, now + reset);
  }
  return until;
}

function verdictsOf(columns: readonly Column[]): number[] {
  if (columns.length === 1) {
    const { wait, remaining, reset } = columns[0]!;
    return [small(wait), small(remaining), small(reset)];
  }
  const verdicts: number[] = [];
  for (const { wait, remaining, reset } of columns)
    verdicts.push(small(wait), small(remaining), small(reset));
  return verdicts;
}

/**
 * A store in this process: for one process, for tests, and for when Redis is away.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
 */
export function memoryStore(options: MemoryStoreOptions = {}): Store & { readonly size: number } {
  checkShape('memoryStore', options, ['clock', 'maxKeys', 'onFull']);
  const { onFull: given = 'admit' } = options;
  const maxKeys =
    options.maxKeys === undefined ? 1e6 : checkInteger('memoryStore.maxKeys', options.maxKeys, 100, 16e6);
  const onFull = checkChoice('memoryStore.onFull', given, ['admit', 'deny']);
  return new MemoryStore(checkFunction('memoryStore.clock', options.clock) ?? Date.now, maxKeys, onFull);
}
