import { algorithms, type Column } from '../../algorithms/index.js';
import type { CompiledBan } from '../../algorithms/ban.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { Warn } from '../../common/warnings.js';
import { fingerprint, takeFingerprint } from '../fingerprint.js';
import { Page, PAGE_BITS, WITHIN } from './page.js';
import { Returns } from '../state/returns.js';
import { Selections, type Selection } from './selections.js';

/** How many slots the creation of a key looks at, to free those that are as good as new. */
const SWEPT = 2;
/** At the cap, how many keys the creation may look at to find one that is as good as new ... */
const LOOKS = 16;
/** ... and how many until one is found that is neither denied nor banned. Bounds the pause. */
const MOST_LOOKS = 64;
/** How many keys a ban by hand compares, if none of those made room. */
const LOOKS_FOR_BAN = 4096;

/** What a ban by hand evicts: the first of these kinds that it finds. */
const DENIED = 0;
const BANNED = 1;
const BANNED_BY_HAND = 2;

/**
 * The state of all limiters of one name. Each key has a slot, each policy a column, and the slots are divided into pages. A slot's
 * number tells its page. It is valid until the next key is created.
 *
 * The table grows by pages (extendible hashing, Fagin et al. 1979): a full page is rebuilt with more room, or split in two. No request
 * ever waits until all keys have moved.
 */
export class Table {
  readonly #maxKeys: number;
  readonly #pages: Page[];
  /** For each ending of a hash, the page of its keys. The length is a power of two. */
  #directory: Page[];
  readonly #selections: Selections;
  readonly returns = new Returns();
  /** How the limiters of this name ban, if they do. */
  ban: CompiledBan | undefined;
  /** Denials are remembered in seconds since this moment. It lies in the middle of what 32 bits reach. */
  readonly #epoch: number;
  #size = 0;
  /** The slot at which the search for slots as good as new has stopped. */
  #handPage = 0;
  #hand = 0;
  #unremembered = 0;
  /** When there was no room: of the keys that were looked at, the slot of the one that may be evicted first (0: none), and when. */
  #nextRoom = 0;
  #nextRoomAt = 0;
  /** The key that came last often comes next. */
  #lastKey: string | undefined;
  #lastSlot = 0;

  readonly #warn: Warn;

  constructor(maxKeys: number, now: number, warn: Warn) {
    this.#maxKeys = maxKeys;
    this.#warn = warn;
    this.#selections = new Selections(warn);
    this.#epoch = now - 2 ** 31 * 1000;
    this.#pages = [new Page(0, 0, 0, 0)];
    this.#directory = [...this.#pages];
  }

  /** Keys that have a slot. */
  get size(): number {
    return this.#size;
  }

  /** How often there was no room for a new key. */
  get unremembered(): number {
    return this.#unremembered;
  }

