// The dialog of a change: the reason, and the equivalent command line.
import { html, useEffect, useRef, useState } from './lib.js';
import { bannedText, commandLine } from './command.js';
import { Limits, Plan } from './limits.js';
import { completed, hasLimits } from './plan.js';
import { addNote, forgetUndone } from './notes.js';
import { Command, Problem } from './parts.js';
import { app, openChange, post, refresh, useApp } from './state.js';
import { keyText, many, printable, shortened } from './text.js';
import { changesIn, ImportLimiter, keysIn, Lines } from './transfer.js';

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
    hint: '',
  },
  unban: {
    title: (c) => `Unban ${subjectText(c)}`,
    verb: 'Unban',
    done: 'Unbanned',
    kind: '',
    hint: 'Ends the ban, and forgets the denials before it. Charges stay: a key without quota is still denied.',
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
  import: {
    title: (c) => `Import ${c.kind}`,
    verb: 'Import',
    done: 'Imported',
    kind: '',
    hint: '',
  },
  undo: { title: () => 'Undo this change', verb: 'Undo', done: 'Undid', kind: '', hint: '' },
};

const LENGTHS = /** @type {Record<string, string[]>} */ ({
  ban: ['15m', '2h', '1d', '7d'],
  override: ['1h', '2h', '1d', '7d', ''],
  import: ['', '2h', '1d', '7d'],
});

/** The length of a ban or an override before an operator has chosen one. */
const DEFAULT_LENGTH = '2h';

