const KEY_LENGTH = 16;

/** The number of keys in a batch. */
export const KEYS_PER_BATCH = 1000;

/** Keys of 16 characters, `user:00000000042`. Each key is a new string, as a server creates it from a request. */
export class Keys {
  readonly count: number;
  readonly #text: Buffer;
  readonly #batch = new Array<string>(KEYS_PER_BATCH).fill('');
  #next = KEYS_PER_BATCH;
  #spent = 0;

  constructor(count: number) {
    this.count = count;
    this.#text = Buffer.alloc(KEY_LENGTH * count, 'latin1');
    for (let i = 0; i < count; i++)
      this.#text.write(`user:${String(i).padStart(11, '0')}`, KEY_LENGTH * i, 'latin1');
  }

  at(i: number): string {
    return this.#text.toString('latin1', KEY_LENGTH * i, KEY_LENGTH * (i + 1));
  }

  random(): string {
    if (this.#next === KEYS_PER_BATCH) {
      this.batch();
      this.#next = 0;
    }
    return this.#batch[this.#next++]!;
  }

  /** Milliseconds spent on creating keys so far. They belong to no limiter, and are most of the time of a denial. */
  get spent(): number {
    return this.#spent;
  }

  /** Random keys. Every call returns the same array. */
  batch(): readonly string[] {
    const begin = performance.now();
    for (let i = 0; i < KEYS_PER_BATCH; i++) this.#batch[i] = this.at(Math.floor(Math.random() * this.count));
    this.#spent += performance.now() - begin;
    return this.#batch;
  }
}
