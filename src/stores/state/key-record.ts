import { SavedBan } from '../../features/bans/saved-ban.js';
import { kernels, type MemoryColumn, type Saved } from '../../algorithms/index.js';
import type { CompiledPolicy } from '../../contract/policy.js';
import { stepAfter } from '../../contract/store.js';
import type { StoredCrossing } from '../../features/thresholds/crossings.js';
import type { LoggedChange } from '../journal.js';
import { History, type Histories } from '../../features/charge-history.js';
import {
  encode,
  NO_ENTRY,
  parse,
  stateText,
  type Entries,
  type Entry,
  type SavedState,
  type StoredState,
} from './saved-state.js';

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

/** The change of a state that was read as text: the new state is in `text`, and `bytes` is undefined. */
export interface TextChange extends StateChange {
  readonly text?: string | undefined;
}

const NO_ENTRY_TEXT = JSON.stringify(NO_ENTRY);

/** The state of one key. Each decision makes one, so it creates only the parts that the decision needs. */
export class KeyRecord implements Histories {
  readonly now: number;
  readonly #isText: boolean;
  #step: number;
  /** The loaded state, and its text, to detect changes. */
  readonly #loaded: SavedState;
  readonly #loadedText: string;
  /**
   * The state of each policy, once there is a further one. Until then, `#loaded` has them. `#columns` has the current state of the used policies, in the
   * order of `#ids`.
   */
  #states: Map<string, Entry> | undefined;
  readonly #ids: string[] = [];
  readonly #columns: MemoryColumn[] = [];
  readonly ban: SavedBan;
  #histories: Map<string, History> | undefined;

  constructor(state: StoredState, now: number) {
    const { step, text, saved } = parse(state);
    this.now = now;
    this.#isText = typeof state === 'string';
    this.#step = step;
    this.#loaded = saved;
    this.#loadedText = text;
    this.ban = new SavedBan(saved[0]);
    // A loop over an empty list is not free.
    if (saved[2].length > 0)
      for (const [id, [until, ...cells]] of saved[2]) this.#open(id, until).load(cells);
  }

  save(): TextChange {
    const { text, expiresAt } = this.#current();
    const whole = expiresAt === 0 ? undefined : stateText(this.#step, text);
    const changed = text !== this.#loadedText && text !== this.#before();
    if (this.#isText) return { changed, bytes: undefined, expiresAt, text: whole };
    return { changed, bytes: whole === undefined ? undefined : encode(whole), expiresAt };
  }

  nextStep(step = stepAfter(this.#step, this.now)): number {
    return (this.#step = step);
  }

  /** The entries of features, and of policies that have not been used yet. */
  get entries(): Map<string, Entry> {
    return (this.#states ??= new Map(this.#loaded[1]));
  }

  find(policy: string): History | undefined {
    return this.#histories?.get(policy);
  }

  open(policy: string, _key: string, now: number, life: number): History {
    return this.#open(policy, now + life);
  }

  column({ id, kernel, params }: CompiledPolicy): MemoryColumn {
    const known = this.#ids.indexOf(id);
    if (known >= 0) return this.#columns[known]!;
    const column = kernels[kernel].createColumn(1, params);
    const entry = this.#states ? this.#states.get(id) : entryOf(this.#loaded[1], id);
    if (entry && entry[0] > 0) {
      column.load(1, entry.slice(1));
      column.keep(1, entry[0]);
    } else this.entries.set(id, NO_ENTRY);
    this.#ids.push(id);
    this.#columns.push(column);
    return column;
  }

  #open(policy: string, until: number): History {
    this.#histories ??= new Map();
    const history = this.#histories.get(policy) ?? new History();
    history.until = until;
    this.#histories.set(policy, history);
    return history;
  }

  /** The current state as `JSON.stringify` writes it, which would need arrays of arrays, and its end. */
  #current(): { readonly text: string; readonly expiresAt: number } {
    const ban = this.#isKept(this.ban.current[0]) ? this.ban.current : NO_ENTRY;
    let [expiresAt] = ban;
    let states = '';
    for (const [id, entry] of this.#states ?? this.#loaded[1]) {
      const used = this.#ids.indexOf(id);
      const column = used < 0 ? undefined : this.#columns[used]!;
      const until = column ? column.until(1) : entry[0];
      if (!this.#isKept(until)) continue;
      if (until > expiresAt) expiresAt = until;
      states += entryText(id, until, column ? column.save(1) : entry.slice(1));
    }
    let histories = '';
    if (this.#histories)
      for (const [id, history] of this.#histories) {
        if (!this.#isKept(history.until)) continue;
        if (history.until > expiresAt) expiresAt = history.until;
        histories += entryText(id, history.until, history.save());
      }
    const banned = ban === NO_ENTRY ? NO_ENTRY_TEXT : JSON.stringify(ban);
    return { text: `[${banned},[${states.slice(1)}],[${histories.slice(1)}]]`, expiresAt };
  }

  /** The text of the loaded state without entries that have expired since. */
  #before(): string {
    const [ban, states, histories] = this.#loaded;
    const isKept = ([, [until]]: Entries[number]): boolean => this.#isKept(until);
    if (isNone(ban) && states.every(isKept) && histories.every(isKept)) return this.#loadedText;
    const kept = this.#isKept(ban[0]) ? ban : NO_ENTRY;
    return JSON.stringify([kept, states.filter(isKept), histories.filter(isKept)]);
  }

  #isKept(until: number): boolean {
    return until > 0 && until + EXPIRED_STATE_LIFE_MS > this.now;
  }
}

function isNone(entry: Entry): boolean {
  return entry.length === 1 && entry[0] === 0;
}

/** The last entry of an id. */
function entryOf(entries: Entries, id: string): Entry | undefined {
  for (let i = entries.length - 1; i >= 0; i--) if (entries[i]![0] === id) return entries[i]![1];
  return undefined;
}

/** An entry as JSON in a list, behind a comma. */
function entryText(id: string, until: number, saved: Saved): string {
  let text = `,[${JSON.stringify(id)},[${until}`;
  for (const value of saved) text += typeof value === 'number' ? `,${value}` : `,${JSON.stringify(value)}`;
  return `${text}]]`;
}
