import { kernels, type MemoryColumn, type Saved } from '../../algorithms/index.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { Warn } from '../../common/warnings.js';
import { fingerprint, takeFingerprint } from '../fingerprint.js';
import { MemoryPage, PAGE_BITS, WITHIN } from './page.js';
import { isOfShares, type StateSummary } from '../state/saved-state.js';
import { TableValues } from '../../features/kept-values.js';
import { MemoryRecords } from '../../features/overrides/memory-records.js';
import { RANK_BY_HAND } from '../../features/bans/ban.js';
import { banSummary } from '../../features/bans/saved-ban.js';
import { TableHistories } from '../../features/charge-history.js';
import { Selections, type Selection } from './selections.js';

/** Rows that each new key checks, to free expired rows. */
const ROWS_SWEPT_PER_KEY = 2;
/** In a full table, keys that a new key checks in search of an expired key. */
const MAX_LOOKS_FOR_EXPIRED = 16;
/** Keys that a new key checks in search of a key without a denial or ban. The bound limits the pause. */
const MAX_LOOKS = 64;
/** Keys that a ban by hand compares after a search without success. */
const MAX_LOOKS_FOR_BAN = 4096;

/** The fewest texts of keys of which those without a row are forgotten. */
const MIN_NAMES_PER_PRUNING = 1000;

const NO_STATE: Omit<StateSummary, 'kept'> = {
  ...banSummary([]),
  ...{ policies: new Map(), tenants: new Map() },
};

/**
 * The state of all limiters of a name. Each key has a row, each policy a column, and the rows are divided into pages. A row's number
 * contains the number of its page, and is valid until the next key is created.
 *
 * The table grows by pages (extendible hashing, Fagin et al. 1979): a full page is rebuilt with more room, or split in two, so that no
 * request ever waits until all keys have moved.
 */
export class MemoryTable {
  readonly #maxKeys: number;
  readonly #pages: MemoryPage[];
  /** The page for each ending of a hash. The length is a power of two. */
  #directory: MemoryPage[];
  readonly #selections: Selections;
  readonly histories = new TableHistories();
  readonly records = new MemoryRecords();
  readonly values: TableValues;
  /** The moment from which denials are counted in seconds, in the middle of the range of 32 bits. */
  readonly #epoch: number;
  #size = 0;
  /** The texts of keys that were used, including some without a row. Undefined unless operators want to list keys. */
  names: Set<string> | undefined = undefined;
  /** The number of texts at which those of keys without a row are forgotten. */
  #nextPruning = MIN_NAMES_PER_PRUNING;
  /** The row at which the last search for expired rows stopped. */
  #handPage = 0;
  #hand = 0;
  #unremembered = 0;
  /** The row of the checked key that can be evicted first (0 if none), and the time, after a search without success. */
  #nextRoom = 0;
  #nextRoomAt = 0;
  /** The last search, because the same key often comes again. */
  #lastKey: string | undefined;
  #lastRow = 0;
  readonly #warn: Warn;

  constructor(maxKeys: number, now: number, warn: Warn) {
    this.#maxKeys = maxKeys;
    this.values = new TableValues(maxKeys);
    this.#warn = warn;
    this.#selections = new Selections(warn);
    this.#epoch = now - 2 ** 31 * 1000;
    this.#pages = [new MemoryPage(0, 0, 0, 0)];
    this.#directory = [...this.#pages];
  }

  get size(): number {
    return this.#size;
  }

  rememberKeys(): void {
    this.names ??= new Set();
  }

