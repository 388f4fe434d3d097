// The keys of all limiters: those that are denied now, and the busiest.
import { html } from './lib.js';
import { Cause, Key, Unknown, useFold } from './parts.js';
import { endOf, keyText, printable, rate, span } from './text.js';

/** The cells of a key and of its limiter. @param {any} props */
function Place({ of: { key, dimension, within, name } }) {
  return html`<td data-label="Key">
      <${Key}
        of=${key}
        dimension=${dimension}
      />${within ? html` <span class="quiet">within ${keyText(within)}</span>` : ''}
    </td>
    <td data-label="Limiter">${printable(name)}</td>`;
}

/** The keys of all limiters that are denied now. @param {any} props */
export function DeniedKeys({ rows }) {
  const { shown, more } = useFold(rows, 4, 8);
  if (rows.length === 0) return null;
  return html`<h3>Denied keys <span class="quiet">of all limiters, in the last seconds</span></h3>
    <table class="log denied-keys">
      <thead>
        <tr>
          <th scope="col">Key</th>
          <th scope="col">Limiter</th>
          <th scope="col" class="number">Denied/s</th>
          <th scope="col">Cause</th>
          <th scope="col">End</th>
        </tr>
      </thead>
      <tbody>
        ${shown.map(
          (/** @type {any} */ each) =>
            html`<tr>
              <${Place} of=${each} />
              <td class="number" data-label="Denied/s"><b class="bad">${rate(each.denied)}</b></td>
              <td data-label="Cause">
                <${Cause} of=${each} />
              </td>
              <td data-label="End">
                ${each.retryAfterMs !== null || each.lacksSlots ? endOf(each) : each.bannedForMs > 0 ? `ban ends in ${span(each.bannedForMs)}` : each.within && each.isJudged ? html`<span class="quiet">as its share allows</span>` : each.isJudged ? html`<${Unknown} why="the answer depends on the request, or on the tier of the key" />` : html`<span class="quiet">reading …</span>`}
              </td>
            </tr>`,
        )}
      </tbody>
    </table>
    ${more}`;
}

/** The keys of all limiters with most requests, as far as each limiter reports its busiest keys. @param {any} props */
export function BusyKeys({ rows }) {
  const { shown, more } = useFold(rows, 4, 8);
  if (rows.length === 0) return null;
  return html`<h3>Busiest keys <span class="quiet">of all limiters, in the last seconds</span></h3>
    <table class="log busy-keys">
      <thead>
        <tr>
          <th scope="col">Key</th>
          <th scope="col">Limiter</th>
          <th scope="col" class="number">Requests/s</th>
          <th scope="col" class="number">Denied/s</th>
        </tr>
      </thead>
      <tbody>
        ${shown.map(
          (/** @type {any} */ each) =>
            html`<tr>
              <${Place} of=${each} />
              <td class="number" data-label="Requests/s">${rate(each.admitted + each.denied)}</td>
              <td class="number" data-label="Denied/s">${rate(each.denied)}</td>
            </tr>`,
        )}
      </tbody>
    </table>
    ${more}`;
}
