const LENGTH = 16;

/** Keys of 16 characters, `user:00000000042`. Each is made as a new string, as a server makes it from a request. */
export class Keys {
  readonly count: number;
  readonly #text: Buffer;
  #seed = 1;

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
    // Xorshift32.
    let x = this.#seed;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.#seed = x;
    return this.at((x >>> 0) % this.count);
  }
}