  /** Remembers the text of a used key. Texts of keys without a row are forgotten from time to time. */
  remember(key: string): void {
    const names = this.names!;
    names.add(key);
    if (names.size < this.#nextPruning) return;
    for (const name of names) if (name !== key && this.find(name, 0) === 0) names.delete(name);
    this.#nextPruning = Math.max(MIN_NAMES_PER_PRUNING, 2 * names.size);
  }

  /** The state of a key, as `summaryOf` shows stored state. Undefined if the key has no row. */
  stateOf(key: string): StateSummary | undefined {
    const row = this.find(key, 0);
    const kept = { get: (id: string) => this.records.kept(key, id) ?? this.values.find(key, id) };
    if (row === 0) return this.records.of(key) === '' ? undefined : { ...NO_STATE, kept };
    const page = this.pageOf(row);
    const policies = new Map<string, number>();
    const tenants = new Map<string, Saved>();
    for (const { number, policy } of this.#selections.policies) {
      const column = page.columns[number];
      const until = column?.until(row & WITHIN) ?? 0;
      if (until > 0) policies.set(policy.id, until);
      if (until > 0 && isOfShares(policy.id)) tenants.set(policy.id, column!.save(row & WITHIN));
    }
    return { ...banSummary(page.bans.save(row & WITHIN)), policies, tenants, kept };
  }

  /** The number of times that there was no room for a new key. */
  get unremembered(): number {
    return this.#unremembered;
  }

  /**
   * The selection of policies that decide together.
   *
   * @param onFreed called if other selections were dropped, which must no longer be used
   */
  select(policies: readonly CompiledPolicy[], now: number, onFreed: () => void): Selection {
    return this.#selections.select(policies, now, (freed) => {
      for (const page of this.#pages) page.free(freed);
      onFreed();
    });
  }

  /** A row's page. The row's number within it is `row & WITHIN`. */
  pageOf(row: number): MemoryPage {
    return this.#pages[row >> PAGE_BITS]!;
  }

  /** The columns of a selection for a row, which is `row & WITHIN` in each of them. */
  columns(row: number, { number, policies }: Selection): readonly MemoryColumn[] {
    const page = this.#pages[row >> PAGE_BITS]!;
    return (page.selections[number] ??= policies.map(
      ({ number, policy: { kernel, params } }) =>
        (page.columns[number] ??= kernels[kernel].createColumn(page.rows, params)),
    ));
  }

