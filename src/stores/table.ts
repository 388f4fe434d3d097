import { algorithms, type Column } from '../algorithms/index.js';
import type { CompiledBan } from '../ban.js';
import type { CompiledPolicy } from '../policy.js';
import { fingerprint, takeFingerprint } from './fingerprint.js';
import { Page, PAGE_BITS, WITHIN } from './page.js';
import { Resets } from './resets.js';

/** How many slots a new key looks at, to find some that are as good as new. */
const SWEPT = 2;
/** At the cap, how many keys it may look at to find one that is as good as new ... */
const LOOKS = 16;
/** ... and how many until one is found that is neither denied nor banned. Bounds the pause. */
const MOST_LOOKS = 64;

/**
 * The state of all limiters of one name: a slot a key, in pages, a column a policy. A slot's number tells its page, and is good
 * until the next key is created.
 *
 * The table grows by pages (extendible hashing, Fagin et al. 1979): one that is full is made anew with more room, or split in two.
 * No key ever waits for all of them to move.
 */
export class Table {
  readonly #maxKeys: number;
  readonly #pages: Page[];
  /** The page of each ending of the keys' hashes: a power of two of them. */
  #directory: Page[];
  readonly #policies: CompiledPolicy[] = [];
  /** Lists of policies that decide together, by their numbers. */
  readonly #selections: (readonly number[])[] = [];
  readonly resets = new Resets();
  /** How its limiters ban, if they do. */
  ban: CompiledBan | undefined;
  /** Denials are remembered to the second, from here on: half of what 32 bits reach lies before it. */
  readonly #epoch: number;
  #size = 0;
  /** The slot that was looked at last, to find one that is as good as new. */
  #handPage = 0;
  #hand = 0;
  /** Who came last often comes next. */
  #lastKey: string | undefined;
  #lastSlot = 0;

  constructor(maxKeys: number, now: number) {
    this.#maxKeys = maxKeys;
    this.#epoch = now - 2 ** 31 * 1000;
    this.#pages = [new Page(0, 0, 0, 0)];
    this.#directory = [...this.#pages];
  }

  /** Keys that have a slot. */
  get size(): number {
    return this.#size;
  }

  /** The number of a selection: of policies that decide together. */
  select(policies: readonly CompiledPolicy[]): number {
    const numbers = policies.map((policy) => this.#numberOf(policy));
    const known = this.#selections.findIndex((selection) => String(selection) === String(numbers));
    return known >= 0 ? known : this.#selections.push(numbers) - 1;
  }

  #numberOf(policy: CompiledPolicy): number {
    const known = this.#policies.findIndex(({ id }) => id === policy.id);
    return known >= 0 ? known : this.#policies.push(policy) - 1;
  }

  /** A slot's page; the slot's number there is `slot & WITHIN`. */
  pageOf(slot: number): Page {
    return this.#pages[slot >> PAGE_BITS]!;
  }

  /** The columns of a selection that have a slot, `slot & WITHIN` in each. */
  columns(slot: number, selection: number): readonly Column[] {
    const page = this.pageOf(slot);
    return (page.selections[selection] ??= this.#selections[selection]!.map((policy) => {
      const { kernel, params } = this.#policies[policy]!;
      return (page.columns[policy] ??= algorithms[kernel].createColumn(page.slots, params));
    }));
  }

  /** A key's slot, or 0. @param selection whose state will be looked at */
  find(key: string, selection: number): number {
    if (key === this.#lastKey) return this.#lastSlot;
    takeFingerprint(key);
    const page = this.#current();
    const slot = page.find(selection);
    if (slot === 0) return 0;
    this.#lastKey = key;
    return (this.#lastSlot = (page.id << PAGE_BITS) + slot);
  }

  /** A slot for the key that was not found just now; 0 if all that could make room are denied or banned. */
  create(now: number): number {
    // Look at a few old slots for each new one: what has expired is found without a timer.
    if (this.#size < this.#maxKeys) this.#sweep(now);
    else if (!this.#makeRoom(now)) return 0;
    let page = this.#current();
    while (page.isFull) {
      this.#extend(page);
      page = this.#current();
    }
    this.#size++;
    return (page.id << PAGE_BITS) + page.add();
  }

  /**
   * Remembers until when a slot is denied (ms; 0: it is not): so long it is not evicted.
   *
   * @param policies how many policies say so; if there are others (tiers), what they said stays
   */
  deny(slot: number, policies: number, until: number): void {
    const page = this.pageOf(slot);
    const known = page.deniedUntil(slot & WITHIN);
    if (until === 0 && known === 0) return;
    const seconds = until === 0 ? 0 : Math.max(0, Math.ceil((until - this.#epoch) / 1000));
    if (policies === this.#policies.length || seconds > known) page.deny(slot & WITHIN, seconds);
  }

  /** The page of the key whose fingerprint was taken last. */
  #current(): Page {
    return this.#directory[fingerprint[0]! & (this.#directory.length - 1)]!;
  }

  /** Makes room for more keys of a page. */
  #extend(page: Page): void {
    const { id, depth, ending } = page;
    this.#lastKey = undefined;
    if (!page.isLarge) {
      this.#put(page.part(id, depth, ending));
      return;
    }
    const bit = 2 ** depth;
    if (bit === this.#directory.length) this.#directory = [...this.#directory, ...this.#directory];
    this.#put(page.part(id, depth + 1, ending));
    this.#put(page.part(this.#pages.length, depth + 1, ending + bit));
  }

  #put(page: Page): void {
    this.#pages[page.id] = page;
    for (let i = page.ending; i < this.#directory.length; i += 2 ** page.depth) this.#directory[i] = page;
  }

  /** Frees those of the next slots that are as good as new. */
  #sweep(now: number): void {
    for (let i = 0; i < SWEPT; i++) {
      const slot = this.#next();
      const page = this.pageOf(slot);
      const within = slot & WITHIN;
      if (!page.isVacant(within) && page.until(within, this.ban) <= now) this.#remove(slot);
    }
  }

  /**
   * Frees a slot that is as good as new, or else one that is not denied: of those seen, the one that would be new soonest. False if
   * there is none.
   */
  #makeRoom(now: number): boolean {
    const seconds = Math.floor((now - this.#epoch) / 1000);
    let victim = 0;
    let soonest = Infinity;
    for (let looks = 1; looks <= MOST_LOOKS && !(looks > LOOKS && victim !== 0); looks++) {
      const slot = this.#nextKey();
      const page = this.pageOf(slot);
      const within = slot & WITHIN;
      const until = page.until(within, this.ban);
      if (until <= now) {
        victim = slot;
        break;
      }
      const held = page.deniedUntil(within) > seconds || page.bans.end(within) > now;
      if (!held && until < soonest) {
        victim = slot;
        soonest = until;
      }
    }
    if (victim !== 0) this.#remove(victim);
    return victim !== 0;
  }

  #next(): number {
    if (++this.#hand > this.#pages[this.#handPage]!.slots) {
      this.#hand = 1;
      this.#handPage = (this.#handPage + 1) % this.#pages.length;
    }
    return (this.#handPage << PAGE_BITS) + this.#hand;
  }

  /** Of the slots that have a key. There is one. */
  #nextKey(): number {
    let slot = this.#next();
    while (this.pageOf(slot).isVacant(slot & WITHIN)) slot = this.#next();
    return slot;
  }

  #remove(slot: number): void {
    this.#lastKey = undefined;
    this.pageOf(slot).remove(slot & WITHIN);
    this.#size--;
  }
}
