import { BanColumn } from '../algorithms/ban.js';
import { ConcurrencyColumn } from '../algorithms/concurrency.js';
import { algorithms, type Column } from '../algorithms/index.js';
import { resized } from '../algorithms/algorithm.js';
import { checkFunction, checkInteger, checkShape } from '../validate.js';
import type { CompiledPolicy } from '../policy.js';
import type { Change, Clock, LeaseChange, PolicySet, Query, Reply, Store, Subject } from './store.js';

export interface MemoryStoreOptions {
  /** Whole milliseconds since the epoch; for tests. Default `Date.now`. */
  clock?: Clock;
  /**
   * The most keys kept per limiter name: 100 to 16,000,000, default 1,000,000. At the cap, keys that are as good as new make
   * room; then keys that are neither denied nor banned. If there are none, further keys are admitted without being remembered.
   */
  maxKeys?: number;
}

/** How many slots a table begins with. Tables double. */
const FIRST_SLOTS = 64;

/** How many slots one decision may look at to make room: bounds the pause. */
const SWEEP = 64;

/** The state of all limiters of one name: a slot a key, a column a policy. Slot 0 stays empty: it is "no state". */
class Table {
  readonly #index = new Map<string, number>();
  readonly #keys: (string | undefined)[] = [undefined];
  readonly #columns = new Map<string, Column>();
  readonly #maxKeys: number;
  /** When a slot is as good as new, and until when it is denied (then it is not evicted). */
  #until = new Float64Array(FIRST_SLOTS);
  #denied = new Float64Array(FIRST_SLOTS);
  #slots = FIRST_SLOTS;
  /** Slots from here on have never been used. */
  #fresh = 1;
  #hand = 0;
  readonly #free: number[] = [];
  readonly bans = new BanColumn();

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys;
    this.bans.resize(FIRST_SLOTS);
  }

  get size(): number {
    return this.#index.size;
  }

  column(policy: CompiledPolicy): Column {
    let column = this.#columns.get(policy.id);
    if (!column) {
      column = algorithms[policy.kernel].createColumn();
      column.resize(this.#slots);
      this.#columns.set(policy.id, column);
    }
    return column;
  }

  find(key: string): number {
    return this.#index.get(key) ?? 0;
  }

  /** A slot for a key that has none; 0 if every slot is taken by a key that is denied or banned. */
  create(key: string, now: number): number {
    let slot = this.#free.pop() ?? 0;
    if (slot === 0 && this.#fresh <= this.#maxKeys) {
      // Look at a few old slots for each new one: what has expired is found without a timer.
      this.#sweep(now, 2, false);
      slot = this.#free.pop() ?? this.#fresh++;
    }
    if (slot === 0) {
      this.#sweep(now, SWEEP, true);
      slot = this.#free.pop() ?? 0;
    }
    if (slot === 0) return 0;
    if (slot >= this.#slots) this.#grow();
    this.#index.set(key, slot);
    this.#keys[slot] = key;
    return slot;
  }

  /** Remembers until when a slot matters to `columns` of the table's columns; what others (tiers) remember stays. */
  touch(slot: number, columns: number, until: number, denied: number): void {
    const whole = columns === this.#columns.size;
    this.#until[slot] = Math.max(until, denied, whole ? 0 : this.#until[slot]!);
    this.#denied[slot] = denied;
  }

  remove(slot: number): void {
    this.#index.delete(this.#keys[slot]!);
    this.#keys[slot] = undefined;
    this.#until[slot] = this.#denied[slot] = 0;
    for (const column of this.#columns.values()) column.clear(slot);
    this.bans.clear(slot);
    this.#free.push(slot);
  }

  /** Frees slots that are as good as new; if `evict` and there are none among those looked at, one that is not denied. */
  #sweep(now: number, looks: number, evict: boolean): void {
    let candidate = 0;
    for (let i = Math.min(looks, this.#fresh - 1); i > 0; i--) {
      const slot = (this.#hand = (this.#hand % (this.#fresh - 1)) + 1);
      if (this.#keys[slot] === undefined) continue;
      if (this.#until[slot]! <= now) this.remove(slot);
      else if (candidate === 0 && this.#denied[slot]! <= now) candidate = slot;
    }
    if (evict && this.#free.length === 0 && candidate !== 0) this.remove(candidate);
  }

  #grow(): void {
    this.#slots = Math.min(2 * this.#slots, this.#maxKeys + 1);
    this.#until = resized(this.#until, this.#slots);
    this.#denied = resized(this.#denied, this.#slots);
    for (const column of this.#columns.values()) column.resize(this.#slots);
    this.bans.resize(this.#slots);
  }
}

/** A policy set's columns, found once. */
interface View {
  readonly table: Table;
  readonly columns: readonly Column[];
}

/** Keeps state in this process. Bounded; no timers; answers synchronously. Use {@link memoryStore}. */
class MemoryStore implements Store {
  readonly embedded = true;
  readonly #clock: Clock;
  readonly #maxKeys: number;
  readonly #tables = new Map<string, Table>();
  readonly #views = new WeakMap<PolicySet, View>();
  #lastSet: PolicySet | undefined;
  #lastView: View | undefined;

  constructor(clock: Clock, maxKeys: number) {
    this.#clock = clock;
    this.#maxKeys = maxKeys;
  }

  /** How many keys have state now, or had not long ago. */
  get size(): number {
    let size = 0;
    for (const table of this.#tables.values()) size += table.size;
    return size;
  }

  #view(set: PolicySet): View {
    if (set === this.#lastSet) return this.#lastView!;
    let view = this.#views.get(set);
    if (!view) {
      let table = this.#tables.get(set.name);
      if (!table) this.#tables.set(set.name, (table = new Table(this.#maxKeys)));
      view = { table, columns: set.policies.map((policy) => table.column(policy)) };
      this.#views.set(set, view);
    }
    this.#lastSet = set;
    this.#lastView = view;
    return view;
  }

  decide({ set, key, cost, peek, lease }: Query): Reply {
    const now = this.#clock();
    const { table, columns } = this.#view(set);
    const { policies, ban } = set;
    let slot = table.find(key);
    const banned = ban ? table.bans.look(slot, ban, now, !peek) : 0;
    if (banned > 0) return { now, ban: banned, verdicts: [] };

    let admitted = true;
    for (let i = 0; i < columns.length; i++) {
      const column = columns[i]!;
      const policy = policies[i]!;
      column.look(slot, policy.params, cost, now, !peek);
      if (column.wait !== 0 && column.wait >= -1 && !policy.shadow) admitted = false;
    }
    let struck = 0;
    if (!peek && (admitted ? cost > 0 : ban !== undefined)) {
      if (slot === 0) slot = table.create(key, now);
      if (slot !== 0) {
        if (admitted) this.#commit(columns, set, slot, cost, now, lease);
        else struck = table.bans.strike(slot, ban!, now);
      } else if (admitted) {
        // No room to remember it: what is left is said as if it were remembered.
        for (const column of columns)
          if (column.wait <= 0) column.remaining = Math.max(0, column.remaining - cost);
      }
    }

    const verdicts: number[] = [];
    let until = 0;
    let denied = struck === 0 ? 0 : now + struck;
    for (let i = 0; i < columns.length; i++) {
      const { wait, remaining, reset } = columns[i]!;
      verdicts.push(wait, remaining, reset);
      if (now + reset > until) until = now + reset;
      // A key with nothing left is as good as denied.
      if ((wait > 0 || remaining === 0) && !policies[i]!.shadow && now + reset > denied) denied = now + reset;
    }
    if (slot !== 0 && !peek)
      table.touch(slot, columns.length, ban ? Math.max(until, table.bans.until(slot, ban)) : until, denied);
    return { now, ban: struck === 0 ? 0 : -struck, verdicts };
  }

  #commit(
    columns: readonly Column[],
    set: PolicySet,
    slot: number,
    cost: number,
    now: number,
    lease: string,
  ): void {
    for (let i = 0; i < columns.length; i++) {
      const column = columns[i]!;
      // A shadow that would deny charges nothing, as if it had.
      if (column.wait === 0 || column.wait < -1)
        column.commit(slot, set.policies[i]!.params, cost, now, lease);
    }
  }

  adjust({ set, key, units, marks }: Change): Reply {
    const now = this.#clock();
    const { table, columns } = this.#view(set);
    let slot = table.find(key);
    if (slot === 0 && units > 0) slot = table.create(key, now);
    const verdicts: number[] = [];
    for (let i = 0; i < columns.length; i++) {
      const column = columns[i]!;
      const { params } = set.policies[i]!;
      if (slot === 0) column.look(0, params, 0, now, false);
      else column.adjust(slot, params, units, marks?.[i] ?? 0, now);
      verdicts.push(0, column.remaining, column.reset);
    }
    this.#touch(set, slot, now);
    return { now, ban: 0, verdicts };
  }

  /** After a change of what was charged: until when the slot matters now. */
  #touch(set: PolicySet, slot: number, now: number): void {
    if (slot === 0) return;
    const { table, columns } = this.#view(set);
    let until = set.ban ? table.bans.until(slot, set.ban) : 0;
    let denied = set.ban ? now + table.bans.look(slot, set.ban, now, false) : 0;
    for (let i = 0; i < columns.length; i++) {
      const column = columns[i]!;
      const { params, shadow } = set.policies[i]!;
      column.look(slot, params, 0, now, false);
      until = Math.max(until, now + column.reset);
      if (column.remaining === 0 && !shadow) denied = Math.max(denied, now + column.reset);
    }
    table.touch(slot, columns.length, until, denied);
  }

  lease({ set, key, lease, action }: LeaseChange): boolean {
    const now = this.#clock();
    const { table, columns } = this.#view(set);
    const slot = table.find(key);
    let held = slot !== 0;
    columns.forEach((column, i) => {
      if (!(column instanceof ConcurrencyColumn) || slot === 0) return;
      const params = set.policies[i]!.params as { limit: number; lease: number };
      const done =
        action === 'release'
          ? column.release(slot, params, lease, now)
          : column.renew(slot, params, lease, now);
      held &&= done;
    });
    this.#touch(set, slot, now);
    return held;
  }

  reset({ set, key }: Subject): void {
    const { table, columns } = this.#view(set);
    const slot = table.find(key);
    if (slot !== 0) for (const column of columns) column.clear(slot);
  }

  ban({ set, key }: Subject, duration: number): void {
    const now = this.#clock();
    const { table } = this.#view(set);
    const slot = table.find(key) || table.create(key, now);
    if (slot === 0) return;
    table.bans.set(slot, set.ban!, now, duration);
    table.touch(slot, 0, table.bans.until(slot, set.ban!), now + duration);
  }
}

/**
 * A store in this process: for one process, for tests, and for when Redis is away.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
 */
export function memoryStore(options: MemoryStoreOptions = {}): Store & { readonly size: number } {
  checkShape('memoryStore', options, ['clock', 'maxKeys']);
  const maxKeys =
    options.maxKeys === undefined ? 1e6 : checkInteger('memoryStore.maxKeys', options.maxKeys, 100, 16e6);
  return new MemoryStore(checkFunction('memoryStore.clock', options.clock) ?? Date.now, maxKeys);
}
