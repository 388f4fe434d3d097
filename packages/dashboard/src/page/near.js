// The keys of a limiter that have used most of a limit.
import { Bar } from './charts.js';
import { FoundAt } from './denied.js';
import { html } from './lib.js';
import { Failure } from './outage.js';
import { Key, useFold } from './parts.js';
import { count, percent, printable, rate, span } from './text.js';

/** The tier of a key, or the tier that it may have. @param {any} row @returns {string} */
function tierOf({ tier, certain = true }) {
  const where = tier ? `in tier ${printable(tier)}` : 'without a tier';
  return certain ? (tier ? ` ${where}` : '') : ` if the key is ${where}`;
}

/** The growth of the use, if it is known. @param {any} row */
function trendOf({ trend }) {
  if (trend === null)
    return html`<span class="quiet" title="It is known after four searches, 40 s">not known yet</span>`;
  return trend === 0
    ? html`<span class="quiet">steady</span>`
    : `${trend > 0 ? '+' : '−'}${rate(Math.abs(trend))}/s`;
}

/** The keys, with the time of the search. @param {any} props */
export function NearKeys({ answer }) {
  return html`<h3>Above 80 %<${FoundAt} answer=${answer} /></h3>
    <${Failure} answer=${answer} /><${NearRows} answer=${answer} />`;
}

/** @param {any} props */
function NearRows({ answer: { value, error } }) {
  const { rows = [], isCut = false, isUnknown = false } = value ?? {};
  const { shown, more } = useFold(rows, 6);
  if (error && !value) return html`<p class="quiet">Unknown.</p>`;
  if (rows.length === 0)
    return html`<p class="quiet">
      ${!value ? 'Searching keys …' : isUnknown ? 'Unknown: the limits depend on the request.' : isCut ? 'None among the keys that a search of two seconds reads.' : 'No key has used 80 % of a limit.'}
    </p>`;
  return html`<table class="keys">
      <thead>
        <tr>
          <th scope="col">Key</th>
          <th scope="col">Use</th>
          <th scope="col" class="number">Trend</th>
          <th scope="col" class="number">Full in</th>
        </tr>
      </thead>
      <tbody>
        ${shown.map(
          (/** @type {any} */ each) =>
            html`<tr>
              <td data-label="Key"><${Key} of=${each.key} dimension=${each.dimension} /></td>
              <td data-label="Use">
                <span class="nowrap">${count(each.used)} of ${count(each.limit)}</span>
                <span class="quiet">${printable(each.policy)}${tierOf(each)}</span
                ><${Bar}
                  share=${each.used / each.limit}
                  kind="bad"
                  label=${`${percent(each.used, each.limit)} used`}
                />
              </td>
              <td class="number" data-label="Trend">${trendOf(each)}</td>
              <td class="number" data-label="Full in">
                ${each.used >= each.limit ? html`<b class="bad">full</b>` : each.fullInMs === null ? html`<span class="quiet">–</span>` : span(each.fullInMs)}
              </td>
            </tr>`,
        )}
      </tbody>
    </table>
    ${more}${isCut && html`<p class="quiet">There may be more: the search reads keys for two seconds.</p>`}`;
}