  /**
   * The selection for policies that decide together.
   *
   * @param onFreed is called if other selections gave way, which must not be used any more
   */
  select(policies: readonly CompiledPolicy[], now: number, onFreed: () => void): Selection {
    return this.#selections.select(policies, now, (freed) => {
      for (const page of this.#pages) page.free(freed);
      onFreed();
    });
  }

  /** A slot's page; the slot's number there is `slot & WITHIN`. */
  pageOf(slot: number): Page {
    return this.#pages[slot >> PAGE_BITS]!;
  }

  /** The columns of a selection that have a slot, `slot & WITHIN` in each. */
  columns(slot: number, { number, policies }: Selection): readonly Column[] {
    const page = this.pageOf(slot);
    return (page.selections[number] ??= policies.map(
      ({ number, policy: { kernel, params } }) =>
        (page.columns[number] ??= algorithms[kernel].createColumn(page.slots, params)),
    ));
  }

  /** A key's slot, or 0. @param selection the number of the selection whose state will be looked at */
  find(key: string, selection: number): number {
    if (key === this.#lastKey) return this.#lastSlot;
    takeFingerprint(key);
    const page = this.#current();
    const slot = page.find(selection);
    if (slot === 0) return 0;
    this.#lastKey = key;
    return (this.#lastSlot = (page.id << PAGE_BITS) + slot);
  }

  /**
   * Gives a slot to the key that was not found just now. Returns 0 if all keys that could make room are denied or banned.
   *
   * @param byHand the key will be banned by hand: then a denied or banned key gives way
   */
  create(now: number, byHand = false): number {
    // A few old slots are looked at for each new one, so that expired keys are found without a timer.
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

  /** After `create` found no room: the time until there is room for one key, at least a second. */
  roomIn(now: number): number {
    return Math.max(1000, this.#nextRoomAt - now);
  }

  /**
   * Remembers until when a slot is denied (ms; 0: it is not), so that its key is not evicted before. An earlier denial that lasts longer
   * stays: it may be of another cost, or of another tier's policies.
   */
  deny(slot: number, until: number): void {
    if (until === 0) return;
    const page = this.pageOf(slot);
    const seconds = Math.max(0, Math.ceil((until - this.#epoch) / 1000));
    if (seconds > page.deniedUntil(slot & WITHIN)) page.deny(slot & WITHIN, seconds);
  }

  /** The page of the key whose fingerprint was taken last. */
  #current(): Page {
    return this.#directory[fingerprint[0]! & (this.#directory.length - 1)]!;
  }

  /** Makes room for more keys of a page. */
  #extend(page: Page): void {
    const { id, depth, ending } = page;
    this.#forgetSlots();
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

  /** Frees the next slots if they are as good as new. */
  #sweep(now: number): void {
    for (let i = 0; i < SWEPT; i++) {
      const slot = this.#next();
      const page = this.pageOf(slot);
      const within = slot & WITHIN;
      if (!page.isVacant(within) && page.until(within, this.ban) <= now) this.#remove(slot);
    }
  }

  /**
   * Finds a slot that is as good as new. If there is none, the slot of a key that is not denied: of those seen, the one that would be as
   * good as new soonest. Returns 0 if there is none either.
   */
  #findRoom(now: number): number {
    let victim = 0;
    let soonest = Infinity;
    let nextRoom = 0;
    let nextRoomAt = Infinity;
    for (let looks = 0; looks <= MOST_LOOKS && !(looks > LOOKS && victim !== 0); looks++) {
      // The slot that was promised when there was no room comes first.
      const slot = looks === 0 ? this.#nextRoom : this.#nextKey();
      if (slot === 0) continue;
      const page = this.pageOf(slot);
      const within = slot & WITHIN;
      const until = page.until(within, this.ban);
      if (until <= now) return slot;
      const heldUntil = Math.max(this.#deniedUntil(page, within), page.bans.end(within));
      if (heldUntil <= now) {
        if (until >= soonest) continue;
        victim = slot;
        soonest = until;
      } else if (Math.min(until, heldUntil) < nextRoomAt) {
        nextRoom = slot;
        nextRoomAt = Math.min(until, heldUntil);
      }
    }
    this.#nextRoom = nextRoom;
    this.#nextRoomAt = nextRoomAt;
    return victim;
  }

  /**
   * Finds the key that a ban by hand evicts, among the next keys, or among all if they are few. It takes a denied key, else a banned
   * one, and of these the one that is free soonest. The search goes on until it has found a key that is not banned by hand itself.
   */
  #findForBan(now: number): number {
    let victim = 0;
    let kind = BANNED_BY_HAND;
    let soonest = Infinity;
    for (let looks = 0; looks < this.#size && (looks < LOOKS_FOR_BAN || kind === BANNED_BY_HAND); looks++) {
      const slot = this.#nextKey();
      const page = this.pageOf(slot);
      const within = slot & WITHIN;
      const end = page.bans.end(within);
      const its = end <= now ? DENIED : page.bans.isByHand(within) ? BANNED_BY_HAND : BANNED;
      const until = its === DENIED ? this.#deniedUntil(page, within) : end;
      if (its < kind || (its === kind && until < soonest)) {
        victim = slot;
        kind = its;
        soonest = until;
      }
    }
    return victim;
  }

  /** In ms. */
  #deniedUntil(page: Page, within: number): number {
    return this.#epoch + page.deniedUntil(within) * 1000;
  }

  #next(): number {
    if (++this.#hand > this.#pages[this.#handPage]!.slots) {
      this.#hand = 1;
      this.#handPage = (this.#handPage + 1) % this.#pages.length;
    }
    return (this.#handPage << PAGE_BITS) + this.#hand;
  }

  /** The next slot that has a key. There must be one. */
  #nextKey(): number {
    let slot = this.#next();
    while (this.pageOf(slot).isVacant(slot & WITHIN)) slot = this.#next();
    return slot;
  }

  #remove(slot: number): void {
    this.#forgetSlots();
    this.pageOf(slot).remove(slot & WITHIN);
    this.#size--;
  }

  /** Forgets remembered slots, because keys have moved or will move. */
  #forgetSlots(): void {
    this.#lastKey = undefined;
    this.#nextRoom = 0;
  }
}

function warnFull(warn: Warn, maxKeys: number): void {
  warn(
    'HEADGATE_STORE_FULL',
    `A memory store has no room for a new key: those that it keeps (maxKeys: ${maxKeys}) are denied or banned. ` +
      'What it does then is its option `onFull`.',
  );
}
