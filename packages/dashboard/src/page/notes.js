// Notes: the results of the last changes, with their undo. One is open at a time, so that the buttons of the page stay free.
import { html, useEffect, useRef } from './lib.js';
import { Command, MAX_RESTORED } from './parts.js';
import { app, changed, openChange, useApp } from './state.js';
import { keyText, many, printable } from './text.js';
import { restoredText } from './undo.js';

/** The time for which a note is open, ms. */
const NOTE_MS = 20_000;

/** The most notes that are kept. */
const MAX_NOTES = 5;

let noteIds = 0;

/** Opens a note in place of the last one. @param {any} fields @param {boolean} [isUrgent] whether the note stays in the header until an operator closes it */
export function addNote(fields, isUrgent = false) {
  const note = { ...fields, id: ++noteIds };
  app.notes = [...app.notes, note].slice(-MAX_NOTES);
  app.openNotes = [note];
  setTimeout(isUrgent ? foldNote : closeNote, NOTE_MS, note);
  changed();
}

/** @param {any} note */
function foldNote(note) {
  app.openNotes = app.openNotes.filter((each) => each !== note);
  changed();
}

/** @param {any} note */
function closeNote(note) {
  app.notes = app.notes.filter((each) => each !== note);
  foldNote(note);
}

/** Closes the notes of changes that were undone. @param {string[]} ids */
export function forgetUndone(ids) {
  for (const note of app.notes)
    if (note.entries.length > 0 && note.entries.every((/** @type {string} */ id) => ids.includes(id)))
      closeNote(note);
}

/** The states that an undo restores, as far as the latest changes are known. @param {string[]} ids @param {any[]} rows */
function restoredBy(ids, rows) {
  const own = rows.filter(({ id }) => ids.includes(id));
  const texts = own.map((row) => {
    const text = restoredText(row);
    return text && ids.length > 1 ? `${keyText(row.name)}: ${text}` : text;
  });
  return texts.filter(Boolean).slice(0, MAX_RESTORED);
}

/** The button in the header that opens the notes, and closes them again. */
export function NotesButton() {
  const { notes, openNotes } = useApp();
  if (notes.length === 0) return null;
  const isOpen = openNotes.length === notes.length;
  const toggle = () => {
    app.openNotes = isOpen ? [] : notes;
    changed();
  };
  return html`<button type="button" class="small" aria-expanded=${isOpen} onClick=${toggle}>
    ${many(notes.length, 'note')}
  </button>`;
}

export function Notes() {
  const { openNotes, parts } = useApp();
  /** @type {{ current: any }} */
  const list = useRef(null);
  // The page leaves as much space below its content.
  useEffect(() => {
    document.documentElement.style.setProperty('--notes', `${list.current?.offsetHeight ?? 0}px`);
  });
  const undone = (parts.changes ?? []).filter((/** @type {any} */ row) => row.undoneBy !== undefined);
  useEffect(() => forgetUndone(undone.map((/** @type {any} */ row) => row.id)), [undone.length]);
  const undo = (/** @type {any} */ note) =>
    openChange({
      action: 'undo',
      ids: note.entries,
      what: note.text,
      restored: restoredBy(note.entries, parts.changes ?? []),
      reason: `undo: ${note.reason}`.slice(0, 500),
    });
  return html`<div class="notes" role="status" aria-live="polite" ref=${list}>
    ${openNotes.map(
      (note) =>
        html`<div class="note" key=${note.id}>
          <div>
            <b>${printable(note.text)}</b>${
              note.results?.length > 0 &&
              html`<ul>
                ${note.results.map((/** @type {string} */ text) => html`<li>${printable(text)}</li>`)}
              </ul>`
            }${note.line && html`<${Command} text=${note.line} label="The same on the command line" />`}${note.warnings.map((/** @type {any} */ warning) => html`<p class="warn">${printable(warning.message)}</p>`)}
          </div>
          ${note.entries.length > 0 && html`<button type="button" class="small" onClick=${() => undo(note)}>Undo</button>`}
          <button
            type="button"
            class="small ghost"
            aria-label="Close this note"
            onClick=${() => closeNote(note)}
          >
            ✕
          </button>
        </div>`,
    )}
  </div>`;
}
