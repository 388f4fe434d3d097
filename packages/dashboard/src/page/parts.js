// Small parts of several screens.
import { html, useEffect, useState } from './lib.js';
import { isAmbiguous, shellWord } from './command.js';
import { app, get, openChange } from './state.js';
import { atTime, fullTimeOf } from './zone.js';
import { ago, causeText, count, keyText, limitsText, many, printable, shortened, span } from './text.js';
import { canUndo, restoredText } from './undo.js';

/** A key, short in tables, with the whole text as its title. @param {any} props */
export function Key({ of, dimension, link = true }) {
  const text = keyText(of);
  const isPlain = typeof of === 'string';
  const shown = html`<code title=${text.length > 64 ? shortened(text, 2000) : undefined}
    >${text.trim() === '' ? '(blank)' : shortened(text)}</code
  >`;
  const href = isPlain
    ? `#/key/${encodeURIComponent(of.toWellFormed())}${dimension ? `?by=${encodeURIComponent(dimension)}` : ''}`
    : '';
  return html`<span class="key"
    >${
      isPlain && link && of.length <= 1000 ? html`<a href=${href}>${shown}</a>` : shown
    }${dimension ? html` <span class="chip">${printable(dimension)}</span>` : ''}</span
  >`;
}

/** The fields of a change of a key that the store contains. @param {string} name @param {any} find */
export function subjectOf(name, { key, dimension, within }) {
  if (typeof key !== 'string' || within !== undefined || typeof name !== 'string') return undefined;
  return { name, key, ...(dimension && { dimension }), ...(isAmbiguous(key) && !dimension && { raw: true }) };
}

/** A button that opens the dialog of a change. Hidden from visitors that may not change limits. @param {any} props */
export function Act({ label, change, kind = '', title, name }) {
  if (!app.me || !change) return null;
  return html`<button
    type="button"
    class=${`small ${kind}`}
    title=${title}
    aria-label=${name}
    onClick=${() => openChange(change)}
  >
    ${label}
  </button>`;
}

/** @param {any} props */
export function Time({ at, clock }) {
  return html`<time datetime=${new Date(at).toISOString()} title=${fullTimeOf(at, 'seconds')}
    >${atTime(at, clock)} <span class="quiet">${ago(at)}</span></time
  >`;
}

/** The policy that denied a key last, or the reason. @param {any} props */
export function Cause({ of: { policy, reason = 'unknown', isOfShare } }) {
  return policy === undefined
    ? html`${causeText({ name: reason, isReason: true })}`
    : html`<code>${printable(policy)}</code>${isOfShare ? ', its fair share' : ''}`;
}

/** A value that is not known. @param {any} props */
export function Unknown({ why }) {
  return html`<span class="quiet" title=${why}>unknown</span>`;
}

/** The reason why the counts of a limiter are unknown. Empty if they are known. @param {any} row @returns {string} */
export function whyUncounted({ isCounted }) {
  if (isCounted) return '';
  return isCounted === false
    ? 'its store has counts: false'
    : 'no decision was counted in the last 15 minutes: there was none, or its store has counts: false';
}

/** @param {any} props */
export function Problem({ text }) {
  return html`<p class="problem" role="alert">${text}</p>`;
}

const phone = matchMedia('(max-width: 820px)');

/** The first items, with a button for the others. @param {any[]} items @param {number} few on a phone @param {number} [many] on a wide screen; all by default */
export function useFold(items, few, many = Infinity) {
  const [isNarrow, setNarrow] = useState(phone.matches);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const listener = () => setNarrow(phone.matches);
    phone.addEventListener('change', listener);
    return () => phone.removeEventListener('change', listener);
  }, []);
  const most = isNarrow ? few : many;
  if (isOpen || items.length <= most + 1) return { shown: items, more: '' };
  const more = html`<button type="button" class="more" onClick=${() => setOpen(true)}>
    Show ${items.length - most} more
  </button>`;
  return { shown: items.slice(0, most), more };
}

/** A sentence with a command line, if there is one for the store. @param {string} command @param {string} before @param {string} after */
export function toolHint(command, before, after) {
  const flags = app.me ? app.me.flags : [];
  if (!flags) return '';
  const words = ['headgate', ...command.split(' '), ...flags.map((each) => shellWord(each) ?? each)];
  return html`${before} <code>${words.join(' ')}</code> ${after}`;
}

/** A text with a button that copies it. @param {any} props */
export function Command({ text, label = 'Command line' }) {
  const [isCopied, setCopied] = useState(false);
  const copy = () =>
    navigator.clipboard.writeText(text).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    });
  return html`<div class="command">
    <pre tabindex="0" aria-label=${label}>${text}</pre>
    ${
      navigator.clipboard
        ? html`<button type="button" class="small ghost" onClick=${copy}>
            ${isCopied ? 'Copied' : 'Copy'}
          </button>`
        : ''
    }
  </div>`;
}

const VERBS = /** @type {Record<string, string>} */ ({
  ban: 'banned',
  unban: 'unbanned',
  import: 'imported bans of',
  override: 'changed the limits of',
  remove: 'ended the override of',
  reset: 'reset',
  configure: 'changed the configuration',
});

