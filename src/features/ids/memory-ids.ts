import { createHash } from 'node:crypto';
import { setsByDimension, type DimensionSet } from '../../contract/dimension-sets.js';
import type { Subject } from '../../contract/store.js';
import type { IdPlace, IdRecord } from './id-record.js';

/** Values that end, by a text. The values that were written last come last. */
class Ending<T> {
  readonly #most: number;
  readonly #values = new Map<string, { readonly value: T; readonly until: number }>();

  constructor(most: number) {
    this.#most = most;
  }

  get(text: string): T | undefined {
    return this.#values.get(text)?.value;
  }

  /** Forgets older values that have ended, and the oldest ones if there are too many. */
  set(text: string, value: T, until: number, now: number): void {
    this.#values.delete(text);
    this.#values.set(text, { value, until });
    for (const [oldest, each] of this.#values) {
      if (each.until > now && this.#values.size <= this.#most) break;
      this.#values.delete(oldest);
    }
  }

  delete(text: string): void {
    this.#values.delete(text);
  }
}

/** The ids of a limiter name, and the repetitions that have changed charges. */
interface Ids {
  readonly records: Ending<IdRecord>;
  readonly owners: Ending<string>;
}

export class RequestIds {
  readonly #most: number;
  readonly #ids = new Map<string, Ids>();

  /** @param most the most ids of a limiter name. Beyond it, the oldest are forgotten */
  constructor(most: number) {
    this.#most = most;
  }

  place({ set, key }: Subject, id: string, now: number): IdPlace {
    const { name } = set;
    let ids = this.#ids.get(name);
    if (!ids)
      this.#ids.set(name, (ids = { records: new Ending(this.#most), owners: new Ending(this.#most) }));
    const { records, owners } = ids;
    // Keys and ids are chosen by clients, and must not fill the memory by their length.
    const [{ scope, keyOf }] = setsByDimension(set) as [DimensionSet];
    const text = Buffer.from(JSON.stringify([scope, keyOf(key), id]));
    const own = createHash('sha256').update(text).digest('base64url').slice(0, 22);
    return {
      read: () => records.get(own),
      write: (record, until) => {
        if (record) records.set(own, record, until, now);
        else records.delete(own);
      },
      ownerOf: (step) => owners.get(`${own}${step}`),
      own: (step, owner, until) => owners.set(`${own}${step}`, owner, until, now),
    };
  }

  clear(): void {
    this.#ids.clear();
  }
}
