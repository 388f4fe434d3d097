// The dialog of a change: the reason, the equivalent command line, and afterwards a note with the undo.
import { html, useEffect, useRef, useState } from './lib.js';
import { commandLine } from './command.js';
import { Command, Problem } from './parts.js';
import { app, changed, openChange, post, refresh, useApp } from './state.js';
import { keyText, printable, shortened } from './text.js';

/** @param {any} change */
const subjectText = ({ key, all }) =>
  key === undefined || (all && key === undefined) ? 'all keys' : shortened(keyText(key), 80);

/** The texts of each action. @type {Record<string, { title: (change: any) => string, verb: string, done: string, kind: string, hint: string }>} */
const TEXTS = {
  ban: {
    title: (c) => `Ban ${subjectText(c)}`,
    verb: 'Ban',
    done: 'Banned',
    kind: 'danger',
    hint: 'Every request of this key is denied until the ban ends.',
  },
  unban: {
    title: (c) => `Unban ${subjectText(c)}`,
    verb: 'Unban',
    done: 'Unbanned',
    kind: '',
    hint: 'Ends the ban, and forgets the denials before it.',
  },
  override: {
    title: (c) => `Change the limits of ${c.all ? 'all keys' : subjectText(c)}`,
    verb: 'Change limits',
    done: 'Changed the limits of',
    kind: '',
    hint: 'At once, in every process. Spent units stay spent.',
  },
  remove: {
    title: (c) => `End the override of ${c.all ? 'all keys' : subjectText(c)}`,
    verb: 'End override',
    done: 'Ended the override of',
    kind: '',
    hint: 'The configured limits apply again.',
  },
  reset: {
    title: (c) => `Reset ${subjectText(c)}`,
    verb: 'Reset',
    done: 'Reset',
    kind: '',
    hint: 'Forgets the charges of the key: its quota is full again. A ban stays. This cannot be undone.',
  },
  undo: { title: () => 'Undo this change', verb: 'Undo', done: 'Undid', kind: '', hint: '' },
};

const LENGTHS = /** @type {Record<string, string[]>} */ ({
  ban: ['15m', '2h', '1d', '7d'],
  override: ['1h', '1d', '7d', ''],
});

/** The end of this day, where the operator is. */
function tomorrow() {
  const date = new Date();
  date.setHours(24, 0, 0, 0);
  return date.toISOString().replace(/:00\.000Z$/, 'Z');
}

/** The choice of a duration. @param {any} props */
function Length({ change, update }) {
  const chosen = change.until ? 'tomorrow' : (change.for ?? '');
  const options = LENGTHS[change.action];
  const label = (/** @type {string} */ value) => (value === '' ? 'no end' : value);
  const choose = (/** @type {string} */ value) => update({ for: value || undefined, until: undefined });
  return html`<fieldset>
    <legend>For how long</legend>
    <div class="chips">
      ${options.map((value) => html`<label class="pick"><input type="radio" name="length" checked=${chosen === value} onChange=${() => choose(value)} /><span>${label(value)}</span></label>`)}
      ${change.action === 'override' ? html`<label class="pick"><input type="radio" name="length" checked=${chosen === 'tomorrow'} onChange=${() => update({ for: undefined, until: tomorrow() })} /><span>until tomorrow</span></label>` : ''}
      <input
        class="length"
        aria-label="Another duration"
        placeholder="3h"
        value=${options.includes(chosen) || chosen === 'tomorrow' ? '' : chosen}
        onInput=${(/** @type {any} */ event) => choose(event.target.value.trim())}
      />
    </div>
  </fieldset>`;
}

/** The new limits of an override, by policy. @param {any} props */
function Limits({ change, update }) {
  const texts = typeof change.change === 'string' ? { '': change.change } : (change.change ?? {});
  const set = (/** @type {string} */ name, /** @type {string} */ text) =>
    update({ change: name === '' ? text : { ...texts, [name]: text } });
  return Object.entries(texts).map(
    ([name, text]) =>
      html`<label class="field"
        ><span>${name === '' ? 'Limit' : `Limit of ${printable(name)}`}</span>
        <input
          value=${text}
          required
          spellcheck="false"
          autocomplete="off"
          onInput=${(/** @type {any} */ event) => set(name, event.target.value)}
      /></label>`,
  );
}

