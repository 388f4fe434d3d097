/** A value that is read again after some time, by one reading for all callers. */
export class Cached<T> {
  readonly #read: (last: T | undefined) => Promise<T>;
  readonly #lifeMs: number;
  readonly #now: () => number;
  #value: T | undefined;
  #readAt = -Infinity;
  #reading: Promise<T> | undefined;

  /** @param read receives the last value */
  constructor(lifeMs: number, read: (last: T | undefined) => Promise<T>, now: () => number = Date.now) {
    this.#lifeMs = lifeMs;
    this.#read = read;
    this.#now = now;
  }

  /** The value, at most `lifeMs` old. */
  get(): Promise<T> {
    if (this.#now() - this.#readAt < this.#lifeMs) return Promise.resolve(this.#value!);
    this.#reading ??= this.#readNow().finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  /** Makes the next call read again. */
  expire(): void {
    this.#readAt = -Infinity;
  }

  async #readNow(): Promise<T> {
    const startedAt = this.#now();
    this.#value = await this.#read(this.#value);
    this.#readAt = startedAt;
    return this.#value;
  }
}
