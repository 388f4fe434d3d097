import { BANNED_BY_HAND, NOT_BANNED, type BanColumn } from './ban-column.js';

/** Keys that are compared after a search without success. */
const MAX_LOOKS = 4096;

/**
 * The search for the key that a ban by hand evicts, among the next keys, or in a small table among all keys. Denied keys come before banned
 * keys, and among equals the key that is free soonest. The search goes on until there is a key without a ban by hand.
 */
export class Eviction {
  /** The row to evict. */
  row = 0;
  readonly #size: number;
  readonly #now: number;
  #looks = 0;
  #kind: number = BANNED_BY_HAND;
  #soonest = Infinity;

  /** @param size the number of keys */
  constructor(size: number, now: number) {
    this.#size = size;
    this.#now = now;
  }

  get isOver(): boolean {
    return this.#looks >= this.#size || (this.#looks >= MAX_LOOKS && this.#kind !== BANNED_BY_HAND);
  }

  /** @param within the row in its page @param deniedUntil the time until which the policies deny the row */
  look(row: number, bans: BanColumn, within: number, deniedUntil: number): void {
    this.#looks++;
    const kind = bans.kind(within, this.#now);
    const until = kind === NOT_BANNED ? deniedUntil : bans.end(within);
    if (kind > this.#kind || (kind === this.#kind && until >= this.#soonest)) return;
    this.row = row;
    this.#kind = kind;
    this.#soonest = until;
  }
}
