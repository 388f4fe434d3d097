import { BanColumn } from '../algorithms/ban.js';
import type { Column } from '../algorithms/index.js';
import type { CompiledBan } from '../ban.js';
import { fingerprint, hasFingerprint, VACANT } from './fingerprint.js';
import type { Freed } from './selections.js';

/** Of a slot's number, those above these bits tell the page, and these the slot within it. */
export const PAGE_BITS = 15;
export const WITHIN = 2 ** PAGE_BITS - 1;

/** A page of more keys is split. With room for these it has no more slots than `PAGE_BITS` can tell apart. */
const MOST_KEYS = 21_000;

/**
 * How full a page may become, and how full it is made: each a little differently, so that pages which grow alike are not all made
 * anew at the same time. Few keys have more room.
 */
const FULLEST = 7 / 8;
const FULL = 0.65;
const SPREAD = 0.1;
const GOLDEN = (Math.sqrt(5) - 1) / 2;
const FEW = 1000;
const FEW_FULL = 1 / 2;
const LEAST_SLOTS = 16;

/** A slot's record: the key's fingerprint (4), until when it is denied. */
const RECORD = 5;
const DENIED = 4;

/** The sign of an integer: set in what is vacant, in no fingerprint. */
const VACANT_BIT = 1 << 31;

/**
 * A part of a table's keys, those whose fingerprint's first integer ends with the same bits: open addressing with linear probing
 * (Knuth, The Art of Computer Programming 3, 6.4, algorithms L and R). A key is found where its fingerprint's second integer
 * says, or a few slots behind: one line of memory to wait for, and its state is fetched meanwhile.
 *
 * Slots are numbered from 1. Slot 0 stays empty: to look at it is to look at no state.
 */
export class Page {
  /** Its number, and the bits that its keys have in common. */
  readonly id: number;
  readonly depth: number;
  readonly ending: number;
  readonly slots: number;
  /** In the order of the table's policies; absent until it is used. */
  readonly columns: (Column | undefined)[] = [];
  /** Those of the table's selections of policies; here, as they must not outlive the page. */
  readonly selections: (readonly Column[] | undefined)[] = [];
  readonly bans = new BanColumn();
  /** What was fetched ahead: nobody reads it, but V8 would leave out what is not kept. */
  fetched = 0;
  readonly #records: Int32Array;
  readonly #most: number;
  #size = 0;

  constructor(id: number, depth: number, ending: number, keys: number) {
    this.id = id;
    this.depth = depth;
    this.ending = ending;
    const full = keys < FEW ? FEW_FULL : FULL + SPREAD * ((id * GOLDEN) % 1);
    this.slots = Math.min(WITHIN, Math.max(LEAST_SLOTS, Math.ceil(keys / full)));
    this.#records = new Int32Array(RECORD * (this.slots + 1)).fill(VACANT);
    this.#most = Math.floor(FULLEST * this.slots);
  }

  /** Keys that have a slot. */
  get size(): number {
    return this.#size;
  }

  /** Whether it must be made anew, or split, before it takes another key. */
  get isFull(): boolean {
    return this.#size === this.#most;
  }

  get isLarge(): boolean {
    return this.#size >= MOST_KEYS;
  }

  /**
   * The slot of the key whose fingerprint was taken last, or 0.
   *
   * @param selection whose state will be looked at
   */
  find(selection: number): number {
    const records = this.#records;
    let slot = this.#home(fingerprint[1]!);
    this.#fetch(slot, selection);
    for (;;) {
      const at = slot * RECORD;
      if (hasFingerprint(records, at)) return slot;
      if (records[at] === VACANT) return 0;
      slot = this.#after(slot);
    }
  }

  /** A slot, without state, for the key whose fingerprint was taken last. The page must not be full. */
  add(): number {
    const slot = this.#vacancy(fingerprint[1]!);
    this.#records.set(fingerprint, slot * RECORD);
    this.#records[slot * RECORD + DENIED] = 0;
    this.#size++;
    return slot;
  }

  /** Forgets a slot. Those behind it move up, so that they are still found. */
  remove(slot: number): void {
    const records = this.#records;
    let hole = slot;
    for (let next = this.#after(hole); records[next * RECORD] !== VACANT; next = this.#after(next)) {
      const home = this.#home(records[next * RECORD + 1]!);
      // Whose home lies between the hole, itself left out, and the slot is found without passing the hole.
      if (hole < next ? hole < home && home <= next : hole < home || home <= next) continue;
      this.#take(this, next, hole);
      hole = next;
    }
    for (const column of this.columns) column?.clear(hole);
    this.bans.clear(hole);
    records[hole * RECORD] = VACANT;
    this.#size--;
  }

  /** A page of those keys whose hash has this ending of so many bits, with room for more of them. */
  part(id: number, depth: number, ending: number): Page {
    const records = this.#records;
    // What is vacant has a bit that no hash has.
    const mask = (1 << depth) - 1 + VACANT_BIT;
    let keys = 0;
    for (let at = RECORD; at < records.length; at += RECORD) if ((records[at]! & mask) === ending) keys++;
    const part = new Page(id, depth, ending, keys + 1);
    for (const [i, column] of this.columns.entries()) part.columns[i] = column?.sibling(part.slots);
    for (let slot = 1; slot <= this.slots; slot++) {
      const at = slot * RECORD;
      if ((records[at]! & mask) === ending) part.#take(this, slot, part.#vacancy(records[at + 1]!));
    }
    part.#size = keys;
    return part;
  }

  /** Forgets policies and selections that have no state any more. */
  free({ policies, selections }: Freed): void {
    for (const number of selections) this.selections[number] = undefined;
    for (const number of policies) this.columns[number] = undefined;
  }

  isVacant(slot: number): boolean {
    return this.#records[slot * RECORD] === VACANT;
  }

  /** Until when a slot is denied, in whatever measure it was said: 0 to 2^32 - 1. */
  deniedUntil(slot: number): number {
    return this.#records[slot * RECORD + DENIED]! >>> 0;
  }

  deny(slot: number, until: number): void {
    this.#records[slot * RECORD + DENIED] = until;
  }

  /** When a slot is as good as new. @param ban how the table's limiters ban, if they do */
  until(slot: number, ban: CompiledBan | undefined): number {
    let until = ban ? this.bans.until(slot, ban) : 0;
    for (let i = 0; i < this.columns.length; i++) {
      const column = this.columns[i];
      if (column) until = Math.max(until, column.until(slot));
    }
    return until;
  }

  /** Where a key is, if no other was there before it. */
  #home(hash: number): number {
    return ((hash * this.slots * 2 ** -31) | 0) + 1;
  }

  #after(slot: number): number {
    return slot === this.slots ? 1 : slot + 1;
  }

  #vacancy(hash: number): number {
    let slot = this.#home(hash);
    while (this.#records[slot * RECORD] !== VACANT) slot = this.#after(slot);
    return slot;
  }

  #fetch(slot: number, selection: number): void {
    const columns = this.selections[selection];
    if (columns) for (let i = 0; i < columns.length; i++) this.fetched = columns[i]!.fetch(slot);
  }

  /** Copies a slot from a page that has the same columns. */
  #take(from: Page, theirs: number, ours: number): void {
    for (let i = 0; i < RECORD; i++) this.#records[ours * RECORD + i] = from.#records[theirs * RECORD + i]!;
    for (let i = 0; i < this.columns.length; i++) this.columns[i]?.take(from.columns[i]!, theirs, ours);
    this.bans.take(from.bans, theirs, ours);
  }
}
