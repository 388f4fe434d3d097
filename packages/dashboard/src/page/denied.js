// The keys of an opened limiter: denied, by counts and by a search of their state, and busy.
import { Bar } from './charts.js';
import { overrideOf, sameKey, withEnd } from './key-facts.js';
import { html } from './lib.js';
import { asOf, multiplied } from './plan.js';
import { Act, Cause, Key, subjectOf, Time, useFold, whyUncounted } from './parts.js';
import { Failure } from './outage.js';
import { useApp } from './state.js';
import { endOf, many, printable, rate, span } from './text.js';

/** The time of a search, by this browser's clock. @param {any} props */
export function FoundAt({ answer: { value, readAt } }) {
  return value ? html` <span class="quiet">at <${Time} at=${readAt - value.ageMs} /></span>` : '';
}

/** Counts are those of the last seconds, so a search of the keys finds the others. @param {any} props */
export function DeniedNow({ row, counted, found, bans, overrides }) {
  const rows = found.value?.limited?.rows ?? [];
  const listed = new Set(counted.map(sameKey));
  const others = rows.filter((/** @type {any} */ each) => !listed.has(sameKey(each)));
  const total = useApp().parts.total ?? {};
  const text = searchText({ row, counted, others, found, spanMs: total.spanMs ?? 5000, bans });
  return html`<h3>Denied now<${FoundAt} answer=${found} /></h3>
    ${counted.length > 0 && html`<${Keys} rows=${counted.map((/** @type {any} */ each) => withEnd(each, rows, bans))} row=${row} overrides=${overrides} />`}
    ${others.length > 0 && html`<${Limited} rows=${others} />`}
    <${Failure} answer=${found} />${text && html`<p class="quiet" role="status">${text}</p>`}`;
}

/** The knowledge about other denied keys. Unknown is not none. @param {any} facts @returns {string} */
function searchText({ row, counted, others, found, spanMs, bans }) {
  const isListed = counted.length + others.length > 0;
  const none = row.rates.denied === 0 && !whyUncounted(row) && counted.length === 0;
  if (found.isLoading)
    return none ? `No denial was counted in the last ${span(spanMs)}, searching …` : 'Searching keys …';
  if (!found.value) return isListed ? 'Other denied keys are unknown.' : 'Unknown.';
  const { limited } = found.value;
  const other = isListed ? ' other' : '';
  if (!limited)
    return isListed ? '' : 'Unknown: the limits depend on the request, so no search finds denied keys.';
  const omitted = omittedText(limited);
  if (limited.unnamed > 0)
    return `Unknown of${other || ' some'} keys: ${many(limited.unnamed, 'key')} came before the dashboard was created, so their names are unknown.${omitted}`;
  if (limited.isCut)
    return `The search ended early${limited.rows.length > 0 ? '' : ` and found no${other} denied key`}. There may be more.${omitted}`;
  const isCounted = row.rates.denied > 0 && !isListed && bans.length === 0;
  if (isCounted)
    return `${rate(row.rates.denied)}/s are denied, of keys that the search did not find.${omitted}`;
  const banned = bans.length > 0 ? ' Banned keys are denied, too.' : '';
  return `${isListed ? '' : `No key is denied by a limit at a cost of 1: the search of all keys found none.${banned}`}${omitted}`;
}

/** The keys that are not listed. @param {any} limited @returns {string} */
const omittedText = ({ omitted }) =>
  omitted > 0
    ? ` ${many(omitted, 'key')} would be denied only by a tier that ${omitted === 1 ? 'it does' : 'they do'} not have, judging by the use.`
    : '';

/** The tier of a denied key. The tier of a key is unknown, so another tier may admit it. @param {any} key @returns {string} */
function inTier({ tier, certain }) {
  const where = tier ? `in tier ${printable(tier)}` : 'without a tier';
  return certain ? (tier ? `${where}, ` : '') : `only ${where}, `;
}

/** The keys that are denied by their state. @param {any} props */
function Limited({ rows }) {
  return html`<ul class="list">
    ${rows.map(
      (/** @type {any} */ each) =>
        html`<li>
          <div>
            <${Key} of=${each.key} dimension=${each.dimension} /><span class="quiet"
              >${each.within ? `within ${typeof each.within === 'string' ? printable(each.within) : 'a hidden key'}, ` : ''}${inTier(each)}by
              ${printable(each.policy ?? '')}${each.retryAfterMs === null ? '' : ` ${endOf(each)}`}</span
            >
          </div>
        </li>`,
    )}
  </ul>`;
}

/** @param {string} action @param {any} subject */
export const withAction = (action, subject) => subject && { action, ...subject };

/** @param {any} props */
export function Keys({ rows, row, overrides }) {
  const { name } = row;
  const { shown, more } = useFold(rows, 4, 8);
  const most = Math.max(...rows.map((/** @type {any} */ key) => key.denied + key.admitted));
  return html`<table class="keys">
      <thead>
        <tr>
          <th scope="col">Key</th>
          <th scope="col" class="number">Denied/s</th>
          <th scope="col" class="number">Admitted/s</th>
          <th scope="col">Policy</th>
          <th scope="col"><span class="hidden">Changes</span></th>
        </tr>
      </thead>
      <tbody>
        ${shown.map((/** @type {any} */ key) => {
          const subject = subjectOf(name, key);
          return html`<tr>
            <td data-label="Key">
              <${Key}
                of=${key.key}
                dimension=${key.dimension}
              />${key.within ? html` <span class="quiet">within ${typeof key.within === 'string' ? printable(key.within) : 'a hidden key'}</span>` : ''}${key.bannedForMs > 0 ? html` <span class="chip bad">banned</span>` : ''}${key.isOverridden ? html` <span class="chip warn">override</span>` : ''}
            </td>
            <td class="number" data-label="Denied/s">
              ${key.denied > 0 ? html`<b class="bad">${rate(key.denied)}</b>` : rate(key.denied)}
            </td>
            <td class="number" data-label="Admitted/s">${rate(key.admitted)}</td>
            <td data-label="Policy">
              ${key.policy || key.reason ? html`<${Cause} of=${key} />${typeof key.retryAfterMs === 'number' ? html`<div class="quiet">${endOf(key)}</div>` : ''}` : html`<${Bar} share=${(key.admitted + key.denied) / most} label="share of the busiest key" />`}
            </td>
            <td class="acts">
              ${key.bannedForMs > 0 ? html`<${Act} label="Unban" change=${withAction('unban', subject)} />` : row.bansBy.includes(key.dimension ?? 'key') && html`<${Act} label="Ban" kind="danger" change=${withAction('ban', subject)} />`}${row.overridden !== null && html`<${Act} label="Limits" title="Other limits for this key" change=${subject && multiplied(...asOf(row, subject, { ...key, override: overrideOf(key, overrides) }), 2, key.tier)} />`}<${Act}
                label="Reset"
                change=${withAction('reset', subject)}
              />
            </td>
          </tr>`;
        })}
      </tbody>
    </table>
    ${more}`;
}
