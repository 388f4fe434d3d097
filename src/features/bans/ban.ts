import type { CompiledBan } from './contract/ban-options.js';
import { areNumbers, type Saved } from '../../algorithms/algorithm.js';

/** The ranks of banned keys are above those of denied keys, which are times. */
const RANK_OF_BANS = 2 ** 44;

/** The least rank of a key banned by hand: see `rank`. */
export const RANK_BY_HAND = 2 * RANK_OF_BANS;

type Six = readonly [number, number, number, number, number, number];

interface BanState {
  denials: number;
  /** The end of the window in which the denials count. */
  counted: number;
  /** The end of the current ban, and its length. */
  banned: number;
  length: number;
  byHand: boolean;
  /** The length of the last ban by denials, from which the next one grows. */
  last: number;
}

/** Bans in the memory store, kept only for banned rows. `ban.lua` has the same functions. */
export class BanColumn {
  readonly #states = new Map<number, BanState>();
  /** The options that were used last, of all columns of a table. */
  readonly #used: { options: CompiledBan | undefined };

  /** @param of another column of the table */
  constructor(of?: BanColumn) {
    this.#used = of ? of.#used : { options: undefined };
  }

  /** Passes the options of a decision, if there are any. */
  use(options: CompiledBan | undefined): void {
    if (options) this.#used.options = options;
  }

  #read(row: number, p: CompiledBan, now: number, writable: boolean): BanState {
    const stored = this.#states.get(row);
    if (!stored) return { denials: 0, counted: 0, banned: 0, length: 0, byHand: false, last: 0 };
    const state = { ...stored };
    // After a clock that went back, or under a shorter span, a ban must not grow.
    state.counted = Math.min(state.counted, now + p.within);
    state.banned = Math.min(state.banned, now + state.length);
    if (writable) [stored.counted, stored.banned] = [state.counted, state.banned];
    if (state.counted <= now) state.denials = state.counted = 0;
    if (state.banned + p.max <= now) state.last = 0;
    return state;
  }

  /** The time at which the state expires. Earlier bans are remembered for `max` after the end of the last one. */
  #stop(state: BanState, p: CompiledBan): number {
    return Math.max(state.counted, state.banned + (state.last > 0 ? p.max : 0));
  }

  /** The time until the ban ends, ms, or 0. */
  look(row: number, p: CompiledBan, now: number, writable: boolean): number {
    return Math.max(0, this.#read(row, p, now, writable).banned - now);
  }

  /** Counts a denial. @returns the length of the ban that begins with the denial, ms, or 0 */
  strike(row: number, p: CompiledBan, now: number): number {
    if (p.after === 0) return 0;
    const state = this.#read(row, p, now, true);
    if (state.counted === 0) state.counted = now + p.within;
    state.denials++;
    let length = 0;
    if (state.denials >= p.after) {
      length = state.last === 0 ? p.first : Math.min(p.max, Math.floor((state.last * p.factor) / 1000));
      const banned = now + length;
      Object.assign(state, { denials: 0, counted: 0, banned, length, byHand: false, last: length });
    }
    this.#states.set(row, state);
    return length;
  }

  /**
   * Sets a ban of `length` ms by hand. The growth of bans by denials is kept. A length of 0 forgives all denials and bans, and a length below
   * 0 only ends the ban.
   */
  set(row: number, p: CompiledBan, now: number, length: number): void {
    const state = this.#read(row, p, now, true);
    const rest = Math.max(0, length);
    const changed = { ...state, banned: now + rest, length: rest, byHand: rest > 0 };
    if (length === 0 || this.#stop(changed, p) <= now) this.#states.delete(row);
    else this.#states.set(row, changed);
  }

  /** The end of a row's last ban, or 0 for a row without a ban. */
  end(row: number): number {
    return this.#states.get(row)?.banned ?? 0;
  }

  /**
   * The rank of a row in the order in which a ban by hand evicts keys: denied keys come before keys banned by denials, and these before keys
   * banned by hand. Of each kind, the key that is free soonest comes first.
   *
   * @param deniedUntil the time until which the policies deny the row
   */
  rank(row: number, deniedUntil: number, now: number): number {
    const state = this.#states.get(row);
    if (!state || state.banned <= now) return deniedUntil;
    return (state.byHand ? RANK_BY_HAND : RANK_OF_BANS) + state.banned;
  }

  /** The time at which a row's whole state has expired, or 0. */
  until(row: number, p = this.#used.options): number {
    const state = p && this.#states.get(row);
    return state ? this.#stop(state, p) : 0;
  }

  /** A row's state, as in `Column`; `[]` if there is no state. */
  save(row: number): Saved {
    const state = this.#states.get(row);
    if (!state) return [];
    const { denials, counted, banned, length, byHand, last } = state;
    return [denials, counted, banned, length, byHand ? 1 : 0, last];
  }

  load(row: number, saved: Saved): void {
    if (saved.length !== 6 || !areNumbers(saved)) return;
    const [denials, counted, banned, length, byHand, last] = saved as Six;
    this.#states.set(row, { denials, counted, banned, length, byHand: byHand === 1, last });
  }

  clear(row: number): void {
    this.#states.delete(row);
  }

  /** Copies a row from another column, or from another of its own rows. */
  take(from: BanColumn, theirs: number, ours: number): void {
    if (from.#states.size === 0) return;
    const state = from.#states.get(theirs);
    if (state) this.#states.set(ours, state);
    else this.#states.delete(ours);
  }
}
