import { failure } from '../errors.js';

/** Slightly less than a `Map` can hold. */
const MOST_KEYS = 16_000_000;

/** Numbers the keys in order of appearance, and makes room for them in the columns. */
export class Keys {
  readonly #numbers = new Map<string, number>();
  readonly #columns: Column[] = [];
  #room = 1024;

  get size(): number {
    return this.#numbers.size;
  }

  /** The key's number, from 0 on. */
  numberOf(key: string): number {
    return this.#numbers.get(key) ?? this.#add(key);
  }

  /** The wanted keys, by their numbers. */
  namesOf(wanted: (number: number) => boolean): Map<number, string> {
    const names = new Map<number, string>();
    let number = 0;
    for (const name of this.#numbers.keys()) {
      if (wanted(number)) names.set(number, name);
      number += 1;
    }
    return names;
  }

  /** The key with the largest value in a column. */
  largest(column: Column): { key: string; value: number } {
    let largest = 0;
    for (let i = 1; i < this.size; i++) if (column.values[i]! > column.values[largest]!) largest = i;
    return { key: this.namesOf((i) => i === largest).get(largest) ?? '', value: column.values[largest]! };
  }

  /** Makes a column: a value for each key, 0 at first. */
  column(kind: ColumnKind): Column {
    const column = new Column(kind, this.#room);
    this.#columns.push(column);
    return column;
  }

  #add(key: string): number {
    const number = this.#numbers.size;
    if (number === MOST_KEYS) {
      throw failure(
        `More than ${MOST_KEYS.toLocaleString('en')} different keys. Replay a part of the log (--match), or choose a coarser --key.`,
      );
    }
    if (number === this.#room) {
      this.#room *= 2;
      for (const column of this.#columns) column.resize(this.#room);
    }
    // Copy the key, also half a surrogate pair: a part of a text keeps the whole text in memory.
    this.#numbers.set(JSON.parse(JSON.stringify(key)) as string, number);
    return number;
  }
}

export type ColumnKind = 'count' | 'time';

/** A value per key: a count (up to 2^32) or a time. */
export class Column {
  values: Uint32Array | Float64Array;

  constructor(kind: ColumnKind, room: number) {
    this.values = kind === 'count' ? new Uint32Array(room) : new Float64Array(room);
  }

  resize(room: number): void {
    const values = this.values instanceof Uint32Array ? new Uint32Array(room) : new Float64Array(room);
    values.set(this.values);
    this.values = values;
  }
}
