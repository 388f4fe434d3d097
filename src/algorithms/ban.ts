import { areNumbers, type Saved } from './algorithm.js';

/** Integers that both stores receive, in the order in which `algorithms/ban.lua` reads them. */
export interface CompiledBan {
  /** Denials that start a ban. 0: denials never do. */
  readonly after: number;
  /** The time span in which denials are counted, ms. */
  readonly within: number;
  /** The length of the first ban, ms. */
  readonly first: number;
  /** How many times as long each further ban is, in thousandths: both stores then multiply integers. */
  readonly factor: number;
  /** The length of the longest ban, ms. */
  readonly max: number;
}

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

/** Bans in the memory store, kept only for slots that have one. `ban.lua` has the same functions. */
export class BanColumn {
  readonly #states = new Map<number, BanState>();

  #read(slot: number, p: CompiledBan, now: number, writable: boolean): BanState {
    const stored = this.#states.get(slot);
    if (!stored) return { denials: 0, counted: 0, banned: 0, length: 0, byHand: false, last: 0 };
    const state = { ...stored };
    // A clock that went back, or a shorter span, must not make a ban longer than it was made.
    state.counted = Math.min(state.counted, now + p.within);
    state.banned = Math.min(state.banned, now + state.length);
    if (writable) [stored.counted, stored.banned] = [state.counted, state.banned];
    if (state.counted <= now) state.denials = state.counted = 0;
    if (state.banned + p.max <= now) state.last = 0;
    return state;
  }

  /** When the state expires. Earlier bans are remembered for `max` after the end of the last one. */
  #stop(state: BanState, p: CompiledBan): number {
    return Math.max(state.counted, state.banned + (state.last > 0 ? p.max : 0));
  }

  /** The time until the ban ends, or 0. */
  look(slot: number, p: CompiledBan, now: number, writable: boolean): number {
    return Math.max(0, this.#read(slot, p, now, writable).banned - now);
  }

  /** Counts a denial; returns the length of the ban that it starts, or 0. */
  strike(slot: number, p: CompiledBan, now: number): number {
    if (p.after === 0) return 0;
    const state = this.#read(slot, p, now, true);
    if (state.counted === 0) state.counted = now + p.within;
    state.denials++;
    let length = 0;
    if (state.denials >= p.after) {
      length = state.last === 0 ? p.first : Math.min(p.max, Math.floor((state.last * p.factor) / 1000));
      Object.assign(state, {
        denials: 0,
        counted: 0,
        banned: now + length,
        length,
        byHand: false,
        last: length,
      });
    }
    this.#states.set(slot, state);
    return length;
  }

  /** Sets a ban of `length` ms by hand. The growth of bans by denials stays as it is. A length of 0 forgives everything. */
  set(slot: number, p: CompiledBan, now: number, length: number): void {
    const state = this.#read(slot, p, now, true);
    if (length === 0) this.#states.delete(slot);
    else this.#states.set(slot, { ...state, banned: now + length, length, byHand: true });
  }

  /** When a slot's last ban ends; 0 if it never had one. */
  end(slot: number): number {
    return this.#states.get(slot)?.banned ?? 0;
  }

  /** Whether a slot's last ban was one by hand. */
  isByHand(slot: number): boolean {
    return this.#states.get(slot)?.byHand ?? false;
  }

  /** When everything in a slot's state has expired. */
  until(slot: number, p: CompiledBan): number {
    const state = this.#states.get(slot);
    return state ? this.#stop(state, p) : 0;
  }

  /** A slot's state, as in `Column`; `[]` if it has none. */
  save(slot: number): Saved {
    const state = this.#states.get(slot);
    if (!state) return [];
    const { denials, counted, banned, length, byHand, last } = state;
    return [denials, counted, banned, length, byHand ? 1 : 0, last];
  }

  load(slot: number, saved: Saved): void {
    if (saved.length !== 6 || !areNumbers(saved)) return;
    const [denials, counted, banned, length, byHand, last] = saved as Six;
    this.#states.set(slot, { denials, counted, banned, length, byHand: byHand === 1, last });
  }

  clear(slot: number): void {
    this.#states.delete(slot);
  }

  /** Copies a slot from another column, or from another of its own slots. */
  take(from: BanColumn, theirs: number, ours: number): void {
    if (from.#states.size === 0) return;
    const state = from.#states.get(theirs);
    if (state) this.#states.set(ours, state);
    else this.#states.delete(ours);
  }
}
