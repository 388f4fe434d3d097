const LENGTH = 16;

/** So many are made at once. */
export const BATCH = 1000;

/** Keys of 16 characters, `user:00000000042`. Each is made as a new string, as a server makes it from a request. */
export class Keys {
  readonly count: number;
  readonly #text: Buffer;
  readonly #batch = new Array<string>(BATCH).fill('');
  #next = BATCH;
  #spent = 0;

  constructor(count: number) {
    this.count = count;
    this.#text = Buffer.alloc(LENGTH * count, 'latin1');
    for (let i = 0; i < count; i++)
      this.#text.write(`user:${String(i).padStart(11, '0')}`, LENGTH * i, 'latin1');
  }

  at(i: number): string {
    return this.#text.toString('latin1', LENGTH * i, LENGTH * (i + 1));
  }

  random(): string {
    if (this.#next === BATCH) {
      this.batch();
      this.#next = 0;
    }
    return this.#batch[this.#next++]!;
  }

  /** Milliseconds that making keys has taken so far: no limiter's, and most of what denying one takes. */
  get spent(): number {
    return this.#spent;
  }

  /** Random ones. It is the same array each time. */
  batch(): readonly string[] {
    const begin = performance.now();
    for (let i = 0; i < BATCH; i++) this.#batch[i] = this.at(Math.floor(Math.random() * this.count));
    this.#spent += performance.now() - begin;
    return this.#batch;
  }
}
