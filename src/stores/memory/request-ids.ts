import { createHash } from 'node:crypto';
import { partsOf, type Part } from '../../contract/parts.js';
import type { Subject } from '../../contract/store.js';
import type { IdPlace, IdRecord } from '../state/request-ids.js';

type Records = Map<string, { readonly record: IdRecord; readonly until: number }>;

/** The ids of requests, by limiter name. The oldest come first, because all ids of a limiter are remembered for the same time. */
export class RequestIds {
  readonly #most: number;
  readonly #records = new Map<string, Records>();

  /** @param most the most ids of a limiter name. Beyond it, the oldest are forgotten */
  constructor(most: number) {
    this.#most = most;
  }

  place({ set, key }: Subject, id: string, now: number): IdPlace {
    const records = this.#records.get(set.name) ?? new Map<string, never>();
    // Keys and ids are chosen by clients, and must not fill the memory by their length.
    const [{ scope, keyOf }] = partsOf(set) as [Part];
    const text = Buffer.from(JSON.stringify([scope, keyOf(key), id]));
    const own = createHash('sha256').update(text).digest('base64url').slice(0, 22);
    return {
      read: () => records.get(own)?.record,
      write: (record, until) => {
        this.#records.set(set.name, records);
        const isNew = !records.has(own);
        records.set(own, { record, until });
        if (isNew) this.#sweep(records, now);
      },
    };
  }

  clear(): void {
    this.#records.clear();
  }

  #sweep(records: Records, now: number): void {
    for (const [oldest, { until }] of records) {
      if (until > now && records.size <= this.#most) break;
      records.delete(oldest);
    }
  }
}