/** Sends a change, and leaves a note with its undo. @param {any} change */
async function make(change) {
  const { what, ...body } = change;
  const { warnings, entries } = await post(change.action === 'undo' ? 'api/undo' : 'api/change', body);
  const text =
    change.action === 'undo'
      ? `Undid: ${what}`
      : `${TEXTS[change.action].done} ${change.all && change.key === undefined ? 'all keys' : subjectText(change)}${change.name ? ` in ${printable(change.name)}` : ''}`;
  const note = { id: Date.now(), text, warnings, entries, reason: change.reason };
  app.notes = [...app.notes.slice(-2), note];
  refresh();
}

export function ChangeDialog() {
  const { change } = useApp();
  return change ? html`<${Form} key=${JSON.stringify(change)} given=${change} />` : null;
}

/** @param {any} props */
function Form({ given }) {
  const [change, setChange] = useState(given);
  const [state, setState] = useState({ isBusy: false, error: '' });
  /** @type {{ current: any }} */
  const dialog = useRef(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  const by = app.me?.by ?? '';
  const texts = TEXTS[change.action];
  const update = (/** @type {object} */ fields) => setChange({ ...change, ...fields });
  const close = () => dialog.current?.close();
  const reason = (change.reason ?? '').trim();
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setState({ isBusy: true, error: '' });
    try {
      await make({ ...change, reason });
      close();
    } catch (error) {
      setState({ isBusy: false, error: /** @type {Error} */ (error).message });
    }
  };
  const command = commandLine({ ...change, reason }, by);
  const canBeEverywhere = (change.action === 'ban' || change.action === 'unban') && change.name;
  return html`<dialog ref=${dialog} aria-labelledby="dialog-title" onClose=${() => openChange(null)}>
    <form method="dialog" onSubmit=${submit}>
      <h2 id="dialog-title">${texts.title(change)}</h2>
      <p class="quiet">
        ${change.what ? printable(change.what) : change.all && change.key !== undefined ? html`In all limiters. ${texts.hint}` : html`In <b>${printable(change.name ?? '')}</b>${change.dimension ? `, as ${printable(change.dimension)}` : ''}. ${texts.hint}`}
      </p>
      ${change.action === 'override' && html`<${Limits} change=${change} update=${update} />`}
      ${LENGTHS[change.action] && html`<${Length} change=${change} update=${update} />`}
      ${canBeEverywhere && html`<label class="check"><input type="checkbox" checked=${change.all ?? false} onChange=${(/** @type {any} */ event) => update({ all: event.target.checked || undefined })} /> in all limiters</label>`}
      <label class="field"
        ><span>Reason</span
        ><input
          name="reason"
          required
          maxlength="500"
          autofocus
          autocomplete="off"
          placeholder="such as a ticket: INC-7"
          value=${change.reason ?? ''}
          onInput=${(/** @type {any} */ event) => update({ reason: event.target.value })}
      /></label>
      <div class="equivalent">
        <span class="quiet">The same on the command line</span>
        ${command === undefined ? html`<p class="quiet">A shell cannot pass this key.</p>` : html`<${Command} text=${command} label="The same on the command line" />`}
      </div>
      ${state.error && html`<${Problem} text=${state.error} />`}
      <div class="buttons">
        <span class="quiet">as ${printable(by)}</span><button type="button" onClick=${close}>Cancel</button>
        <button type="submit" class=${`primary ${texts.kind}`} disabled=${state.isBusy || reason === ''}>
          ${texts.verb}
        </button>
      </div>
    </form>
  </dialog>`;
}

/** The results of the last changes. */
export function Notes() {
  const { notes } = useApp();
  const close = (/** @type {any} */ note) => {
    app.notes = app.notes.filter((each) => each !== note);
    changed();
  };
  const undo = (/** @type {any} */ note) => {
    close(note);
    openChange({
      action: 'undo',
      ids: note.entries,
      what: note.text,
      reason: `undo: ${note.reason}`.slice(0, 500),
    });
  };
  return html`<div class="notes" role="status" aria-live="polite">
    ${notes.map(
      (note) =>
        html`<div class="note" key=${note.id}>
          <div>
            <b>${printable(note.text)}</b
            >${note.warnings.map((/** @type {any} */ warning) => html`<p class="warn">${printable(warning.message)}</p>`)}
          </div>
          ${note.entries.length > 0 && html`<button type="button" class="small" onClick=${() => undo(note)}>Undo</button>`}
          <button type="button" class="small ghost" aria-label="Close this note" onClick=${() => close(note)}>
            ✕
          </button>
        </div>`,
    )}
  </div>`;
}
