import type { ListedChange } from '../stores/journal.js';

/** The undos in a log, which is read from the newest change on. An undo that was undone does not count. */
export class Undos {
  readonly #undos = new Map<string, ListedChange>();

  /** The undo of the next change of the log, or `undefined`. */
  of(change: ListedChange): ListedChange | undefined {
    const undo = this.#undos.get(change.id);
    const { undoes } = change;
    if (undoes !== undefined && !undo && !this.#undos.has(undoes)) this.#undos.set(undoes, change);
    return undo;
  }
}
