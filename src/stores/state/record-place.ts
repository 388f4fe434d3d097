import type { MemoryColumn } from '../../algorithms/index.js';
import type { Crossing } from '../../contract/crossing.js';
import type { DimensionSet } from '../../contract/dimension-sets.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { BanColumn } from '../../features/bans/ban-column.js';
import type { SavedBan } from '../../features/bans/saved-ban.js';
import type { Feature, Place } from '../../features/feature.js';
import { featuresOf } from '../../features/features.js';
import type { IdPlace } from '../../features/ids/id-record.js';
import { limitsOf } from '../../features/overrides/key-limits.js';
import { recordAmong } from '../../features/overrides/state-record.js';
import type { Histories } from '../../features/charge-history.js';
import type { Marks } from '../../features/thresholds/marks.js';
import type { Entry } from './saved-state.js';

/** The state of one key, as far as its place needs it. */
interface PlacedRecord extends Histories {
  readonly now: number;
  readonly entries: Map<string, Entry>;
  readonly ban: SavedBan;
  readonly id: IdPlace;
  marks(crossings: Crossing[]): Marks;
  column(policy: CompiledPolicy): MemoryColumn;
}

/** The place of a key whose state is a record. A class, because an object with these functions would be made anew for each decision. */
export class RecordPlace implements Place {
  readonly part: DimensionSet;
  readonly features: readonly Feature[];
  readonly limits: Place['limits'];
  readonly policies: Place['policies'];
  readonly columns: readonly MemoryColumn[];
  /** Each key has row 1 from the start, so nothing is left to create. */
  readonly row = 1;
  readonly #record: PlacedRecord;
  readonly #crossings: Crossing[];
  readonly #id: PlacedRecord | undefined;

  /** @param crossings receives the crossings of thresholds @param id the state of the request's id */
  constructor(record: PlacedRecord, part: DimensionSet, crossings: Crossing[], id: PlacedRecord | undefined) {
    const { set } = part;
    const limits = set.overrides && limitsOf(set, recordAmong(record.entries), record.now);
    this.part = part;
    this.features = featuresOf(set);
    this.limits = limits;
    this.policies = limits?.policies ?? set.policies;
    this.columns = set.policies.map((policy) => record.column(policy));
    this.#record = record;
    this.#crossings = crossings;
    this.#id = id;
  }

  get bans(): BanColumn {
    return this.#record.ban.column;
  }

  get histories(): Histories {
    return this.#record;
  }

  get marks(): Marks {
    return this.#record.marks(this.#crossings);
  }

  idOf(): IdPlace {
    return this.#id!.id;
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
