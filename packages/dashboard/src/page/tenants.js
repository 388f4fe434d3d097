// The tenants of a shared limit.
import { Bar } from './charts.js';
import { withRates } from './key-facts.js';
import { html } from './lib.js';
import { Key, Unknown, useFold } from './parts.js';
import { causeText, count, endOf, percent, printable, rate } from './text.js';

/** The answer to a tenant, in words. @param {any} tenant */
function answerOf({ allowed, policy, denying, reason, ...end }) {
  if (allowed) return html`<span class="good">admitted</span>`;
  const why =
    reason === 'fair-share'
      ? 'its share is used up'
      : denying === null || denying === policy
        ? causeText({ name: reason, isReason: true })
        : `denied by ${printable(denying)}`;
  return html`<span class="bad">${why}</span
    >${end.retryAfterMs ? html` <span class=${end.lacksSlots ? 'quiet' : 'quiet nowrap'}>${endOf(end)}</span>` : ''}`;
}

/** @param {any} props */
export function Tenants({ rows, keys, why }) {
  const { shown, more } = useFold(withRates(rows, keys), 4);
  return html`<h3>Tenants <span class="quiet">${count(rows.length)}</span></h3>
    <table class="keys">
      <thead>
        <tr>
          <th scope="col">Tenant</th>
          <th scope="col">Share and use</th>
          <th scope="col" class="number">
            <abbr
              title="That of the requests of a heavy tenant; of a light one, that of its override or of the policy"
              >Weight</abbr
            >
          </th>
          <th scope="col" class="number">Denied/s</th>
          <th scope="col">Answer</th>
        </tr>
      </thead>
      <tbody>
        ${shown.map((/** @type {any} */ each) => {
          const { policy, tier, within, limit, share, used, weight, isHeavy, denied, deniedBy } = each;
          return html`<tr key=${JSON.stringify([tier, policy, each.key, within])}>
            <td data-label="Tenant">
              <${Key} of=${each.key} dimension=${each.dimension} />
              <div class="quiet">
                ${printable(policy)}${tier ? ` in tier ${printable(tier)}` : ''}, within
                ${typeof within === 'string' ? printable(within) : 'a hidden key'}
              </div>
            </td>
            <td data-label="Share and use">
              <span class="nowrap"
                >${used === null ? `a share of ${count(share)}` : `${count(used)} of its ${count(share)} used`}</span
              >
              <span class="quiet nowrap">the limit is ${count(limit)}</span
              >${used === null ? '' : html`<${Bar} share=${used / Math.max(1, share)} kind=${used >= share ? 'bad' : ''} label=${`${percent(used, Math.max(1, share))} of the share used`} />`}
            </td>
            <td class="number" data-label="Weight">
              <span class=${weight === 1 ? 'quiet' : 'weight'}>${count(weight)}</span
              >${isHeavy === null ? '' : html` <span class=${isHeavy ? 'chip warn' : 'chip'}>${isHeavy ? 'heavy' : 'light'}</span>`}
            </td>
            <td class="number" data-label="Denied/s">
              ${why ? html`<${Unknown} why=${why} />` : denied > 0 ? html`<b class="bad">${rate(denied)}</b>${deniedBy.map((/** @type {any} */ by) => html`<div class="quiet nowrap">by ${printable(by.policy)}${deniedBy.length > 1 ? ` ${rate(by.denied)}` : ''}</div>`)}` : rate(denied)}
            </td>
            <td data-label="Answer">${answerOf(each)}</td>
          </tr>`;
        })}
      </tbody>
    </table>
    ${more}`;
}