  /** A key's row, or 0. @param selection the number of the selection whose state the caller will read */
  find(key: string, selection: number): number {
    if (key === this.#lastKey) return this.#lastRow;
    takeFingerprint(key);
    const page = this.#current();
    const row = page.find(selection);
    if (row === 0) return 0;
    this.#lastKey = key;
    return (this.#lastRow = (page.id << PAGE_BITS) + row);
  }

  /**
   * Gives a row to the key that `find` has just not found.
   *
   * @param byHand the key will be banned by hand, so that even a denied or banned key is evicted
   * @returns 0 if every candidate is denied or banned
   */
  create(now: number, byHand = false): number {
    // Checks a few old rows for each new row, so that expired keys are found without a timer.
    if (this.#size < this.#maxKeys) this.#sweep(now);
    else {
      let victim = this.#findRoom(now);
      if (victim === 0) {
        this.#unremembered++;
        warnFull(this.#warn, this.#maxKeys);
        if (!byHand) return 0;
        victim = this.#findForBan(now);
      }
      this.#remove(victim);
    }
    let page = this.#current();
    while (page.isFull) {
      this.#extend(page);
      page = this.#current();
    }
    this.#size++;
    return (page.id << PAGE_BITS) + page.add();
  }

  /** Whether `create` would find no room for a key. */
  isFull(now: number): boolean {
    if (this.#size < this.#maxKeys) return false;
    const [page, hand] = [this.#handPage, this.#hand];
    const full = this.#findRoom(now) === 0;
    [this.#handPage, this.#hand] = [page, hand];
    return full;
  }

  /** The time until one key has room, at least a second, after `create` found no room. */
  roomIn(now: number): number {
    return Math.max(1000, this.#nextRoomAt - now);
  }

  /**
   * Remembers the time until which a row is denied, ms, so that the row's key is not evicted before. A longer earlier denial stays, because
   * it may concern another cost or another tier's policies.
   */
  deny(row: number, until: number): void {
    const page = this.pageOf(row);
    const seconds = Math.max(0, Math.ceil((until - this.#epoch) / 1000));
    if (seconds > page.deniedUntil(row & WITHIN)) page.deny(row & WITHIN, seconds);
  }

  /** The page of the key whose fingerprint was taken last. */
  #current(): MemoryPage {
    return this.#directory[fingerprint[0]! & (this.#directory.length - 1)]!;
  }

  /** Makes room for more keys of a page. */
  #extend(page: MemoryPage): void {
    const { id, depth, ending } = page;
    this.#forgetRows();
    if (!page.isLarge) {
      this.#put(page.part(id, depth, ending));
      return;
    }
    const bit = 2 ** depth;
    if (bit === this.#directory.length) this.#directory = [...this.#directory, ...this.#directory];
    this.#put(page.part(id, depth + 1, ending));
    this.#put(page.part(this.#pages.length, depth + 1, ending + bit));
  }

  #put(page: MemoryPage): void {
    this.#pages[page.id] = page;
    for (let i = page.ending; i < this.#directory.length; i += 2 ** page.depth) this.#directory[i] = page;
  }

  /** Frees the next rows if they have expired. */
  #sweep(now: number): void {
    for (let i = 0; i < ROWS_SWEPT_PER_KEY; i++) {
      const row = this.#next();
      const page = this.pageOf(row);
      const within = row & WITHIN;
      if (!page.isVacant(within) && page.until(within) <= now) this.#remove(row);
    }
  }

  /**
   * Finds an expired row; otherwise, of the checked keys that are not denied, the row that expires soonest.
   *
   * @returns 0 if there is no such row
   */
  #findRoom(now: number): number {
    let victim = 0;
    let soonest = Infinity;
    let nextRoom = 0;
    let nextRoomAt = Infinity;
    for (let looks = 0; looks <= MAX_LOOKS && !(looks > MAX_LOOKS_FOR_EXPIRED && victim !== 0); looks++) {
      // Checks the row first that was predicted to become free when there was no room.
      const row = looks === 0 ? this.#nextRoom : this.#nextKey();
      if (row === 0) continue;
      const page = this.pageOf(row);
      const within = row & WITHIN;
      const until = page.until(within);
      if (until <= now) return row;
      const heldUntil = Math.max(this.#deniedUntil(page, within), page.bans.end(within));
      if (heldUntil <= now) {
        if (until >= soonest) continue;
        victim = row;
        soonest = until;
      } else if (Math.min(until, heldUntil) < nextRoomAt) {
        nextRoom = row;
        nextRoomAt = Math.min(until, heldUntil);
      }
    }
    this.#nextRoom = nextRoom;
    this.#nextRoomAt = nextRoomAt;
    return victim;
  }

  /** Finds the key that a ban by hand evicts, among the next keys, or in a small table among all keys. */
  #findForBan(now: number): number {
    let victim = 0;
    let least = Infinity;
    for (let looks = 0; looks < this.#size && (looks < MAX_LOOKS_FOR_BAN || least >= RANK_BY_HAND); looks++) {
      const row = this.#nextKey();
      const page = this.pageOf(row);
      const rank = page.bans.rank(row & WITHIN, this.#deniedUntil(page, row & WITHIN), now);
      if (rank >= least) continue;
      victim = row;
      least = rank;
    }
    return victim;
  }

  /** The time until which a row is denied, ms. */
  #deniedUntil(page: MemoryPage, within: number): number {
    return this.#epoch + page.deniedUntil(within) * 1000;
  }

  #next(): number {
    if (++this.#hand > this.#pages[this.#handPage]!.rows) {
      this.#hand = 1;
      this.#handPage = (this.#handPage + 1) % this.#pages.length;
    }
    return (this.#handPage << PAGE_BITS) + this.#hand;
  }

  /** The next row with a key. There must be such a row. */
  #nextKey(): number {
    let row = this.#next();
    while (this.pageOf(row).isVacant(row & WITHIN)) row = this.#next();
    return row;
  }

  #remove(row: number): void {
    this.#forgetRows();
    this.pageOf(row).remove(row & WITHIN);
    this.#size--;
  }

  /** Forgets the remembered rows, because keys have moved or will move. */
  #forgetRows(): void {
    this.#lastKey = undefined;
    this.#nextRoom = 0;
  }
}

function warnFull(warn: Warn, maxKeys: number): void {
  warn(
    'HEADGATE_STORE_FULL',
    `A memory store has no room for a new key: all keys that it keeps (maxKeys: ${maxKeys}) are denied or banned. ` +
      'Its option `onFull` determines the answer.',
  );
}
