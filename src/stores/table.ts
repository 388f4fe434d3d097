import { BanColumn } from '../algorithms/ban.js';
import { resized } from '../algorithms/algorithm.js';
import { algorithms, type Column } from '../algorithms/index.js';
import type { CompiledBan } from '../ban.js';
import type { CompiledPolicy } from '../policy.js';
import { fingerprint, hasFingerprint, takeFingerprint, VACANT } from './fingerprint.js';

/** Slots come in chunks, so that a growing table never moves what it holds. Only the first begins smaller. */
export const CHUNK_BITS = 15;
const CHUNK = 2 ** CHUNK_BITS;
const FIRST_SLOTS = 64;

/** A slot's number within its chunk. */
export const WITHIN = CHUNK - 1;

/** A slot's record: the key's fingerprint (4), the next slot of its bucket or of the free list, until when it is denied. */
const RECORD = 6;
const LINK = 4;
const DENIED = 5;

/** How many slots a new key may look at to find one that is as good as new ... */
const LOOKS = 16;
/** ... and how many until one is found that is neither denied nor banned. Bounds the pause. */
const MOST_LOOKS = 64;

interface Chunk {
  records: Int32Array;
  /** The first slot of each bucket: there are as many buckets as slots, but neither knows the other. */
  heads: Int32Array;
  /** In the order of the table's policies; absent until it is used. */
  readonly columns: (Column | undefined)[];
  slots: number;
}

/**
 * The state of all limiters of one name: a slot a key, a column a policy. Slot 0 of each chunk stays empty: to look at it is to
 * look at no state.
 *
 * Keys are found by linear hashing (Litwin 1980): with each slot that is used for the first time, one bucket is split in two.
 * The table grows by a step a key, and no key ever waits for all of them to move.
 */
export class Table {
  readonly #maxKeys: number;
  readonly #chunks: Chunk[] = [];
  readonly #policies: CompiledPolicy[] = [];
  readonly bans = new BanColumn();
  /** How its limiters ban, if they do. */
  ban: CompiledBan | undefined;
  /** Denials are remembered to the second, from here on: half of what 32 bits reach lies before it. */
  readonly #epoch: number;
  /** Slots from here on have never been used. As many buckets exist. */
  #fresh = 0;
  /** Covers the buckets. */
  #mask = 0;
  #vacant = 0;
  #hand = 0;
  #size = 0;
  /** Who came last often comes next. */
  #lastKey: string | undefined;
  #lastSlot = 0;

  constructor(maxKeys: number, now: number) {
    this.#maxKeys = maxKeys;
    this.#epoch = now - 2 ** 31 * 1000;
    this.#extend();
  }

  /** Keys that have a slot. */
  get size(): number {
    return this.#size;
  }

  /** The number of policies that have ever been asked for. */
  get policies(): number {
    return this.#policies.length;
  }

  /** The number of a policy. */
  register(policy: CompiledPolicy): number {
    const known = this.#policies.findIndex(({ id }) => id === policy.id);
    return known >= 0 ? known : this.#policies.push(policy) - 1;
  }

