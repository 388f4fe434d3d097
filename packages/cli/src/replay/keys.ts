import { failure } from '../errors.js';

/** Slightly less than a `Map` can hold. */
const MAX_KEYS = 16_000_000;

export type Column = Uint32Array | Float64Array;

/** Numbers the keys in order of appearance, from 0 on. Columns have a value for each key. */
export class Keys {
  /** The keys by their numbers. */
  readonly names: string[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #buffers: ArrayBuffer[] = [];
  #room = 0;

  numberOf(key: string): number {
    return this.#numbers.get(key) ?? this.#add(key);
  }

  /** Makes a column, in which all values are 0 at first: counts up to 2^32, or times. It grows in place, outside of the heap of JavaScript. */
  column<T extends Column>(Kind: (new (buffer: ArrayBuffer) => T) & { BYTES_PER_ELEMENT: number }): T {
    const maxByteLength = Kind.BYTES_PER_ELEMENT * MAX_KEYS;
    const buffer = new ArrayBuffer(0, { maxByteLength });
    this.#buffers.push(buffer);
    return new Kind(buffer);
  }

  largest(column: Column): { key: string; value: number } {
    let largest = 0;
    for (let i = 1; i < this.names.length; i++) if (column[i]! > column[largest]!) largest = i;
    return { key: this.names[largest] ?? '', value: column[largest] ?? 0 };
  }

  #add(key: string): number {
    const number = this.names.length;
    if (number === MAX_KEYS) {
      throw failure(
        `There are more than ${MAX_KEYS.toLocaleString('en')} different keys. Replay a part of the log (--match), or choose a coarser --key.`,
      );
    }
    if (number === this.#room) this.#grow();
    // Copy the key, also half a surrogate pair: a part of a text keeps the whole text in memory.
    const copy = JSON.parse(JSON.stringify(key)) as string;
    this.#numbers.set(copy, number);
    this.names.push(copy);
    return number;
  }

  #grow(): void {
    this.#room = Math.min(MAX_KEYS, Math.max(1024, 2 * this.#room));
    for (const buffer of this.#buffers) buffer.resize((buffer.maxByteLength / MAX_KEYS) * this.#room);
  }
}
