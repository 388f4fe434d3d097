const MAX_NAMES = 100;

/** A value that is read again after some time, by one reading for all callers. */
export class Cached<T> {
  readonly #read: (last: T | undefined) => Promise<T>;
  readonly #lifeMs: number;
  readonly #now: () => number;
  #value: T | undefined;
  #readAt = -Infinity;
  #reading: Promise<T> | undefined;
  /** The number of calls of `expire`. A reading that began before the last one may lack the change. */
  #expired = 0;

  /** @param read receives the last value */
  constructor(lifeMs: number, read: (last: T | undefined) => Promise<T>, now: () => number = Date.now) {
    this.#lifeMs = lifeMs;
    this.#read = read;
    this.#now = now;
  }

  /** The value. @param ageMs its largest age, ms */
  get(ageMs = this.#lifeMs): Promise<T> {
    if (this.#now() - this.#readAt < ageMs) return Promise.resolve(this.#value!);
    if (this.#reading) return this.#reading;
    const reading = this.#readNow().finally(() => {
      if (this.#reading === reading) this.#reading = undefined;
    });
    this.#reading = reading;
    return reading;
  }

  /** Makes the next call read again, even while a reading is under way. */
  expire(): void {
    this.#expired++;
    this.#readAt = -Infinity;
    this.#reading = undefined;
  }

  async #readNow(): Promise<T> {
    const [startedAt, expired] = [this.#now(), this.#expired];
    const value = await this.#read(this.#value);
    if (expired === this.#expired) [this.#value, this.#readAt] = [value, startedAt];
    return value;
  }
}

export class CachedByName<T> {
  readonly #lifeMs: number;
  readonly #read: (name: string) => Promise<T>;
  readonly #values = new Map<string, Cached<T>>();

  constructor(lifeMs: number, read: (name: string) => Promise<T>) {
    this.#lifeMs = lifeMs;
    this.#read = read;
  }

  get(name: string): Promise<T> {
    let value = this.#values.get(name);
    if (!value) {
      if (this.#values.size >= MAX_NAMES) this.#values.clear();
      value = new Cached(this.#lifeMs, () => this.#read(name));
      this.#values.set(name, value);
    }
    return value.get();
  }

  /** Makes the next call for each name read again. */
  expire(): void {
    this.#values.clear();
  }
}
