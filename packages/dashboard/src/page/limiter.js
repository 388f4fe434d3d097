// A row of the first screen, and its details.
import { Bar, Spark } from './charts.js';
import { policyParts } from './command.js';
import { html } from './lib.js';
import { NearKeys } from './near.js';
import { Failure } from './outage.js';
import { multiplied } from './plan.js';
import { Act, Cause, Key, limitsText, subjectOf, Unknown, useFold, whyUncounted } from './parts.js';
import { get, useAnswer, useApp } from './state.js';
import { Tenants } from './tenants.js';
import { Transfer } from './transfer.js';
import { causeText, count, endOf, many, percent, printable, rate, span } from './text.js';

/** The sign for nothing, which keeps the eye on the numbers. */
const None = html`<span class="quiet"
  ><span aria-hidden="true">–</span><span class="hidden">none</span></span
>`;

/** @param {any} rates */
export const shareOf = ({ admitted, denied }) => (denied === 0 ? 0 : denied / (admitted + denied));

/** @param {any} props */
export function Limiter({ row, spark, near, minutes, spanText, isOpen, toggle }) {
  const { name, policies, tiers, rates, causes, configurations, processes } = row;
  const all = rates.admitted + rates.denied;
  const why = whyUncounted(row);
  const unknown = why && html`<${Unknown} why=${why} />`;
  // A space would separate two ids.
  const id = `open-${encodeURIComponent(name.toWellFormed())}`;
  const tierNames = Object.keys(tiers);
  const queue = [
    [rates.waiting, 'waiting'],
    [rates.held, 'held'],
    [rates.slots, 'in use'],
  ].filter(([n]) => Math.round(n) > 0);
  return html`<tbody class=${isOpen ? 'open' : ''}>
    <tr>
      <th scope="row">
        <button
          type="button"
          class="row-name"
          aria-expanded=${isOpen}
          aria-controls=${isOpen ? id : undefined}
          onClick=${toggle}
        >
          <svg class="arrow" viewBox="0 0 10 10" aria-hidden="true"><path d="M3 1l4 4-4 4" /></svg
          ><span class="name">${printable(name)}</span>
        </button>
        ${row.shadow && html`<span class="chip">shadow</span>`}${configurations > 1 && html`<span class="chip warn" title="Processes have different options, as during a deployment">${configurations} configurations</span>`}${rates.degraded > 0 && html`<span class="chip bad" title="Decisions a second by onStoreError, because the store did not answer">${rate(rates.degraded)}/s without the store</span>`}${row.isOverridden && html`<span class="chip warn">all overridden</span>`}
        <div class="policies">
          ${policies.map((/** @type {string} */ text) => html`<${PolicyText} text=${text} />`)}${tierNames.length > 0 && html`<span>${many(tierNames.length, 'tier')}: ${printable(tierNames.join(', '))}</span>`}${row.dynamic && html`<span>by request</span>`}
        </div>
      </th>
      <td data-label=${spanText}>${unknown || html`<${Spark} spark=${spark} minutes=${minutes} />`}</td>
      <td class="number" data-label="Requests/s">${unknown || rate(all)}</td>
      <td class="denied-cell" data-label="Denied">
        ${unknown || (rates.denied === 0 ? None : html`<b class="bad">${percent(rates.denied, all)}</b> <span class="cause">${rate(rates.denied)}/s${causes[0] ? ` ${causeText(causes[0])}` : ''}</span><${Bar} share=${shareOf(rates)} kind="bad" label=${`${percent(rates.denied, all)} denied`} />`)}
      </td>
      <td class="number" data-label="Near limit">
        ${unknown || (near > 0 ? html`${count(near)}<span class="quiet">/min</span>` : None)}
      </td>
      <td data-label="Waiting">
        ${unknown || (queue.length === 0 ? None : queue.map(([n, what]) => html`<div class="nowrap">${count(n)} <span class="quiet">${what}</span></div>`))}
      </td>
      <td class="number" data-label="Processes">${processes || html`<span class="quiet">?</span>`}</td>
    </tr>
    ${
      isOpen &&
      html`<tr class="details" id=${id}>
        <td colspan="7"><${Details} row=${row} /></td>
      </tr>`
    }
  </tbody>`;
}

