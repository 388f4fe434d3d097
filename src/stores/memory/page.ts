import { BanColumn } from '../../features/bans/ban.js';
import type { MemoryColumn } from '../../algorithms/index.js';
import { fingerprint, hasFingerprint, VACANT } from '../fingerprint.js';
import type { Freed } from './selections.js';

/** The bits of a row's number within the page. The bits above are the page's number. */
export const PAGE_BITS = 15;
export const WITHIN = 2 ** PAGE_BITS - 1;

/** The most keys of a page, which is split beyond. So many keys never need more rows than `PAGE_BITS` can number. */
const MAX_KEYS_PER_PAGE = 21_000;

/**
 * The load at which a page is rebuilt, and the load of a new page. Both vary a little by page, so that equally growing pages are not all
 * rebuilt at once. A page with few keys gets more room.
 */
const MAX_LOAD = 7 / 8;
const NEW_LOAD = 0.65;
const LOAD_SPREAD = 0.1;
const GOLDEN = (Math.sqrt(5) - 1) / 2;
const FEW = 1000;
const FEW_FULL = 1 / 2;
const LEAST_ROWS = 16;

/** A row's record: the key's fingerprint (4 integers), and the time until which the key is denied. */
const RECORD = 5;
const DENIED = 4;

/** The sign bit of an integer. Vacant records have it set, fingerprints never do. */
const VACANT_BIT = 1 << 31;

/**
 * The part of a table's keys whose fingerprints begin with an integer that ends with the same bits. A page is a hash table with open addressing
 * and linear probing (Knuth, The Art of Computer Programming 3, 6.4, algorithms L and R). The second integer of a key's fingerprint determines
 * the key's home, and the key is there or a few rows behind. A search thus waits for one line of memory, and fetches the key's state meanwhile.
 *
 * Rows are numbered from 1. Row 0 stays empty, and represents a key without state.
 */
export class MemoryPage {
  /** The page's number, and the common bits of the page's keys. */
  readonly id: number;
  readonly depth: number;
  readonly ending: number;
  readonly rows: number;
  /** A column for each of the table's policies, in order, created at the first use. */
  readonly columns: (MemoryColumn | undefined)[] = [];
  /** The columns of each selection of policies, which must not outlive the page. */
  readonly selections: (readonly MemoryColumn[] | undefined)[] = [];
  bans = new BanColumn();
  /** A sink for the values that the prefetch reads. Without it, V8 would remove the read. */
  fetched = 0;
  readonly #records: Int32Array;
  readonly #most: number;
  #size = 0;

  constructor(id: number, depth: number, ending: number, keys: number) {
    this.id = id;
    this.depth = depth;
    this.ending = ending;
    const full = keys < FEW ? FEW_FULL : NEW_LOAD + LOAD_SPREAD * ((id * GOLDEN) % 1);
    this.rows = Math.min(WITHIN, Math.max(LEAST_ROWS, Math.ceil(keys / full)));
    this.#records = new Int32Array(RECORD * (this.rows + 1)).fill(VACANT);
    this.#most = Math.floor(MAX_LOAD * this.rows);
  }

  get size(): number {
    return this.#size;
  }

  /** Whether the page must be rebuilt or split before a key can be added. */
  get isFull(): boolean {
    return this.#size === this.#most;
  }

  get isLarge(): boolean {
    return this.#size >= MAX_KEYS_PER_PAGE;
  }

  /**
   * The row of the key whose fingerprint was taken last, or 0.
   *
   * @param selection the selection whose state the caller will read
   */
  find(selection: number): number {
    const records = this.#records;
    let row = this.#home(fingerprint[1]!);
    this.#fetch(row, selection);
    for (;;) {
      const at = row * RECORD;
      if (hasFingerprint(records, at)) return row;
      if (records[at] === VACANT) return 0;
      row = this.#after(row);
    }
  }

  /** Gives an empty row to the key whose fingerprint was taken last. The page must not be full. */
  add(): number {
    const row = this.#vacancy(fingerprint[1]!);
    this.#records.set(fingerprint, row * RECORD);
    this.#records[row * RECORD + DENIED] = 0;
    this.#size++;
    return row;
  }

  /** Forgets a row. The keys behind the row move up, so that searches still find those keys. */
  remove(row: number): void {
    const records = this.#records;
    let hole = row;
    for (let next = this.#after(hole); records[next * RECORD] !== VACANT; next = this.#after(next)) {
      const home = this.#home(records[next * RECORD + 1]!);
      // A key whose home is behind the hole may stay, because a search for it does not pass the hole.
      if (hole < next ? hole < home && home <= next : hole < home || home <= next) continue;
      this.#take(this, next, hole);
      hole = next;
    }
    for (const column of this.columns) column?.clear(hole);
    this.bans.clear(hole);
    records[hole * RECORD] = VACANT;
    this.#size--;
  }

  /** A new page with the keys whose hash ends with these `depth` bits, and with room for more. */
  part(id: number, depth: number, ending: number): MemoryPage {
    const records = this.#records;
    // A vacant record has a bit that no hash has.
    const mask = (1 << depth) - 1 + VACANT_BIT;
    let keys = 0;
    for (let at = RECORD; at < records.length; at += RECORD) if ((records[at]! & mask) === ending) keys++;
    const part = new MemoryPage(id, depth, ending, keys + 1);
    for (const [i, column] of this.columns.entries()) part.columns[i] = column?.sibling(part.rows);
    part.bans = new BanColumn(this.bans);
    for (let row = 1; row <= this.rows; row++) {
      const at = row * RECORD;
      if ((records[at]! & mask) === ending) part.#take(this, row, part.#vacancy(records[at + 1]!));
    }
    part.#size = keys;
    return part;
  }

  /** Forgets policies and selections that no longer have state. */
  free({ policies, selections }: Freed): void {
    for (const number of selections) this.selections[number] = undefined;
    for (const number of policies) this.columns[number] = undefined;
  }

  isVacant(row: number): boolean {
    return this.#records[row * RECORD] === VACANT;
  }

  /** The time until which a row is denied, in the unit of `deny`: 0 to 2^32 - 1. */
  deniedUntil(row: number): number {
    return this.#records[row * RECORD + DENIED]! >>> 0;
  }

  deny(row: number, until: number): void {
    this.#records[row * RECORD + DENIED] = until;
  }

  until(row: number): number {
    let until = this.bans.until(row);
    for (let i = 0; i < this.columns.length; i++) {
      const column = this.columns[i];
      if (column) until = Math.max(until, column.until(row));
    }
    return until;
  }

  /** The row of a key if the page had no other keys. */
  #home(hash: number): number {
    return ((hash * this.rows * 2 ** -31) | 0) + 1;
  }

  #after(row: number): number {
    return row === this.rows ? 1 : row + 1;
  }

  #vacancy(hash: number): number {
    let row = this.#home(hash);
    while (this.#records[row * RECORD] !== VACANT) row = this.#after(row);
    return row;
  }

  #fetch(row: number, selection: number): void {
    const columns = this.selections[selection];
    if (columns) for (let i = 0; i < columns.length; i++) this.fetched = columns[i]!.fetch(row);
  }

  /** Copies a row from a page with the same columns. */
  #take(from: MemoryPage, theirs: number, ours: number): void {
    for (let i = 0; i < RECORD; i++) this.#records[ours * RECORD + i] = from.#records[theirs * RECORD + i]!;
    for (let i = 0; i < this.columns.length; i++) this.columns[i]?.take(from.columns[i]!, theirs, ours);
    this.bans.take(from.bans, theirs, ours);
  }
}
