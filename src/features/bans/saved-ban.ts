import type { Saved } from '../../algorithms/index.js';
import type { CompiledBan } from './contract/ban-options.js';
import { BanColumn } from './ban.js';

/** A saved ban after its expiry, or a 0 alone without a ban. */
type BanEntry = readonly [until: number, ...saved: Saved];

/** The ban in the saved state of a key. The column is made when a decision needs it. */
export class SavedBan {
  readonly #loaded: BanEntry;
  #column: BanColumn | undefined;
  #options: CompiledBan | undefined;

  constructor(loaded: BanEntry) {
    this.#loaded = loaded;
  }

  /** The ban in row 1. */
  get column(): BanColumn {
    if (!this.#column) {
      const [, ...saved] = this.#loaded;
      this.#column = new BanColumn();
      this.#column.load(1, saved);
    }
    return this.#column;
  }

  /** Passes the options of a decision. The first ones determine the expiry. */
  use(options: CompiledBan | undefined): void {
    this.#options ??= options;
  }

  get current(): BanEntry {
    if (!this.#column && this.#loaded[0] === 0 && this.#loaded.length === 1) return this.#loaded;
    const until = this.#options ? this.column.until(1, this.#options) : this.#loaded[0];
    return [until, ...this.column.save(1)];
  }
}

/** The denials that count towards the next ban, and the length of the last ban by denials, ms, or 0. */
export interface Strikes {
  readonly denials: number;
  readonly lastBanMs: number;
}

/** The content of a saved ban, for commands that show it. Times are ms since the epoch. */
export interface BanSummary extends Strikes {
  readonly bannedUntil: number;
  /** The end of the time in which the denials count. */
  readonly countedUntil: number;
}

export function banSummary(saved: Saved): BanSummary {
  const [denials = 0, countedUntil = 0, bannedUntil = 0, , , lastBanMs = 0] = saved as readonly number[];
  return { bannedUntil, denials, countedUntil, lastBanMs };
}

export function strikesIn(
  { denials, countedUntil, lastBanMs }: Omit<BanSummary, 'bannedUntil'>,
  now: number,
): Strikes {
  return { denials: countedUntil > now ? denials : 0, lastBanMs };
}

/** The same of a ban that `ban.lua` has written. */
export function strikesOf(value: string | null, now: number): Strikes {
  const numbers = /^\d+( \d+){4}$/.test(value ?? '') ? value!.split(' ').map(Number) : [];
  const [denials = 0, countedUntil = 0, , , lastBanMs = 0] = numbers;
  return strikesIn({ denials, countedUntil, lastBanMs }, now);
}