/** @param {any} props */
function PolicyText({ text }) {
  const { name, rest, isNamed } = policyParts(text);
  return html`<span class="policy"
    >${isNamed ? `${printable(name)} ` : ''}<code>${printable(rest)}</code></span
  >`;
}

/** @param {any} props */
function Details({ row }) {
  const { name } = row;
  const answer = useAnswer(() => get(`api/limiter?name=${encodeURIComponent(name)}`), [name], 3000);
  const { keys = [], bans = [], overrides = [], tenants = [], limited } = answer.value ?? {};
  const isUnknown = !answer.isLoading && !answer.value;
  const denied = keys.filter((/** @type {any} */ key) => key.denied > 0);
  const busy = keys.filter((/** @type {any} */ key) => key.denied === 0);
  return html`<div class="detail">
    <${Failure} answer=${answer} />
    <div class="detail-columns">
      <div>
        ${tenants.length > 0 && html`<${Tenants} rows=${tenants} why=${whyUncounted(row)} />`}
        ${
          limited?.rows.length > 0
            ? html`<${Limited} ...${limited} />`
            : html`<${Keys}
                title="Denied now"
                rows=${denied}
                row=${row}
                none=${isUnknown ? 'Unknown.' : noneDenied(keys, limited)}
                isLoading=${answer.isLoading}
              />`
        }
        <${Keys}
          title="Busiest admitted keys"
          rows=${busy}
          row=${row}
          none=${isUnknown ? 'Unknown.' : whyUncounted(row) ? `Unknown: ${whyUncounted(row)}.` : denied.length > 0 ? 'No other key.' : 'No key was counted in the last seconds.'}
          isLoading=${answer.isLoading}
        />
        <${NearKeys} name=${name} />
        <${Queues} name=${name} />
      </div>
      <div>
        <h3>
          Bans <span class="quiet">${isUnknown ? 'unknown' : bans.length}</span>
          ${row.bans && html`<${Transfer} kind="bans" name=${name} row=${row} />`}
        </h3>
        ${
          !row.bans
            ? html`<p class="quiet">
                This limiter does not check for bans. Create it with <code>ban: {}</code>.
              </p>`
            : isUnknown
              ? html`<p class="quiet">Unknown.</p>`
              : bans.length === 0
                ? html`<p class="quiet">
                    No key is banned, as far as the store has records of bans. Without them,
                    <code>headgate list --banned --scan</code> searches all keys.
                  </p>`
                : html`<ul class="list">
                    ${bans.map(
                      (/** @type {any} */ ban) =>
                        html`<li>
                          <div>
                            <${Key} of=${ban.key} dimension=${ban.dimension} /><span class="quiet"
                              >${span(ban.bannedForMs)}
                              left${ban.by ? `, by ${printable(ban.by)}` : ', by denials or the program'}${ban.reason ? `: ${printable(ban.reason)}` : ''}</span
                            >
                          </div>
                          <${Act} label="Unban" change=${withAction('unban', subjectOf(name, ban))} />
                        </li>`,
                    )}
                  </ul>`
        }
        <h3>
          Overrides <span class="quiet">${isUnknown ? 'unknown' : overrides.length}</span>
          ${row.overridden !== null && html`<${Transfer} kind="overrides" name=${name} row=${row} />`}
        </h3>
        ${
          row.overridden === null
            ? html`<p class="quiet">
                Limits of this limiter are fixed. Create it with <code>overrides: true</code>.
              </p>`
            : html`${
                  isUnknown
                    ? html`<p class="quiet">Unknown.</p>`
                    : overrides.length === 0
                      ? html`<p class="quiet">All keys have the configured limits.</p>`
                      : html`<ul class="list">
                          ${overrides.map(
                            (/** @type {any} */ each) =>
                              html`<li>
                                <div>
                                  ${each.key === undefined ? html`<b>all keys</b>` : html`<${Key} of=${each.key} dimension=${each.dimension} />`}<span
                                    class="quiet"
                                    >${limitsText(each.change)}${each.until ? `, ${span(new Date(each.until).getTime() - Date.now())} left` : ''}${each.by ? `, by ${printable(each.by)}` : ''}${each.reason ? `: ${printable(each.reason)}` : ''}</span
                                  >
                                </div>
                                <${Act}
                                  label="End"
                                  change=${each.key === undefined ? { action: 'remove', name, all: true } : withAction('remove', subjectOf(name, each))}
                                />
                              </li>`,
                          )}
                        </ul>`
                }
                <p>
                  <${Act}
                    label="Change the limits of all keys"
                    change=${multiplied(row, { name, all: true }, 2)}
                  />
                </p>`
        }
      </div>
    </div>
  </div>`;
}

