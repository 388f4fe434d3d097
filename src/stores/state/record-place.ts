import type { MemoryColumn } from '../../algorithms/index.js';
import type { DimensionSet } from '../../contract/dimension-sets.js';
import type { BanColumn } from '../../features/bans/ban.js';
import type { Feature, Place } from '../../features/feature.js';
import { featuresOf } from '../../features/features.js';
import { idAmong, type IdPlace } from '../../features/ids/id-record.js';
import { limitsOf } from '../../features/overrides/key-limits.js';
import { recordAmong } from '../../features/overrides/state-record.js';
import type { Histories } from '../../features/charge-history.js';
import type { StateCrossings } from '../../features/thresholds/crossing-reports.js';
import { valuesAmong, type KeptValues } from '../../features/kept-values.js';
import type { KeyRecord } from './key-record.js';

/** The place of a key whose state is a record. A class, because an object with these functions would be made anew for each decision. */
export class RecordPlace implements Place {
  readonly part: DimensionSet;
  readonly features: readonly Feature[];
  readonly limits: Place['limits'];
  readonly policies: Place['policies'];
  readonly columns: readonly MemoryColumn[];
  /** Each key has row 1 from the start, so nothing is left to create. */
  readonly row = 1;
  readonly #record: KeyRecord;
  readonly #events: StateCrossings;
  readonly #id: KeyRecord | undefined;

  /** @param events receives those of the question @param id the state of the request's id */
  constructor(record: KeyRecord, part: DimensionSet, events: StateCrossings, id?: KeyRecord) {
    const { set } = part;
    const limits = set.overrides && limitsOf(set, recordAmong(record.entries), record.now);
    record.ban.use(set.ban);
    this.part = part;
    this.features = featuresOf(set);
    this.limits = limits;
    this.policies = limits?.policies ?? set.policies;
    const columns: MemoryColumn[] = [];
    for (const policy of set.policies) columns.push(record.column(policy));
    this.columns = columns;
    this.#record = record;
    this.#events = events;
    this.#id = id;
  }

  get bans(): BanColumn {
    return this.#record.ban.column;
  }

  get histories(): Histories {
    return this.#record;
  }

  get events(): Place['events'] {
    return this.#events.current;
  }

  kept(tag: string): KeptValues {
    return valuesAmong(this.#record.entries, tag);
  }

  idOf(): IdPlace {
    return idAmong(this.#id!.entries);
  }

  create(): void {}

  isFull(): boolean {
    return false;
  }

  full(): number {
    return 0;
  }

  deny(): void {}
}
