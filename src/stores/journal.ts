import type { ChangeNote } from '../contract/change-note.js';
import { escapeName } from './keys.js';

/** A change that a store logs for operators. */
export interface JournalEntry extends ChangeNote {
  /** `import`: bans of many keys. `remove`: the end of an override. `configure`: a limiter with other options. */
  readonly action: 'ban' | 'unban' | 'import' | 'override' | 'remove' | 'reset' | 'configure';
  /** The owner text: the limiter's name and the key. The key is empty for changes of no particular key. */
  readonly who: string;
  /** The count of keys. */
  readonly keys: number;
  /** The length of a ban or an override, ms. 0 without an end, and for all other actions. */
  readonly forMs: number;
  /**
   * `program`: a method of a limiter, such as `limiter.ban`, or a limiter with other options. `denials`: a ban by denials. `admin` and
   * `cli`: `headgate/admin`, and the command line.
   */
  readonly from: 'admin' | 'cli' | 'program' | 'denials';
  /** The value before: the rest of a ban (ms), the change of an override, or the options of a limiter. Absent if there was none. */
  readonly before?: unknown;
  /** The value after, as in `before`. Absent if there is none. */
  readonly after?: unknown;
  /** The id of the change that this one undoes. */
  readonly undoes?: string;
  /** The time that a change of many keys took until it was logged, ms. Absent for short ones. */
  readonly tookMs?: number;
}

/** The most changes of each kind that a store keeps: by operators, and by programs and denials without an operator. */
export const MAX_CHANGES = 10_000;

export const CHANGES_LIFE_MS = 366 * 24 * 60 * 60 * 1000;

/**
 * Whether no operator made a change. Such changes can be many, so they are kept apart, and never take the place of a change by an operator.
 */
export function isAutomatic({ action, from, by, reason }: JournalEntry): boolean {
  if (from === 'denials' || action === 'configure') return true;
  return action === 'reset' && from === 'program' && by === null && reason === null;
}

export function resetChange(who: string): JournalEntry {
  return { action: 'reset', who, keys: 1, forMs: 0, by: null, reason: null, from: 'program' };
}

/** The log entry of a limiter with other options, without the options before. */
export function configuredChange(name: string, after: object): JournalEntry {
  const who = `${escapeName(name)}:`;
  return { action: 'configure', who, keys: 0, forMs: 0, by: null, reason: null, from: 'program', after };
}

/** A change with the time of the store's clock, ms since 1970. */
export interface LoggedChange extends JournalEntry {
  readonly at: number;
}

/** A change in a log, with an id that is unique in the log. */
export interface ListedChange extends LoggedChange {
  readonly id: string;
}

/** A bounded log in memory, the oldest change first. */
export class ChangeLog {
  #byHand: ListedChange[] = [];
  #automatic: ListedChange[] = [];
  #lastId = 0;
  readonly #options = new Map<string, string>();

  add(change: LoggedChange): void {
    const list = isAutomatic(change) ? this.#automatic : this.#byHand;
    list.push({ ...change, id: String(++this.#lastId) });
    // Cuts rarely, because each cut moves all changes.
    if (list.length < 2 * MAX_CHANGES) return;
    list.splice(0, list.length - MAX_CHANGES);
  }

  newest(): readonly ListedChange[] {
    const all = [
      ...this.#byHand.slice(-MAX_CHANGES).reverse(),
      ...this.#automatic.slice(-MAX_CHANGES).reverse(),
    ];
    return all.sort((a, b) => b.at - a.at);
  }

  /** Logs the options of a limiter, if an earlier limiter of the same name had different options. */
  configure({ name, ...options }: { readonly name: string }, at: number): void {
    const text = JSON.stringify(options);
    const before = this.#options.get(name);
    if (before === text) return;
    if (before !== undefined)
      this.add({ ...configuredChange(name, options), before: JSON.parse(before) as object, at });
    if (this.#options.size >= MAX_CHANGES) this.#options.clear();
    this.#options.set(name, text);
  }

  clear(): void {
    this.#byHand = [];
    this.#automatic = [];
  }
}