/** The slots and the waiting requests of a limiter in each process. @param {any} props */
function Queues({ name }) {
  const { parts } = useApp();
  const own = (parts.processes ?? []).flatMap((/** @type {any} */ { host, pid, limiters }) =>
    limiters
      .filter((/** @type {any} */ each) => each.name === name)
      .map((/** @type {any} */ each) => ({ ...each, host, pid })),
  );
  if (own.length === 0) return '';
  return html`<h3>Slots and waiting requests <span class="quiet">of all keys, by process</span></h3>
    <ul class="list">
      ${own.map(
        (/** @type {any} */ { host, pid, slots, waiting, held, maxWaiting }) =>
          html`<li>
            <div>
              <code>${printable(host)}</code>
              <span class="quiet"
                >${pid}: ${many(slots, 'slot')} in use, ${count(waiting)} of at most ${count(maxWaiting)}
                waiting${held > 0 ? `, ${count(held)} held` : ''}</span
              >
            </div>
          </li>`,
      )}
    </ul>`;
}

/** The sentence in place of denied keys. Unknown is not none. @param {any[]} keys @param {any} limited */
function noneDenied(keys, limited) {
  if (limited?.unnamed > 0)
    return `Unknown: ${many(limited.unnamed, 'key')} came before the dashboard was created, so their names are unknown.`;
  if (keys.length > 0 || limited?.isCut === false) return `No key is denied.${omittedText(limited)}`;
  return limited
    ? 'A search of a second found no denied key. There may be some: headgate list searches all keys.'
    : 'Unknown: the limits depend on the request.';
}

/** The keys that are not listed. @param {any} limited @returns {string} */
const omittedText = (limited) =>
  limited?.omitted > 0
    ? ` ${many(limited.omitted, 'key')} would be denied only by a tier that ${limited.omitted === 1 ? 'it does' : 'they do'} not have, judging by the use.`
    : '';

/** The tier of a denied key. The tier of a key is unknown, so another tier may admit it. @param {any} key @returns {string} */
function inTier({ tier, certain }) {
  const where = tier ? `in tier ${printable(tier)}` : 'without a tier';
  return certain ? (tier ? `${where}, ` : '') : `only ${where}, `;
}

/** The keys that are denied by their state. @param {any} props */
function Limited({ rows, isCut, omitted }) {
  return html`<h3>Denied now${isCut && html` <span class="quiet">the first ${rows.length}</span>`}</h3>
    <ul class="list">
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
    </ul>
    ${omitted > 0 && html`<p class="quiet">${omittedText({ omitted })}</p>`}`;
}

/** @param {string} action @param {any} subject */
const withAction = (action, subject) => subject && { action, ...subject };

/** @param {any} props */
function Keys({ title, rows, row, none, isLoading }) {
  const { name } = row;
  const { shown, more } = useFold(rows, 4);
  if (rows.length === 0)
    return html`<h3>${title}</h3>
      <p class="quiet">${isLoading ? 'Reading …' : none}</p>`;
  const most = Math.max(...rows.map((/** @type {any} */ key) => key.denied + key.admitted));
  return html`<h3>${title}</h3>
    <table class="keys">
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
              ${key.policy || key.reason ? html`<${Cause} of=${key} />${key.retryAfterMs ? html`<div class=${key.lacksSlots ? 'quiet' : 'quiet nowrap'}>${endOf(key)}</div>` : ''}` : html`<${Bar} share=${(key.admitted + key.denied) / most} label="share of the busiest key" />`}
            </td>
            <td class="acts">
              ${row.bansBy.includes(key.dimension ?? 'key') && html`<${Act} label="Ban" kind="danger" change=${subject && { action: 'ban', ...subject, for: '2h' }} />`}${row.overridden !== null && html`<${Act} label="Limits" title="Other limits for this key" change=${subject && multiplied(row, subject, 2, key.tier)} />`}<${Act}
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
