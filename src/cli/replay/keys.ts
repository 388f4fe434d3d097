import { failure } from '../errors.js';

/** Slightly less than a `Map` can hold. */
const MAX_KEYS = 16_000_000;

/** Numbers the keys in order of appearance, from 0 on. Columns have a value for each key. */
export class Keys {
  /** The keys by their numbers. */
  readonly names: string[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #columns: number[][] = [];

  numberOf(key: string): number {
    return this.#numbers.get(key) ?? this.#add(key);
  }

  /** Makes a column, in which all values are 0 at first. */
  column(): number[] {
    const column: number[] = [];
    this.#columns.push(column);
    return column;
  }

  /** The key with the largest value in a column. */
  largest(column: readonly number[]): { key: string; value: number } {
    let largest = 0;
    for (let i = 1; i < column.length; i++) if (column[i]! > column[largest]!) largest = i;
    return { key: this.names[largest] ?? '', value: column[largest] ?? 0 };
  }

  #add(key: string): number {
    const number = this.names.length;
    if (number === MAX_KEYS) {
      throw failure(
        `There are more than ${MAX_KEYS.toLocaleString('en')} different keys. Replay a part of the log (--match), or choose a coarser --key.`,
      );
    }
    // Copy the key, also half a surrogate pair: a part of a text keeps the whole text in memory.
    const copy = JSON.parse(JSON.stringify(key)) as string;
    this.#numbers.set(copy, number);
    this.names.push(copy);
    for (const column of this.#columns) column.push(0);
    return number;
  }
}
