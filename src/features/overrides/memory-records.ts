import { changeRecord, OVERRIDE_TAG, type OverrideRecord, type RecordChange } from './contract/records.js';
import type { KeptValue } from '../kept-values.js';
import type { Clock, OverridePlace, OverrideStore, Subject } from '../../contract/store.js';
import type { JournalEntry } from '../../stores/journal.js';
import { escapeKey } from '../../stores/keys.js';
import type { Place } from '../feature.js';
import { loggedChange } from './log-entry.js';
import { ownerTextOfPlace } from './record-keys.js';

/** Records in memory, and the end of their use. They come from operators, so a key never loses a record to another key. */
export class MemoryRecords {
  readonly #records = new Map<string, { readonly record: OverrideRecord; readonly until: number }>();

  /** The record of a key, empty if there is none. */
  of(key: string): OverrideRecord {
    return this.#records.size === 0 ? '' : (this.#records.get(key)?.record ?? '');
  }

  /** The record of a key as a kept value, if the id is the tag of records. */
  kept(key: string, id: string): KeptValue | undefined {
    const record = id === OVERRIDE_TAG ? this.#records.get(key) : undefined;
    return record && [record.until, record.record];
  }

  /** @returns the record before the change */
  change(key: string, change: RecordChange, now: number): OverrideRecord {
    const before = this.of(key);
    // Operators change overrides rarely enough to look for all expired ones here.
    for (const [other, { until }] of this.#records) if (until <= now) this.#records.delete(other);
    const after = changeRecord(before, change, now);
    if (after.record === '') this.#records.delete(key);
    else this.#records.set(key, after);
    return before;
  }

  *[Symbol.iterator](): Generator<readonly [key: string, record: OverrideRecord]> {
    for (const [key, { record }] of this.#records) yield [key, record];
  }

  clear(): void {
    this.#records.clear();
  }
}

/** The parts of a memory store that keeps records. */
interface MemoryParts {
  readonly clock: Clock;
  /** The records that contain the record of a place, and its key among them. */
  recordsOf(place: OverridePlace): readonly [MemoryRecords, string];
  placesOf(subject: Subject, now: number): readonly Place[];
  log(change: JournalEntry, now: number): void;
}

export function overridesIn({ clock, recordsOf, placesOf, log }: MemoryParts): OverrideStore {
  return {
    read: (place) => {
      const [records, key] = recordsOf(place);
      return [records.of(key), clock()];
    },
    change: (place, change) => {
      const now = clock();
      const [records, key] = recordsOf(place);
      const before = records.change(key, change, now);
      if ('subject' in place) keepDebts(placesOf(place.subject, now), place.by, now, change.debtLife);
      const logged = loggedChange(ownerTextOfPlace(place, escapeKey), change, before, now);
      if (logged) log(logged, now);
      return [before, now];
    },
  };
}

/** Keeps the buckets whose rate an override changes. */
function keepDebts(places: readonly Place[], by: string, now: number, debtLife = 0): void {
  for (const { part, columns, policies, row } of places) {
    if (part.name !== by || row === 0) continue;
    for (const [i, column] of columns.entries())
      if (policies[i]!.traits.drains && column.until(row) > now) column.keep(row, now + debtLife);
  }
}
