import { BanColumn, type CompiledBan } from '../../algorithms/ban.js';
import { kernels, type Column } from '../../algorithms/index.js';
import {
  changeRecord,
  OVERRIDE_TAG,
  type OverrideRecord,
  type RecordChange,
} from '../../contract/overrides.js';
import type { Part } from '../../contract/parts.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import type { Crossing } from '../../contract/crossing.js';
import { stepAfter } from '../../contract/store.js';
import type { StoredCrossing } from '../crossings.js';
import type { LoggedChange } from '../journal.js';
import { ID_TAG, THRESHOLD_TAG } from '../keys.js';
import { overriddenBy } from './overrides.js';
import type { Mark, Place } from './place.js';
import type { IdPlace, IdRecord } from './request-ids.js';
import { History } from './returns.js';

import { encode, NO_ENTRY, parse, type Entries, type Entry, type SavedState } from './saved-state.js';

/** The time for which an expired state is kept, ms, in case the clock goes back. */
export const EXPIRED_STATE_LIFE_MS = 60_000;

/** The change that a store must write. */
export interface StateChange {
  /** Whether there is anything to write. A denial, for example, changes nothing. */
  readonly changed: boolean;
  /** The new state. Undefined if the state is empty, so that the key can be deleted. */
  readonly bytes: Uint8Array | undefined;
  /** The time at which the state expires and the key can be deleted, by the store's clock, ms since the epoch. */
  readonly expiresAt: number;
  /** Changes for a log that operators read. Absent if there are none. A store without such a log ignores them. */
  readonly log?: readonly LoggedChange[];
  /** Crossings of thresholds for a stream. Absent if there are none. A store without such a stream ignores them. */
  readonly crossings?: readonly StoredCrossing[];
}

/** The state of one key. */
export class KeyRecord {
  #step = 0;
  /** The bytes of the loaded state, to detect changes. */
  readonly #before: string;
  /** The loaded state of each policy. `#columns` has the current state of the used policies. */
  readonly #states: Map<string, Entry>;
  readonly #columns = new Map<string, Column>();
  readonly #bans = new BanColumn();
  readonly #bannedUntil: number;
  #ban: CompiledBan | undefined;
  readonly #histories = new Map<string, History>();
  readonly #now: number;

  constructor(bytes: Uint8Array | undefined, now: number) {
    const { step, saved } = parse(bytes);
    const [[bannedUntil, ...ban], states, histories] = saved;
    this.#now = now;
    this.#step = step;
    this.#bannedUntil = bannedUntil;
    this.#bans.load(1, ban);
    this.#states = new Map(states);
    for (const [id, [until, ...saved]] of histories) this.#open(id, until).load(saved);
    this.#before = this.#text();
  }

  /** The change that must be written. */
  save(): StateChange {
    const text = this.#text();
    const [[bannedUntil], states, histories] = this.#current();
    const expiresAt = Math.max(bannedUntil, ...[...states, ...histories].map(([, [until]]) => until));
    const bytes = expiresAt === 0 ? undefined : encode(this.#step, text);
    return { changed: text !== this.#before, bytes, expiresAt };
  }

  nextStep(step = stepAfter(this.#step, this.#now)): number {
    return (this.#step = step);
  }

  /** The record of the key's overrides, or an empty text. */
  get overrides(): OverrideRecord {
    const [, record] = this.#states.get(OVERRIDE_TAG) ?? NO_ENTRY;
    return typeof record === 'string' ? record : '';
  }

  /** The rest of the key's ban, ms, or 0. */
  bannedFor(ban: CompiledBan): number {
    return this.#bans.look(1, ban, this.#now, false);
  }

  override(change: RecordChange): void {
    const { record, until } = changeRecord(this.overrides, change, this.#now);
    this.#states.set(OVERRIDE_TAG, [record === '' ? 0 : until, record]);
  }

  /** The record of an id, if this is the state of an id. */
  get id(): IdPlace {
    return {
      read: () => {
        const [, text] = this.#states.get(ID_TAG) ?? NO_ENTRY;
        return typeof text === 'string' ? (JSON.parse(text) as IdRecord) : undefined;
      },
      write: (record, until) => this.#states.set(ID_TAG, [until, JSON.stringify(record)]),
    };
  }

  /** @param crossings receives the crossings of thresholds */
  place(part: Part, crossings: Crossing[]): Place {
    this.#ban ??= part.set.ban;
    const { overrides: applied } = part.set;
    return {
      part,
      ...overriddenBy(applied ? this.overrides : '', applied?.all ?? '', part.set, this.#now),
      columns: part.set.policies.map((policy) => this.#column(policy)),
      bans: this.#bans,
      row: 1,
      returns: {
        find: (policy) => this.#histories.get(policy),
        open: (policy, _key, now, life) => this.#open(policy, now + life),
      },
      marks: {
        read: (policy) => this.#states.get(THRESHOLD_TAG + policy) as Mark | undefined,
        write: (policy, mark) => this.#states.set(THRESHOLD_TAG + policy, mark),
        crossings,
      },
      // Nothing is left to do, because each key has row 1 from the start.
      create: () => {},
      isFull: () => false,
      full: () => 0,
      deny: () => {},
    };
  }

  #column({ id, kernel, params }: CompiledPolicy): Column {
    let column = this.#columns.get(id);
    if (!column) {
      column = kernels[kernel].createColumn(1, params);
      const [until, ...saved] = this.#states.get(id) ?? NO_ENTRY;
      if (until > 0) column.load(1, saved);
      else this.#states.set(id, NO_ENTRY);
      this.#columns.set(id, column);
    }
    return column;
  }

  #open(policy: string, until: number): History {
    const history = this.#histories.get(policy) ?? new History();
    history.until = until;
    this.#histories.set(policy, history);
    return history;
  }

  #current(): SavedState {
    const bannedUntil = this.#ban ? this.#bans.until(1, this.#ban) : this.#bannedUntil;
    const states = [...this.#states].map(([id, entry]): Entries[number] => {
      const column = this.#columns.get(id);
      return [id, column ? [column.until(1), ...column.save(1)] : entry];
    });
    const histories = [...this.#histories].map(([id, history]): Entries[number] => {
      return [id, [history.until, ...history.save()]];
    });
    const isKept = ([until]: Entry): boolean => until > 0 && until + EXPIRED_STATE_LIFE_MS > this.#now;
    const ban: Entry = [bannedUntil, ...this.#bans.save(1)];
    return [
      isKept(ban) ? ban : NO_ENTRY,
      states.filter(([, entry]) => isKept(entry)),
      histories.filter(([, entry]) => isKept(entry)),
    ];
  }

  #text(): string {
    return JSON.stringify(this.#current());
  }
}
