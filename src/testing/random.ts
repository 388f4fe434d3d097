/** A generator of random numbers, which the same seed repeats (mulberry32). */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** A number of at least 0, and below 1. */
  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from `least` to `most`. */
  integer(least: number, most: number): number {
    return least + Math.floor(this.fraction() * (most - least + 1));
  }

  pick<T>(values: readonly T[]): T {
    return values[this.integer(0, values.length - 1)]!;
  }

  /** Returns true once in `n` calls, on average. */
  once(n: number): boolean {
    return this.integer(1, n) === 1;
  }

  /** A list of `least` to `most` elements. */
  list<T>(least: number, most: number, make: (i: number) => T): T[] {
    return Array.from({ length: this.integer(least, most) }, (_, i) => make(i));
  }
}

/** Derives a seed from a seed and a text, so that each check draws its own numbers (FNV-1a). */
export function seedFor(seed: number, text: string): number {
  let hash = seed | 0;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash;
}
