import type { ChangeNote } from '../contract/change-note.js';
import type { ListedChange } from '../stores/journal.js';
import type { Owner } from './state.js';

/** The changes of a log, the newest first. */
export type Entries = Iterable<ListedChange> | AsyncIterable<ListedChange>;

/** The changes from a time on, ms since 1970. */
export async function* changesSince(entries: Entries, time: number): AsyncGenerator<ListedChange> {
  for await (const change of entries) if (change.at >= time) yield change;
}

/** The notes of the last logged bans. A ban of a network or of an import has none, because its entry in the log does not name the keys. */
export async function notesIn(entries: Entries, owners: readonly Owner[]): Promise<(ChangeNote | null)[]> {
  const wanted = new Set(owners.map(({ text }) => text));
  const notes = new Map<string, ChangeNote | null>();
  /** The changes that were undone: the ban in force is an earlier one. */
  const undone = new Set<string>();
  for await (const { action, who: text, by, reason, id, undoes } of entries) {
    // The log names the limiter of an owner of which the file has only one hash.
    const who = wanted.has(text) ? text : text.replace(/^[^:]*:(?=%#)/, '');
    if ((action !== 'ban' && action !== 'unban') || !wanted.has(who) || notes.has(who)) continue;
    if (action === 'ban' && undoes !== undefined) undone.add(undoes);
    if (undone.has(id) || (action === 'ban' && undoes !== undefined)) continue;
    notes.set(who, action === 'ban' && (by ?? reason) !== null ? { by, reason } : null);
  }
  return owners.map(({ text }) => notes.get(text) ?? null);
}