const HINTS = /** @type {Record<string, string>} */ ({
  bans: 'Lines of an export, or a key in each line. No ban becomes shorter.',
  overrides: 'Lines of an export, or a key and its limits in each line. They are stored in your name.',
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
  const noLength = change.action === 'import' ? 'as in the lines' : 'no end';
  const label = (/** @type {string} */ value) => value || noLength;
  const choose = (/** @type {string} */ value) =>
    update({ for: value || undefined, until: undefined, hasOwnLength: undefined });
  return html`<fieldset>
    <legend>For how long${change.kind === 'bans' ? ', if a line has no end' : ''}</legend>
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

/** The last chosen duration of each kind of change. A change whose button names a duration keeps its own. @type {Record<string, string | undefined>} */
const lastLengths = { ban: DEFAULT_LENGTH, override: DEFAULT_LENGTH };

/** @param {any} change */
const withLastLength = (change) =>
  change.action in lastLengths && !change.until && !change.hasOwnLength
    ? { ...change, for: lastLengths[change.action] }
    : change;

const PATHS = /** @type {Record<string, string>} */ ({ undo: 'api/undo', import: 'api/import' });

/** The lines with an effect, and their keys if a line has several. @param {any} change @param {any} preview */
function importedText({ kind }, preview) {
  const lines = `Imported ${many(changesIn(preview), kind.slice(0, -1))}`;
  const keys = keysIn(preview);
  return keys > changesIn(preview) ? `${lines} of ${many(keys, 'key')}` : lines;
}

/** A limiter, with the dimension unless all keys have the same. @param {any} place */
const placeOfReset = ({ name, dimension }) => `${name}${dimension ? ` by ${dimension}` : ''}`;

/** The places of a reset. @param {any} change @returns {string} */
const placesText = ({ places }) => places.map(placeOfReset).join(', ');

/** Whether the places of a reset have other dimensions than its own. @param {any} change */
const isOfDimensions = ({ places, dimension }) =>
  places.some((/** @type {any} */ place) => place.dimension !== dimension);

/** The result in each place of a reset. @param {any} place */
const resultText = ({ error, policies, ...place }) =>
  `${placeOfReset(place)}: ${error ?? (policies.length > 0 ? `reset ${policies.join(', ')}` : 'nothing was charged')}`;

/** The number of changes that an undo left, by the reason. @param {any[]} undone */
function leftTexts(undone) {
  const lefts = undone.filter(({ error }) => error !== undefined);
  return [...new Set(lefts.map(({ error }) => error))].map((error) => {
    const { length } = lefts.filter((each) => each.error === error);
    return `${length} of ${many(undone.length, 'change')} not undone: ${error}`;
  });
}

/** The limiters of a change. @param {any} change */
function placeText({ name, places, all, key }) {
  if (all && key !== undefined)
    return places ? ` in ${printable(placesText({ places }))}` : ' in all limiters';
  return name ? ` in ${printable(name)}` : '';
}

/** The fields of a change that only the dialog shows. */
const SHOWN_ONLY = [
  'what',
  'plan',
  'facts',
  'left',
  'shared',
  'preview',
  'file',
  'fault',
  'hasOwnLength',
  'restored',
];

/** Sends a change, and leaves a note with its undo. @param {any} change */
async function make(change) {
  const { what, preview } = change;
  const body = Object.fromEntries(Object.entries(change).filter(([name]) => !SHOWN_ONLY.includes(name)));
  if (LENGTHS[change.action] && !change.until && !change.hasOwnLength)
    lastLengths[change.action] = change.for;
  const {
    warnings,
    entries,
    places = [],
    undone = [],
  } = await post(PATHS[change.action] ?? 'api/change', body);
  const text =
    change.action === 'undo'
      ? `Undid: ${what}`
      : change.action === 'import'
        ? importedText(change, preview)
        : `${TEXTS[change.action].done} ${change.all && change.key === undefined ? 'all keys' : subjectText(change)}${placeText(change)}`;
  const results = places.length > 1 ? places.map(resultText) : leftTexts(undone);
  if (change.action === 'undo')
    forgetUndone(change.ids.filter((/** @type {string} */ _, /** @type {number} */ i) => !undone[i]?.error));
  const isUrgent = warnings.length > 0 || [...places, ...undone].some(({ error }) => error);
  addNote({ text, results, warnings, entries, reason: change.reason }, isUrgent);
  refresh();
}

export function ChangeDialog() {
  const { change } = useApp();
  return change ? html`<${Form} key=${JSON.stringify(change)} given=${change} />` : null;
}

/** @param {any} props */
function Form({ given }) {
  const { parts } = useApp();
  const [change, setChange] = useState(() => withLastLength(given));
  const [state, setState] = useState({ isBusy: false, error: '' });
  /** @type {{ current: any }} */
  const dialog = useRef(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  const by = app.me?.by ?? '';
  const texts = TEXTS[change.action];
  const update = (/** @type {object} */ fields) =>
    setChange((/** @type {any} */ last) => ({ ...last, ...fields }));
  const close = () => dialog.current?.close();
  const reason = (change.reason ?? '').trim();
  const whole = { ...change, change: completed(change, given) };
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setState({ isBusy: true, error: '' });
    try {
      await make({ ...whole, reason });
      close();
    } catch (error) {
      setState({ isBusy: false, error: /** @type {Error} */ (error).message });
    }
  };
  const isImport = change.action === 'import';
  const hint =
    change.action === 'ban'
      ? `Every request of ${bannedText(change)} is denied until the ban ends.`
      : texts.hint;
  // A tenant's charges are those of the shared limit, which a reset of all places leaves, too.
  const left = change.all ? change.shared : change.left;
  const isChosen = change.action !== 'override' || change.change !== undefined;
  const isReady = isImport ? changesIn(change.preview) > 0 : isChosen;
  const isValid = hasLimits(whole);
  const flags = app.me?.flags;
  const command = isChosen && isValid ? commandLine({ ...whole, reason }, by, flags ?? []) : undefined;
  const canBeEverywhere =
    change.name && (change.action === 'ban' || change.action === 'unban' || change.places !== undefined);
  return html`<dialog ref=${dialog} aria-labelledby="dialog-title" onClose=${() => openChange(null)}>
    <form method="dialog" onSubmit=${submit}>
      <h2 id="dialog-title">${texts.title(change)}</h2>
      <p class="quiet">
        ${change.action === 'reset' && parts[`row ${change.name}`]?.slots && html`<b>The slots of running work are freed, too</b>, so more may run than the limit. `}${isImport ? html`${change.name !== undefined && html`In <b>${printable(change.name)}</b>${change.kind === 'bans' && ', unless a line names another limiter'}. `}${HINTS[change.kind]}${change.kind === 'bans' && change.name === undefined && ' A line with a key alone needs a limiter.'}` : change.what ? printable(change.what) : change.all && change.key !== undefined ? html`In all limiters${change.places ? ' with a record' : ''}${change.places && !change.name ? `: ${printable(placesText(change))}` : ''}. ${hint}` : html`In <b>${printable(change.name ?? '')}</b>${change.dimension ? `, as ${printable(change.dimension)}` : ''}. ${hint}`}
      </p>
      ${isImport && given.name === undefined && html`<${ImportLimiter} change=${change} update=${update} />`}
      ${isImport && html`<${Lines} change=${change} update=${update} />`}
      ${(change.restored ?? []).map((/** @type {string} */ text) => html`<p class="restored">${text}</p>`)}
      ${(change.facts ?? []).map((/** @type {string} */ text) => html`<p class="warn">${text}</p>`)}
      ${change.plan && html`<${Plan} change=${change} update=${update} />`}
      ${change.action === 'override' && html`<${Limits} change=${change} given=${given} update=${update} />`}
      ${LENGTHS[change.action] && html`<${Length} change=${change} update=${update} />`}
      ${canBeEverywhere && html`<label class="check"><input type="checkbox" checked=${change.all ?? false} onChange=${(/** @type {any} */ event) => update({ all: event.target.checked || undefined })} /> in all limiters${change.places ? `${isOfDimensions(change) ? ' and dimensions' : ''} with a record: ${printable(placesText(change))}` : ''}</label>`}
      ${change.action === 'remove' && parts[`row ${change.name}`]?.banRule && html`<label class="check"><input type="checkbox" name="unban" checked=${change.unban ?? false} onChange=${(/** @type {any} */ event) => update({ unban: event.target.checked || undefined })} /> also end the bans by denials since the override began</label>`}
      ${left?.length > 0 && html`<p class="warn">Stays charged: ${printable(left.join('; '))}. Each has an answer of its own on the page of the key.</p>`}
      ${change.action === 'unban' && html`<label class="check"><input type="checkbox" name="fresh" checked=${change.fresh ?? false} onChange=${(/** @type {any} */ event) => update({ fresh: event.target.checked || undefined })} /> forget the charges, too</label>`}
      <label class="field"
        ><span>Reason</span
        ><input
          name="reason"
          required
          maxlength="500"
          autofocus=${!isImport}
          autocomplete="off"
          placeholder="such as a ticket: INC-7"
          value=${change.reason ?? ''}
          onInput=${(/** @type {any} */ event) => update({ reason: event.target.value })}
      /></label>
      ${
        flags &&
        html`<div class="equivalent">
          <span class="quiet">The same on the command line</span>
          ${command === undefined ? html`<p class="quiet">${!isValid ? 'Write a valid limit first.' : isChosen ? 'A shell cannot pass this key.' : change.all ? 'Choose limits first. The change is for all tiers.' : 'Choose a tier first.'}</p>` : html`<${Command} text=${command} label="The same on the command line" />`}
        </div>`
      }
      ${state.error && html`<${Problem} text=${state.error} />`}
      <div class="buttons">
        <span class="quiet">as ${printable(by)}</span><button type="button" onClick=${close}>Cancel</button>
        <button
          type="submit"
          class=${`primary ${texts.kind}`}
          disabled=${state.isBusy || reason === '' || !isReady || !isValid}
        >
          ${texts.verb}
        </button>
      </div>
    </form>
  </dialog>`;
}
