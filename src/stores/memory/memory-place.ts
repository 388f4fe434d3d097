import type { BanColumn } from '../../features/bans/ban.js';
import type { MemoryColumn } from '../../algorithms/index.js';
import type { DimensionSet } from '../../contract/dimension-sets.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { Keys, Subject } from '../../contract/store.js';
import type { Feature, Place } from '../../features/feature.js';
import type { TableHistories } from '../../features/charge-history.js';
import { limitsOf } from '../../features/overrides/key-limits.js';
import type { IdPlace } from '../../features/ids/id-record.js';
import type { RequestIds } from '../../features/ids/memory-ids.js';
import type { KeptValues } from '../../features/kept-values.js';
import type { MemoryStoreOptions } from './options.js';
import { WITHIN } from './page.js';
import type { Selection } from './selections.js';
import type { MemoryTable } from './table.js';

/** A part of a policy set, and the place of its state. */
export interface View {
  readonly part: DimensionSet;
  readonly features: readonly Feature[];
  readonly table: MemoryTable;
  readonly selection: Selection;
}

/** The parts of a store that places have in common. */
export interface StoreParts extends Pick<MemoryStoreOptions, 'onFull'>, Pick<Place, 'events'> {
  readonly ids: RequestIds;
}

/** The place of the current question's key. A store reuses its places for each question, so that they keep no columns alive. */
export class MemoryPlace implements Place {
  readonly #isAlone: boolean;
  readonly #parts: StoreParts;
  #view!: View;
  /** The row's number in the table. `row` is its number in its page. */
  #at = 0;
  row = 0;
  columns: readonly MemoryColumn[] = [];
  features: readonly Feature[] = [];
  policies: readonly CompiledPolicy[] = [];
  limits: Place['limits'] = undefined;
  #key = '';

  /** @param isAlone whether the question has only this key */
  constructor(isAlone: boolean, parts: StoreParts) {
    this.#isAlone = isAlone;
    this.#parts = parts;
  }

  find(view: View, keys: Keys, now: number): void {
    const { part, table, selection } = view;
    const key = typeof keys === 'string' ? keys : part.keyOf(keys);
    this.#key = key;
    this.#view = view;
    this.features = view.features;
    selection.usedAt = now;
    if (table.names) table.remember(key);
    this.#go(table.find(key, selection.number));
    const { set } = part;
    this.policies = set.policies;
    this.limits = set.overrides && limitsOf(set, table.records.of(key), now);
    this.policies = this.limits?.policies ?? set.policies;
  }

  #go(at: number): void {
    const { table, selection } = this.#view;
    this.#at = at;
    this.row = at & WITHIN;
    this.columns = table.columns(at, selection);
  }

  get part(): DimensionSet {
    return this.#view.part;
  }

  get bans(): BanColumn {
    return this.#view.table.pageOf(this.#at).bans;
  }

  get histories(): TableHistories {
    return this.#view.table.histories;
  }

  get events(): Place['events'] {
    return this.#parts.events;
  }

  kept(tag: string): KeptValues {
    const { table, selection } = this.#view;
    return table.values.of(tag, this.#key, selection.usedAt);
  }

  idOf(subject: Subject, id: string): IdPlace {
    return this.#parts.ids.place(subject, id, this.#view.selection.usedAt);
  }

  create(now: number, byHand: boolean): void {
    // A table makes room for the key of its last search, which may belong to another part.
    const { table, selection } = this.#view;
    if (!this.#isAlone) table.find(this.#key, selection.number);
    this.#go(table.create(now, byHand));
  }

  isFull(now: number): boolean {
    return this.#view.table.isFull(now);
  }

  full(now: number): number {
    // If all policies are shadows, no request may be denied.
    const denies = this.#parts.onFull === 'deny' && this.part.set.policies.some(({ shadow }) => !shadow);
    return denies ? this.#view.table.roomIn(now) : 0;
  }

  deny(until: number): void {
    this.#view.table.deny(this.#at, until);
  }
}
