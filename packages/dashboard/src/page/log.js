// The fourth screen: all changes.
import { html, useState } from './lib.js';
import { shellWord } from './command.js';
import { Failure } from './outage.js';
import { authorOf, Command, effectOf, Subject, Time, Undo, undoText, useFold, verbOf } from './parts.js';
import { get, useAnswer, useApp } from './state.js';
import { keyText, many, printable, shortened } from './text.js';
import { grouped } from './undo.js';

const AGES = /** @type {Record<string, string>} */ ({
  '1h': 'last hour',
  '1d': 'last day',
  '7d': 'last 7 days',
  '30d': 'last 30 days',
  all: 'all',
});
const KINDS = /** @type {Record<string, [label: string, actions: string[]]>} */ ({
  all: ['All', []],
  bans: ['Bans', ['ban', 'unban', 'import']],
  overrides: ['Overrides', ['override', 'remove']],
  resets: ['Resets', ['reset']],
  configurations: ['Configurations', ['configure']],
});

export function LogScreen() {
  const [since, setSince] = useState('1d');
  const [kind, setKind] = useState('all');
  const [query, setQuery] = useState('');
  const [isByHand, setByHand] = useState(false);
  const answer = useAnswer(() => get(`api/log?since=${since}`), [since], 5000);
  const { parts } = useApp();
  const { rows = [], isCut = false } = answer.value ?? {};
  const actions = KINDS[kind][1];
  const needle = query.trim().toLowerCase();
  const matches = (/** @type {any} */ row) =>
    [
      ...[keyText(row.key), keyText(row.network), keyText(row.name), row.by, row.reason],
      ...(row.imported ?? []).map((/** @type {any} */ each) => keyText(each.key)),
    ].some((text) => text?.toLowerCase().includes(needle));
  const shown = rows.filter(
    (/** @type {any} */ row) =>
      (actions.length === 0 || actions.includes(row.action)) &&
      !(isByHand && (row.from === 'denials' || row.action === 'configure')) &&
      (needle === '' || matches(row)),
  );
  const groups = grouped(shown);
  const folded = useFold(groups, 8);
  const words = [
    'headgate',
    'log',
    ...(since === 'all' ? [] : ['--since', since]),
    ...(actions.length > 0 ? ['--action', actions.join(',')] : []),
  ];
  return html`<div class="wide-screen">
    <h2 class="screen">Log</h2>
    <div class="filters">
      <label class="inline"
        ><span class="hidden">Age</span
        ><select value=${since} onChange=${(/** @type {any} */ event) => setSince(event.target.value)}>
          ${Object.entries(AGES).map(([value, label]) => html`<option value=${value}>${label}</option>`)}
        </select></label
      >
      <div class="chips" role="group" aria-label="Kind of change">
        ${Object.entries(KINDS).map(([value, [label]]) => html`<button type="button" aria-pressed=${kind === value} onClick=${() => setKind(value)}>${label}</button>`)}
      </div>
      <label class="check"
        ><input
          type="checkbox"
          checked=${isByHand}
          onChange=${(/** @type {any} */ event) => setByHand(event.target.checked)}
        />
        by people only</label
      >
      <label class="inline grow"
        ><span class="hidden">Filter changes</span
        ><input
          type="search"
          placeholder="Key, limiter, operator or reason"
          value=${query}
          onInput=${(/** @type {any} */ event) => setQuery(event.target.value)}
      /></label>
    </div>
    <${Failure} answer=${answer} />
    ${needle !== '' && rows.some((/** @type {any} */ row) => row.action === 'import' && row.keys > 1) && html`<p class="quiet">The filter knows the first keys of an import. <a href=${`#/key/${encodeURIComponent(query.trim().toWellFormed())}`}>All changes of the key ${shortened(printable(query.trim()), 40)}</a></p>`}
    ${
      shown.length === 0
        ? html`<p class="quiet">
            ${answer.isLoading ? 'Reading …' : answer.value ? 'There are no such changes.' : parts.store?.state === 'down' ? 'Unknown: the store does not answer.' : 'Unknown.'}
          </p>`
        : html`<table class="log">
              <thead>
                <tr>
                  <th scope="col">When</th>
                  <th scope="col">By</th>
                  <th scope="col">Change</th>
                  <th scope="col">Key</th>
                  <th scope="col">Limiter</th>
                  <th scope="col">Effect</th>
                  <th scope="col">Reason</th>
                  <th scope="col"><span class="hidden">Undo</span></th>
                </tr>
              </thead>
              <tbody>
                ${folded.shown.map(
                  (/** @type {any} */ row) =>
                    html`<tr key=${row.id}>
                      <td data-label="When"><${Time} at=${row.at} clock="seconds" /></td>
                      <td data-label="By"><b>${authorOf(row)}</b></td>
                      <td data-label="Change">${verbOf(row).replace(/ of\b/, '')}${undoText(row)}</td>
                      <td data-label="Key"><${Subject} row=${row} /></td>
                      <td data-label="Limiter">${keyText(row.name)}</td>
                      <td data-label="Effect">${effectOf(row)}</td>
                      <td data-label="Reason" class="reason">
                        ${row.reason ? printable(row.reason) : html`<span class="quiet">none</span>`}
                      </td>
                      <td class="acts"><${Undo} row=${row} rows=${rows} /></td>
                    </tr>`,
                )}
              </tbody>
            </table>
            ${folded.more}`
    }
    <p class="quiet">
      ${answer.value ? `${many(groups.length, 'change')}` : 'Unknown changes'}${isCut ? ', and older ones, which are not shown' : ''}.
      The same on the command line:
    </p>
    <${Command} text=${words.map(shellWord).join(' ')} label="The same on the command line" />
  </div>`;
}
