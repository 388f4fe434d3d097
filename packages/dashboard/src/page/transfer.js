// Export and import of bans and overrides, as lines that the command line writes and reads.
import { html, useEffect } from './lib.js';
import { policyParts, shellWord } from './command.js';
import { addNote } from './notes.js';
import { Act, Key, Problem } from './parts.js';
import { app, getText, post, useApp } from './state.js';
import { count, limitsText, many, printable, span } from './text.js';
import { MAX_UNDONE } from './undo.js';

/** The most lines that are shown. */
const SHOWN = 200;

/** The most warnings that are shown. */
const SHOWN_DOUBTS = 3;

/** The pause after the last typed character before the effects are asked for, ms. */
const PAUSE_MS = 300;

/** Saves the lines of a limiter, or of all, as a file. @param {string} kind @param {string} [name] */
async function save(kind, name) {
  const words = kind === 'bans' ? ['bans', 'export'] : ['overrides', '--json'];
  const store = app.me?.flags;
  const all = ['headgate', ...words, ...(name === undefined ? [] : ['--name', name]), ...(store ?? [])];
  const command = all.map(shellWord);
  const query = new URLSearchParams({ kind, ...(name !== undefined && { name }) });
  let text;
  try {
    const lines = await getText(`api/export?${query}`);
    const url = URL.createObjectURL(new Blob([lines], { type: 'application/x-ndjson' }));
    const link = document.createElement('a');
    Object.assign(link, { href: url, download: `${kind}.jsonl` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
    text = `Exported ${many(lines.split('\n').length - 1, 'line')} to ${kind}.jsonl`;
  } catch (error) {
    text = `The export failed: ${/** @type {Error} */ (error).message}`;
  }
  const line = !store || command.includes(undefined) ? '' : `${command.join(' ')} > ${kind}.jsonl`;
  addNote({ text, warnings: [], entries: [], line });
}

/** The buttons that export and import. @param {any} props */
export function Transfer({ kind, name, row, what = '' }) {
  if (!app.me) return null;
  const dimension = row && dimensionOf(kind, row);
  const change = { action: 'import', kind, text: '', ...(name !== undefined && { name }), dimension };
  return html`<span class="transfer"
    >${!app.hideKeys && html`<button type="button" class="small ghost" aria-label=${`Export ${kind}`} onClick=${() => save(kind, name)}>Export${what}</button>`}<${Act}
      label=${`Import${what}`}
      name=${`Import ${kind}`}
      kind="ghost"
      change=${change}
  /></span>`;
}

/** The dimension of keys in lines without one, if the limiter does not count or ban by `key`. @param {string} kind @param {any} row */
function dimensionOf(kind, { bansBy, policies }) {
  const all =
    kind === 'bans' ? bansBy : policies.map((/** @type {string} */ text) => policyParts(text).dimension);
  return all.includes('key') ? undefined : all[0];
}

/** The choice of the limiter of lines without one. @param {any} props */
export function ImportLimiter({ change: { kind, name }, update }) {
  const { parts } = useApp();
  const rows = Object.keys(parts)
    .filter((part) => part.startsWith('row '))
    .map((part) => parts[part])
    .filter(({ bans, overridden }) => (kind === 'bans' ? bans : overridden !== null))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const choose = (/** @type {string} */ value) => {
    const row = rows.find((each) => each.name === value);
    update({ name: row?.name, dimension: row && dimensionOf(kind, row), preview: undefined });
  };
  return html`<label class="field"
    ><span>Limiter${kind === 'bans' ? ' of lines without one' : ''}</span
    ><select
      name="limiter"
      value=${name ?? ''}
      onChange=${(/** @type {any} */ event) => choose(event.target.value)}
    >
      <option value="">
        ${kind === 'bans' ? 'none: each line names its limiter' : 'choose a limiter …'}
      </option>
      ${rows.map((row) => html`<option value=${row.name}>${printable(row.name)}</option>`)}
    </select></label
  >`;
}

/** @param {any} props */
export function Lines({ change, update }) {
  const { kind, name, text, for: length, dimension, preview, fault } = change;
  const lacksLimiter = kind === 'overrides' && name === undefined;
  useEffect(() => {
    if (text.trim() === '' || lacksLimiter) return update({ preview: undefined, fault: undefined });
    let isWanted = true;
    const ask = () =>
      post('api/preview', { kind, name, text, for: length, dimension }).then(
        (found) => isWanted && update({ preview: found, fault: undefined }),
        (error) => isWanted && update({ preview: undefined, fault: error.message }),
      );
    const timer = setTimeout(ask, PAUSE_MS);
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [text, length, name]);
  // Edited lines are not those of the file.
  const type = (/** @type {object} */ fields) => update({ preview: undefined, file: undefined, ...fields });
  const choose = async (/** @type {any} */ event) => {
    const [file] = event.target.files;
    if (file) type({ text: await file.text(), file: file.name });
  };
  return html`<label class="field"
      ><span>A file</span
      ><input type="file" name="file" accept=".jsonl,.json,.txt,.csv,text/*" onChange=${choose}
    /></label>
    <label class="field"
      ><span>or its lines</span
      ><textarea
        name="lines"
        rows="4"
        spellcheck="false"
        autocomplete="off"
        placeholder=${kind === 'bans' ? '203.0.113.7' : 'customer:42 1000/1m'}
        value=${text}
        onInput=${(/** @type {any} */ event) => type({ text: event.target.value })}
      ></textarea>
    </label>
    <div role="status">
      ${fault ? html`<${Problem} text=${fault} />` : preview ? html`<${Effects} ...${preview} kind=${kind} name=${name} text=${text} type=${type} />` : text.trim() === '' ? '' : html`<p class="quiet">${lacksLimiter ? 'Choose a limiter first.' : 'Checking …'}</p>`}
    </div>`;
}

const EFFECTS = /** @type {Record<string, [label: string, kind: string]>} */ ({
  refused: ['refused', 'bad'],
  longer: ['longer', 'warn'],
  changed: ['changed', 'warn'],
  new: ['new', 'good'],
  same: ['unchanged', ''],
});

/** @param {any} row */
const effectIn = ({ error, effect }) => (error === undefined ? effect : 'refused');

/** The number of lines with an effect that an import would have. Zero if a line is refused. @param {any} preview */
export function changesIn(preview) {
  const effects = (preview?.rows ?? []).map(effectIn);
  return effects.includes('refused')
    ? 0
    : effects.filter((/** @type {string} */ effect) => effect !== 'same').length;
}

/** The number of keys that an import would change. @param {any} preview @returns {number} */
export const keysIn = (preview) =>
  (preview?.rows ?? []).reduce(
    (/** @type {number} */ sum, /** @type {any} */ row) =>
      sum + (effectIn(row) === 'same' ? 0 : (row.keys ?? 0)),
    0,
  );

/** The texts of the warnings, each once. @param {any[]} rows @returns {string[]} */
const doubtsIn = (rows) => [
  ...new Set(rows.flatMap(({ warnings = [] }) => warnings.map((/** @type {any} */ { message }) => message))),
];

/** @param {any} props */
function Effects({ rows, skipped, kind, name, text, type }) {
  const groups = Object.entries(EFFECTS).map(([effect, [label, color]]) => ({
    ...{ label, color },
    own: rows.filter((/** @type {any} */ row) => effectIn(row) === effect),
  }));
  const refused = groups[0].own;
  const sorted = groups.flatMap(({ own, ...look }) =>
    own.map((/** @type {any} */ row) => ({ ...look, row })),
  );
  const keys = keysIn({ rows });
  const doubts = doubtsIn(rows);
  const without = () => {
    const wrong = new Set(refused.map((/** @type {any} */ { line }) => line));
    const lines = text.split(/\r?\n/);
    type({
      text: lines.filter((/** @type {string} */ _, /** @type {number} */ i) => !wrong.has(i + 1)).join('\n'),
    });
  };
  const sums = groups
    .filter(({ own }) => own.length > 0)
    .map(({ label, own }) => `${count(own.length)} ${label}`);
  if (skipped > 0) sums.push(`${count(skipped)} skipped, because they have ended or are not bans`);
  return html`<p><b>${sums.join(', ') || 'No line has a ban or an override'}</b></p>
    ${refused.length > 0 && html`<p class="warn">Nothing can be imported with ${many(refused.length, 'refused line')}. <button type="button" class="small" onClick=${without}>Leave out the refused lines</button></p>`}
    ${doubts.slice(0, SHOWN_DOUBTS).map((text) => html`<p class="warn">${printable(text)}</p>`)}
    ${doubts.length > SHOWN_DOUBTS && html`<p class="warn">There are ${many(doubts.length - SHOWN_DOUBTS, 'more warning')}.</p>`}
    ${keys > MAX_UNDONE && html`<p class="warn">An import of more than ${count(MAX_UNDONE)} keys cannot be undone as one.</p>`}
    <ul class="list effects" tabindex="0" aria-label="Effect of each line">
      ${sorted.slice(0, SHOWN).map(
        ({ label, color, row }) =>
          html`<li>
            <div>
              ${row.error === undefined ? html`${row.key === undefined ? html`<b>all keys</b>` : html`<${Key} of=${row.key} dimension=${row.dimension} link=${false} />`}<span class="quiet">${effectText(kind, name, row)}</span>` : html`<code>${printable(row.text)}</code><span class="bad">line ${row.line}: ${printable(row.error)}</span>`}
            </div>
            <span class=${`chip ${color}`}>${label}</span>
          </li>`,
      )}
      ${sorted.length > SHOWN && html`<li class="quiet">and ${count(sorted.length - SHOWN)} more</li>`}
    </ul>`;
}

/** @param {string} kind @param {string | undefined} given the limiter of the dialog @param {any} row */
function effectText(kind, given, { name, keys, before, after }) {
  const where = typeof name !== 'string' || name === given ? '' : `in ${printable(name)}: `;
  if (kind === 'overrides') {
    const old = before ? `${limitsText(before.change)} → ` : '';
    return `${where}${old}${limitsText(after)}`;
  }
  const of = keys > 1 ? `${count(keys)} keys, ` : '';
  return `${where}${of}${before > 0 ? `${span(before)} left → ` : ''}${span(after)}`;
}