  /** The state of a policy, by its number, for the slots of a chunk. */
  column(chunk: number, policy: number): Column {
    const { columns, slots } = this.#chunks[chunk]!;
    let column = columns[policy];
    if (!column) {
      column = columns[policy] = algorithms[this.#policies[policy]!.kernel].createColumn();
      column.resize(slots);
    }
    return column;
  }

  /** A key's slot, or 0. */
  find(key: string): number {
    if (key === this.#lastKey) return this.#lastSlot;
    takeFingerprint(key);
    const bucket = this.#bucketOf(fingerprint[0]!);
    let slot = this.#chunks[bucket >> CHUNK_BITS]!.heads[bucket & WITHIN]!;
    while (slot !== 0) {
      const { records } = this.#chunks[slot >> CHUNK_BITS]!;
      const at = (slot & WITHIN) * RECORD;
      if (hasFingerprint(records, at)) {
        this.#lastKey = key;
        this.#lastSlot = slot;
        return slot;
      }
      slot = records[at + LINK]!;
    }
    return 0;
  }

  /** A slot for the key that was not found just now; 0 if all that could make room are denied or banned. */
  create(now: number): number {
    let slot = this.#vacant;
    if (slot === 0) {
      // Look at a few old slots for each new one: what has expired is found without a timer.
      const full = this.#size >= this.#maxKeys;
      if (full) this.#makeRoom(now);
      else this.#sweep(now);
      slot = this.#vacant || (full ? 0 : this.#extend());
      if (slot === 0) return 0;
    }
    const { records } = this.#chunks[slot >> CHUNK_BITS]!;
    const at = (slot & WITHIN) * RECORD;
    if (slot === this.#vacant) this.#vacant = records[at + LINK]!;
    records[at] = fingerprint[0]!;
    records[at + 1] = fingerprint[1]!;
    records[at + 2] = fingerprint[2]!;
    records[at + 3] = fingerprint[3]!;
    records[at + DENIED] = 0;
    this.#link(slot, fingerprint[0]!);
    this.#size++;
    return slot;
  }

  /**
   * Remembers until when a slot is denied (ms; 0: it is not): so long it is not evicted.
   *
   * @param policies how many policies say so; if there are others (tiers), what they said stays
   */
  deny(slot: number, policies: number, until: number): void {
    const { records } = this.#chunks[slot >> CHUNK_BITS]!;
    const at = (slot & WITHIN) * RECORD + DENIED;
    if (until !== 0 || records[at] !== 0) this.#note(records, at, policies, until);
  }

  /** Apart from `deny`, which is called for every decision and is small enough for V8 to inline. */
  #note(records: Int32Array, at: number, policies: number, until: number): void {
    const seconds = until === 0 ? 0 : Math.max(0, Math.ceil((until - this.#epoch) / 1000));
    if (policies === this.#policies.length || seconds > records[at]! >>> 0) records[at] = seconds;
  }

  #bucketOf(a: number): number {
    const bucket = a & this.#mask;
    return bucket < this.#fresh ? bucket : bucket & (this.#mask >> 1);
  }

  #link(slot: number, a: number): void {
    const bucket = this.#bucketOf(a);
    const { heads } = this.#chunks[bucket >> CHUNK_BITS]!;
    this.#chunks[slot >> CHUNK_BITS]!.records[(slot & WITHIN) * RECORD + LINK] = heads[bucket & WITHIN]!;
    heads[bucket & WITHIN] = slot;
  }

  /** Takes a slot into use that has never been, and splits a bucket. */
  #extend(): number {
    const slot = this.#fresh;
    const chunk = slot >> CHUNK_BITS;
    const within = slot & WITHIN;
    if (within === 0) this.#addChunk();
    else if (within === this.#chunks[chunk]!.slots) this.#growFirst();
    this.#fresh++;
    if (slot > this.#mask) this.#mask = 2 * this.#mask + 1;
    if (slot > 0) this.#split(slot);
    if (within > 0) return slot;
    this.#chunks[chunk]!.records[0] = VACANT;
    return slot === 0 ? 0 : this.#extend();
  }

  /** Moves from a bucket what belongs to the new one: those whose hash has the new one's leading bit. */
  #split(bucket: number): void {
    const leading = (this.#mask + 1) >> 1;
    const { heads } = this.#chunks[(bucket ^ leading) >> CHUNK_BITS]!;
    const from = (bucket ^ leading) & WITHIN;
    let slot = heads[from]!;
    heads[from] = 0;
    while (slot !== 0) {
      const { records } = this.#chunks[slot >> CHUNK_BITS]!;
      const at = (slot & WITHIN) * RECORD;
      const next = records[at + LINK]!;
      this.#link(slot, records[at]!);
      slot = next;
    }
  }

  #addChunk(): void {
    const slots = this.#chunks.length === 0 ? FIRST_SLOTS : CHUNK;
    this.#chunks.push({
      records: new Int32Array(RECORD * slots),
      heads: new Int32Array(slots),
      columns: [],
      slots,
    });
  }

  #growFirst(): void {
    const chunk = this.#chunks[0]!;
    chunk.slots *= 2;
    chunk.records = resized(chunk.records, RECORD * chunk.slots);
    chunk.heads = resized(chunk.heads, chunk.slots);
    for (const column of chunk.columns) column?.resize(chunk.slots);
  }

  /** Frees those of the next two slots that are as good as new. */
  #sweep(now: number): void {
    for (let i = Math.min(2, this.#fresh - 1); i > 0; i--) {
      const slot = this.#next();
      if (!this.#isVacant(slot) && this.#until(slot) <= now) this.#remove(slot);
    }
  }

  /** Frees a slot that is as good as new, or else one that is not denied: of those seen, the one that would be new soonest. */
  #makeRoom(now: number): void {
    const seconds = Math.floor((now - this.#epoch) / 1000);
    let victim = 0;
    let soonest = Infinity;
    for (let looks = 1; looks <= MOST_LOOKS && !(looks > LOOKS && victim !== 0); looks++) {
      const slot = this.#next();
      if (this.#isVacant(slot)) continue;
      const until = this.#until(slot);
      if (until <= now) return this.#remove(slot);
      const held = this.#deniedUntil(slot) > seconds || this.bans.end(slot) > now;
      if (!held && until < soonest) {
        victim = slot;
        soonest = until;
      }
    }
    if (victim !== 0) this.#remove(victim);
  }

  #next(): number {
    return (this.#hand = (this.#hand + 1) % this.#fresh);
  }

  #isVacant(slot: number): boolean {
    return this.#chunks[slot >> CHUNK_BITS]!.records[(slot & WITHIN) * RECORD] === VACANT;
  }

  #deniedUntil(slot: number): number {
    return this.#chunks[slot >> CHUNK_BITS]!.records[(slot & WITHIN) * RECORD + DENIED]! >>> 0;
  }

  /** When a slot is as good as new. */
  #until(slot: number): number {
    let until = this.ban ? this.bans.until(slot, this.ban) : 0;
    for (const column of this.#chunks[slot >> CHUNK_BITS]!.columns) {
      if (column) until = Math.max(until, column.until(slot & WITHIN));
    }
    return until;
  }

  #remove(slot: number): void {
    const { records, columns } = this.#chunks[slot >> CHUNK_BITS]!;
    const within = slot & WITHIN;
    const at = within * RECORD;
    this.#unlink(slot, records[at]!, records[at + LINK]!);
    for (const column of columns) column?.clear(within);
    this.bans.clear(slot);
    records[at] = VACANT;
    records[at + LINK] = this.#vacant;
    this.#vacant = slot;
    this.#size--;
    if (this.#lastSlot === slot) this.#lastKey = undefined;
  }

  #unlink(slot: number, a: number, next: number): void {
    const bucket = this.#bucketOf(a);
    let links = this.#chunks[bucket >> CHUNK_BITS]!.heads;
    let at = bucket & WITHIN;
    while (links[at] !== slot) {
      const before = links[at]!;
      links = this.#chunks[before >> CHUNK_BITS]!.records;
      at = (before & WITHIN) * RECORD + LINK;
    }
    links[at] = next;
  }
}
