import type { BanNote } from '../contract/ban-options.js';
import type { MaybePromise } from '../contract/store.js';
import type { Change, ListedChange } from '../stores/journal.js';
import type { ChangeLog, Owner } from './state.js';

/** The place of a log. */
interface Entries {
  append(change: Change): MaybePromise<void>;
  /** The newest first. */
  entries(): Iterable<ListedChange> | AsyncIterable<ListedChange>;
}

/** The log of changes beside the state of a single store. */
export class LocalLog implements ChangeLog {
  readonly #log: Entries;

  constructor(log: Entries) {
    this.#log = log;
  }

  async add(change: Change): Promise<undefined> {
    await this.#log.append(change);
    return undefined;
  }

  async *since(time: number): AsyncGenerator<ListedChange> {
    for await (const change of this.#log.entries()) if (change.at >= time) yield change;
  }

  /** The notes of the last logged bans. A ban of a network or of an import has none, because its entry in the log does not name the keys. */
  async notesOf(owners: readonly Owner[]): Promise<(BanNote | null)[]> {
    const wanted = new Set(owners.map(({ text }) => text));
    const notes = new Map<string, BanNote | null>();
    for await (const { action, who: text, by, reason } of this.#log.entries()) {
      // The log names the limiter of an owner of which the file has only one hash.
      const who = wanted.has(text) ? text : text.replace(/^[^:]*:(?=%#)/, '');
      if ((action !== 'ban' && action !== 'unban') || !wanted.has(who) || notes.has(who)) continue;
      notes.set(who, action === 'ban' && (by ?? reason) !== null ? { by, reason } : null);
    }
    return owners.map(({ text }) => notes.get(text) ?? null);
  }
}
