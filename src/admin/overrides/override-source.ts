import { entryInForce, type RecordChange } from '../../features/overrides/contract/records.js';
import type { Reply } from '../../contract/reply.js';
import type { MaybePromise, Store } from '../../contract/store.js';

export type OwnedRecord = readonly [owner: string, record: unknown];

export interface OverrideSource {
  /** The records of keys and of all keys. */
  records(isWanted: (owner: string) => boolean): AsyncIterable<OwnedRecord>;
  recordOfAll(name: string): Promise<unknown>;
  /** The texts of owners with an override in force. */
  owners(): Promise<readonly string[]>;
}

/** The parts of a state whose rows have the whole state of a key. */
interface LocalParts {
  now(): MaybePromise<number>;
  records(): Iterable<OwnedRecord> | AsyncIterable<OwnedRecord>;
  /** The record of all keys of a limiter, empty if there is none. */
  recordOfAll(name: string): MaybePromise<string>;
}

/** The administration's fields in each change of an override. */
export type OverrideFields = Pick<RecordChange, 'undoes' | 'onUnnoted'>;

/** The overrides of a store, of which each change has further fields. */
export function withFields({ overrides }: Store, fields: Partial<RecordChange>): Store['overrides'] {
  return (
    overrides && {
      ...overrides,
      change: (place, change) => overrides.change(place, { ...change, ...fields }),
    }
  );
}

/** A reply without the limits of overrides that have ended. Their records stay for as long as charges of their time count. */
export function inForce({ limits, ...reply }: Reply, records: readonly (string | undefined)[]): Reply {
  const isOverridden = records.some((record) => entryInForce(record, reply.now) !== undefined);
  return isOverridden && limits ? { ...reply, limits } : reply;
}

/** The overrides in memory, in a file, or in a table. */
export function localOverrides(parts: LocalParts): OverrideSource {
  return {
    async *records(isWanted) {
      for await (const each of parts.records()) if (isWanted(each[0])) yield each;
    },
    recordOfAll: async (name) => (await parts.recordOfAll(name)) || undefined,
    async owners() {
      const owners: string[] = [];
      const time = await parts.now();
      for await (const [owner, record] of parts.records()) if (entryInForce(record, time)) owners.push(owner);
      return owners;
    },
  };
}
