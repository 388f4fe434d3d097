import type { BanColumn } from '../../algorithms/ban.js';
import type { Column } from '../../algorithms/index.js';
import type { OverrideEntry, OverrideRecord } from '../../contract/overrides.js';
import type { Part } from '../../contract/parts.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { Keys } from '../../contract/store.js';
import { overriddenBy } from '../state/overrides.js';
import type { Place } from '../state/place.js';
import type { Returns } from '../state/returns.js';
import type { Marks } from '../state/place.js';
import type { AllMarks } from './marks.js';
import type { MemoryStoreOptions } from './options.js';
import { WITHIN } from './page.js';
import type { Selection } from './selections.js';
import type { Table } from './table.js';

/** A part of a policy set, and the place of its state. */
export interface View {
  readonly part: Part;
  readonly table: Table;
  readonly selection: Selection;
}

/** The place of the current question's key. A store reuses its places for each question, so that they keep no columns alive. */
export class MemoryPlace implements Place {
  readonly #isAlone: boolean;
  readonly #onFull: MemoryStoreOptions['onFull'];
  readonly #marks: AllMarks;
  #view!: View;
  /** The row's number in the table. `row` is its number in its page. */
  #at = 0;
  row = 0;
  columns: readonly Column[] = [];
  policies: readonly CompiledPolicy[] = [];
  record: OverrideRecord = '';
  entry: OverrideEntry | undefined = undefined;
  next: Place['next'] = undefined;
  #key = '';
  #now = 0;

  /** @param isAlone whether the question has only this key */
  constructor(isAlone: boolean, onFull: MemoryStoreOptions['onFull'], marks: AllMarks) {
    this.#isAlone = isAlone;
    this.#marks = marks;
    this.#onFull = onFull;
  }

  find(view: View, keys: Keys, now: number): void {
    const { part, table, selection } = view;
    const key = typeof keys === 'string' ? keys : part.keyOf(keys);
    this.#key = key;
    this.#now = now;
    this.#view = view;
    selection.usedAt = now;
    if (table.names) table.remember(key);
    this.#go(table.find(key, selection.number));
    const { set } = part;
    this.policies = set.policies;
    this.next = undefined;
    if (set.overrides === undefined) return;
    const record = table.overrides.size === 0 ? '' : (table.overrides.get(key)?.record ?? '');
    const { entry, policies, next } = overriddenBy(record, set.overrides.all, set, now);
    this.record = record;
    this.entry = entry;
    this.policies = policies;
    this.next = next;
  }

  #go(at: number): void {
    const { table, selection } = this.#view;
    this.#at = at;
    this.row = at & WITHIN;
    this.columns = table.columns(at, selection);
  }

  get part(): Part {
    return this.#view.part;
  }

  get bans(): BanColumn {
    return this.#view.table.pageOf(this.#at).bans;
  }

  get returns(): Returns {
    return this.#view.table.returns;
  }

  get marks(): Marks {
    const { scope, set } = this.part;
    return this.#marks.of(`${scope} ${set.name}`, this.#key, this.#now);
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
    const denies = this.#onFull === 'deny' && this.part.set.policies.some(({ shadow }) => !shadow);
    return denies ? this.#view.table.roomIn(now) : 0;
  }

  deny(until: number): void {
    this.#view.table.deny(this.#at, until);
  }
}