const AUTHORS = /** @type {Record<string, string>} */ ({
  denials: 'Denials',
  program: 'The program',
  cli: 'Somebody',
  admin: 'Somebody',
});

/** @param {any} row */
export const authorOf = (row) =>
  row.by === null || row.by === undefined ? AUTHORS[row.from] : printable(row.by);

/** @param {any} row */
export const verbOf = (row) => VERBS[row.action];

/** The mark of a change that is an undo. @param {any} row */
export const undoText = (row) => (row.undoes ? ' (an undo)' : '');

/** The values before and after. @param {any} row */
export function effectOf({ action, before, after, forMs, members }) {
  if (members) {
    const [first, ...others] = new Set(members.map(effectOf));
    return others.length > 0 ? 'other limits for each' : first;
  }
  if (action === 'ban' || action === 'import') return forMs > 0 ? `for ${span(forMs)}` : '';
  if (action === 'unban') return before ? `${span(before)} early` : '';
  if (action === 'reset') return '';
  if (action === 'configure') return configured(before, after);
  const change = [limitsText(before), limitsText(after)].filter(Boolean).join(' → ');
  return action === 'override' && forMs > 0 ? `${change} for ${span(forMs)}` : change;
}

/** The plans of a limiter that changed, without a tier and of each tier. @param {any} before @param {any} after */
function configured(before, after) {
  const plans = (/** @type {any} */ { policies = [], tiers = {} } = {}) =>
    new Map([
      ['', policies.join(', ')],
      ...Object.entries(tiers).map(([tier, texts]) => /** @type {const} */ ([tier, texts.join(', ')])),
    ]);
  const [old, now] = [plans(before), plans(after)];
  const changed = [...new Set([...old.keys(), ...now.keys()])].filter(
    (tier) => old.get(tier) !== now.get(tier),
  );
  const texts = changed.map(
    (tier) => `${tier ? `${tier}: ` : ''}${old.get(tier) || 'none'} → ${now.get(tier) || 'none'}`,
  );
  return printable(texts.join('; ')) || 'other options';
}

/** The most restored states that the dialog of an undo names. */
export const MAX_RESTORED = 5;

/** The button that undoes a logged change. @param {any} props */
export function Undo({ row, rows }) {
  if (row.undoneBy !== undefined) return html`<span class="quiet">undone</span>`;
  const undoable = (row.members ?? [row]).filter((/** @type {any} */ each) => canUndo(each, rows));
  if (!app.me || undoable.length === 0) return null;
  const restored = undoable.slice(0, MAX_RESTORED).map((/** @type {any} */ each) => {
    const text = restoredText(each);
    return text && row.members ? `${keyText(each.key)}: ${text}` : text;
  });
  if (undoable.length > MAX_RESTORED) restored.push(`and ${count(undoable.length - MAX_RESTORED)} more`);
  const what = `${verbOf(row)} ${row.keys === 1 ? keyText(row.key) : many(row.keys, 'key')}${undoText(row)}`;
  return html`<button
    type="button"
    class="small ghost"
    onClick=${() =>
      openChange({
        action: 'undo',
        ids: undoable.map((/** @type {any} */ { id }) => id),
        what,
        restored: restored.filter(Boolean),
        reason: row.reason ? `undo: ${row.reason}` : '',
      })}
  >
    Undo
  </button>`;
}

/** The key, the keys or the network of a logged change. @param {any} props */
export function Subject({ row }) {
  if (row.keys === 0) return html`<code>${keyText(row.name)}</code>`;
  if (row.keys === 1 && row.action !== 'import')
    return html`<${Key} of=${row.key} dimension=${row.dimension} />`;
  if (row.action === 'import' || row.members) return html`<${ImportedKeys} row=${row} />`;
  if (row.network === undefined) return html`<code>${many(row.keys, 'key')}</code>`;
  return html`<${Key} of=${row.network} />`;
}

/** The first keys of an import, and on request all. @param {any} props */
function ImportedKeys({ row: { id, keys, imported, members } }) {
  const [all, setAll] = useState(/** @type {any} */ (undefined));
  if (!imported)
    return html`<code>${many(keys, 'key')}</code> <span class="quiet">too many for the log to name</span>`;
  const left = keys - imported.length;
  const read = () =>
    members
      ? setAll(members)
      : get(`api/imported?id=${encodeURIComponent(id)}`).then(
          (answer) => setAll(answer.keys),
          (error) => setAll(error.message),
        );
  const shown = Array.isArray(all) ? all : imported;
  return html`<span class="imported"
    ><b>${many(keys, 'key')}</b>${': '}
    ${shown.map((/** @type {any} */ each, /** @type {number} */ i) => html`${i > 0 ? ', ' : ''}<${Key} of=${each.key} dimension=${each.dimension} />`)}${
      left > 0 &&
      !Array.isArray(all) &&
      html` <button type="button" class="small ghost" onClick=${read}>and ${count(left)} more</button>`
    }${typeof all === 'string' && html`<${Problem} text=${all} />`}</span
  >`;
}
