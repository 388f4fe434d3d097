import { stateName } from './charge-history.js';

/** A value that a feature keeps beside the state of a key, behind its end, ms since the epoch. Without an end, there is no value. */
export type KeptValue = readonly [until: number, ...(string | number)[]];

/** The values of a key by a tag. The tags of features begin with a capital letter. */
export interface KeptValues {
  /** The value of an id, which may have ended. */
  read(id: string): KeptValue | undefined;
  write(id: string, value: KeptValue): void;
}

/** The values among the entries of a key's state. */
export function valuesAmong(entries: Map<string, KeptValue>, tag: string): KeptValues {
  return {
    read: (id) => entries.get(tag + id),
    write: (id, value) => entries.set(tag + id, value),
  };
}

/** The values beside a table of a memory store. Beyond a number of values of a tag, the oldest are forgotten. */
export class TableValues {
  readonly #most: number;
  /** The values by tag, then by id and key. */
  readonly #byTag = new Map<string, Map<string, KeptValue>>();

  constructor(most: number) {
    this.#most = most;
  }

  of(tag: string, key: string, now: number): KeptValues {
    let values = this.#byTag.get(tag);
    if (!values) this.#byTag.set(tag, (values = new Map<string, KeptValue>()));
    const all = values;
    return {
      read: (id) => all.get(stateName(id, key)),
      write: (id, value) => {
        // A renewed value is the newest again.
        all.delete(stateName(id, key));
        if (value[0] > 0) all.set(stateName(id, key), value);
        this.#sweep(all, now);
      },
    };
  }

  /** The value of a key by tag and id. */
  find(key: string, id: string): KeptValue | undefined {
    for (const [tag, values] of this.#byTag)
      if (id.startsWith(tag)) return values.get(stateName(id.slice(tag.length), key));
    return undefined;
  }

  #sweep(values: Map<string, KeptValue>, now: number): void {
    for (const [oldest, [until]] of values) {
      if (until > now && values.size <= this.#most) break;
      values.delete(oldest);
    }
  }
}
