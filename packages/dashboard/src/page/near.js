// The keys of a limiter, or of all, that have used most of a limit.
import { Bar } from './charts.js';
import { FoundAt } from './denied.js';
import { html } from './lib.js';
import { Failure } from './outage.js';
import { Key, Time, useFold } from './parts.js';
import { get, useAnswer } from './state.js';
import { count, keyText, many, percent, printable, rate, span } from './text.js';

/** The tier of a key, or the tier that it may have. @param {any} row @returns {string} */
function tierOf({ tier, certain = true }) {
  const where = tier ? `in tier ${printable(tier)}` : 'without a tier';
  return certain ? (tier ? ` ${where}` : '') : ` if the key is ${where}`;
}

/** The growth of the use, if it is known. @param {any} row */
function trendOf({ trend }) {
  if (trend === null)
    return html`<span class="quiet" title="It is known after four searches of all keys">not known yet</span>`;
  return trend === 0
    ? html`<span class="quiet">steady</span>`
    : `${trend > 0 ? '+' : '−'}${rate(Math.abs(trend))}/s`;
}

/** The time until a limit is used up. @param {any} row */
function fullIn({ used, limit, fullInMs }) {
  if (used >= limit) return html`<b class="bad">full</b>`;
  return fullInMs === null
    ? html`<span class="quiet"
        ><span aria-hidden="true">–</span><span class="hidden">no forecast</span></span
      >`
    : html`<b class=${fullInMs < SOON_MS ? 'bad' : ''}>${span(fullInMs)}</b>`;
}

/** The time in which a limit is soon used up, ms. */
const SOON_MS = 15 * 60_000;

/** The keys of a limiter, with the time of the search. @param {any} props */
export function NearKeys({ answer }) {
  const { rows = [], isCut = false, isUnknown = false } = answer.value ?? {};
  return html`<h3>Above 80 %<${FoundAt} answer=${answer} /></h3>
    <${Failure}
      answer=${answer}
    />${rows.length > 0 ? html`<${NearTable} rows=${rows} few=${6} />${isCut && html`<p class="quiet">There may be more: the search reads keys for two seconds.</p>`}` : html`<p class="quiet">${noneText(answer, isUnknown, isCut)}</p>`}`;
}

/** The knowledge without a row. @param {any} answer @param {boolean} isUnknown @param {boolean} isCut */
function noneText({ value, error }, isUnknown, isCut) {
  if (!value) return error ? 'Unknown.' : 'Searching keys …';
  if (isUnknown) return 'Unknown: the limits depend on the request.';
  return isCut
    ? 'None among the keys that a search of two seconds reads.'
    : 'No key has used 80 % of a limit.';
}

/** The time between two questions about all limiters, ms. */
const ALL_MS = 10_000;

/** The keys of all limiters that have used most of a limit. @param {any} props */
export function NearOfAll({ isOld }) {
  const answer = useAnswer(() => get('api/near'), [], ALL_MS);
  const { rows = [] } = answer.value ?? {};
  return html`<section aria-labelledby="near-all">
    <h3 id="near-all">Above 80 % of a limit <span class="quiet">of all limiters</span></h3>
    ${rows.length > 0 && html`<${NearTable} rows=${rows} few=${3} isOfAll=${true} />`}
    <p class="quiet">
      ${answer.value ? html`<${Coverage} ...${answer.value} />` : isOld ? 'Unknown.' : answer.error ? `Unknown: ${answer.error}` : 'Searching keys …'}${answer.value && answer.error && !isOld ? ` Now unknown: ${answer.error}` : ''}
    </p>
  </section>`;
}

/** The keys that were read. @param {any} props */
function Coverage({ rows, old, at, checked, isCut, unjudged, unnamed }) {
  const read = `${rows.length > 0 ? 'Of' : at && old === 0 ? 'No key has used 80 % of a limit, of' : 'None so far, of'} ${many(checked, 'key')} read`;
  const others = unjudged.map(printable).join(', ');
  return html`${read}${at ? html` at <${Time} at=${at} />` : ', the first round goes on'}${old > 0 ? `; ${many(old, 'earlier row')} ${old === 1 ? 'is' : 'are'} too old, reading again` : ''}${isCut ? '; there may be more' : ''}${unjudged.length > 0 ? `; unknown of ${others}, whose limits are not known` : ''}${unnamed > 0 ? `; unknown of ${many(unnamed, 'key')} from before the dashboard was created` : ''}.`;
}

/** The reason why a use may be more than the units of the last window. */
const SEGMENTED =
  'The use of a sliding window includes its oldest segment, as the limiter counts it, so by default it is the use of up to a tenth more than the window: of the last 66 seconds for 1m.';

/** @param {any} props */
function NearTable({ rows, few, isOfAll = false }) {
  const { shown, more } = useFold(rows, few, 12);
  return html`<table class=${isOfAll ? 'log near-keys' : 'keys'}>
      <thead>
        <tr>
          <th scope="col">Key</th>
          ${isOfAll && html`<th scope="col">Limiter</th>`}
          <th scope="col">Use</th>
          <th scope="col" class="number">Trend</th>
          <th scope="col" class="number">Full in</th>
        </tr>
      </thead>
      <tbody>
        ${shown.map(
          (/** @type {any} */ each) =>
            html`<tr>
              <td data-label="Key">
                <${Key}
                  of=${each.key}
                  dimension=${each.dimension}
                />${each.within ? html` <span class="quiet">within ${keyText(each.within)}</span>` : ''}
              </td>
              ${isOfAll && html`<td data-label="Limiter">${keyText(each.name)}</td>`}
              <td data-label="Use">
                <span class="nowrap" title=${each.isSegmented ? SEGMENTED : undefined}
                  >${count(each.used)} of ${count(each.limit)}</span
                >
                <span class="quiet"
                  >${each.policy === 'default' ? '' : printable(each.policy)}${tierOf(each)}</span
                ><${Bar}
                  share=${each.used / each.limit}
                  kind="bad"
                  label=${`${percent(each.used, each.limit)} used`}
                />
              </td>
              <td class="number" data-label="Trend">${trendOf(each)}</td>
              <td class="number" data-label="Full in">${fullIn(each)}</td>
            </tr>`,
        )}
      </tbody>
    </table>
    ${rows.some((/** @type {any} */ each) => each.isSegmented) && html`<p class="quiet">${SEGMENTED}</p>`}${more}`;
}
