// A row of the first screen, and its details.
import { Bar, Spark } from './charts.js';
import { policyParts } from './command.js';
import { DeniedNow, Keys, withAction } from './denied.js';
import { withShares } from './key-facts.js';
import { html, useRef } from './lib.js';
import { NearKeys } from './near.js';
import { Failure } from './outage.js';
import { asOf, multiplied, windowMs } from './plan.js';
import { Act, Key, subjectOf, toolHint, Unknown, whyUncounted } from './parts.js';
import { Queues, Slots } from './slots.js';
import { get, refresh, useAnswer } from './state.js';
import { Tenants } from './tenants.js';
import { Transfer } from './transfer.js';
import { causeText, count, limitsText, many, originText, percent, printable, rate, span } from './text.js';

/** The sign for nothing, which keeps the eye on the numbers. */
const None = html`<span class="quiet"
  ><span aria-hidden="true">–</span><span class="hidden">none</span></span
>`;

/** A key may be denied without a request in the last seconds. */
const NoneCounted = html`<span class="quiet"
  >none counted<span class="hidden"> in the last seconds</span></span
>`;

/** Whether a key may be near a limit for longer than the minutes in which its rise is counted. @param {any} row */
const hasLongWindow = ({ policies, tiers }) =>
  [policies, ...Object.values(tiers)].flat().some((text) => !(windowMs(policyParts(text).rest) <= NEAR_MS));

/** The span in which rises are counted, ms. */
const NEAR_MS = 5 * 60_000;

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
        ${unknown || (rates.denied === 0 ? NoneCounted : html`<b class="bad">${percent(rates.denied, all)}</b> <span class="cause">${rate(rates.denied)}/s${causes[0] ? ` ${causeText(causes[0])}` : ''}</span><${Bar} share=${shareOf(rates)} kind="bad" label=${`${percent(rates.denied, all)} denied`} />`)}
      </td>
      <td class="number" data-label="Near limit">
        ${unknown || (near > 0 ? html`<span class="nowrap">${count(near)}<span class="quiet">/min</span></span>` : hasLongWindow(row) ? html`<span class="quiet" title="No key has risen to 70 % in the last 5 minutes. Keys that rose before are in the list above 80 %">none new</span>` : None)}
      </td>
      <td data-label="Waiting" class=${queue.length === 0 ? 'spare' : ''}>
        ${unknown || (queue.length === 0 ? None : queue.map(([n, what]) => html`<div class="nowrap">${count(n)} <span class="quiet">${what}</span></div>`))}
      </td>
      <td class=${row.silent > 0 ? 'number' : 'number spare'} data-label="Processes">
        ${processes || html`<span class="quiet">?</span>`}${row.silent > 0 && html`<div class="nowrap quiet" title="Their publication is late, so they may have ended, or cannot reach the store">${row.silent} silent</div>`}
      </td>
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

/** The time between two searches of an opened row, ms. */
const SEARCH_MS = 10_000;

/** The rows of a kind, with the number of all. @param {any} answer @param {'bans' | 'overrides'} kind */
const listOf = (answer, kind) => ({
  rows: answer?.[kind] ?? [],
  total: 0,
  isCut: false,
  ...answer?.totals[kind],
});

/** The recorded bans, and those that only the search met. @param {any} recorded @param {any[]} met */
function allBans({ rows, total, isCut }, met) {
  const others = met.filter(({ isRecorded }) => !isRecorded);
  return { rows: [...rows, ...others], total: total + others.length, isCut };
}

/** The number of rows of a list, of which some may be on later pages. @param {any} list */
const totalText = ({ total, isCut }) => `${isCut ? 'at least ' : ''}${count(total)}`;

/** The rows that are not shown, with the button of the next page. @param {any} props */
function NextPage({ list, what, command, open }) {
  const { rows, total, isCut } = list;
  if (rows.length < total)
    return html`<button type="button" class="more" onClick=${open}>
      Show more ${what}: ${count(rows.length)} of ${totalText(list)} are shown
    </button>`;
  return (
    isCut &&
    html`<p class="quiet">
      ${count(rows.length)} of ${totalText(list)} are shown.${toolHint(command, ' All are in', '.')}
    </p>`
  );
}

/** @param {any} props */
function Details({ row }) {
  const { name } = row;
  const query = `name=${encodeURIComponent(name)}`;
  /** The numbers of opened pages. @type {{ current: Record<string, number> }} */
  const pages = useRef({ bans: 1, overrides: 1 });
  const open = (/** @type {string} */ kind) => () => {
    pages.current[kind]++;
    // The rows stay until the answer with more arrives.
    refresh();
  };
  const ask = () =>
    get(
      `api/limiter?${query}&${new URLSearchParams(Object.entries(pages.current).map(([kind, n]) => [kind, String(n)]))}`,
    );
  const answer = useAnswer(ask, [name], 3000);
  const found = useAnswer(() => get(`api/denied?${query}`), [name], SEARCH_MS);
  // One search at a time, and that for denied keys first.
  const isNext = !found.isLoading;
  const near = useAnswer(
    () => (isNext ? get(`api/near?${query}`) : Promise.resolve(null)),
    [name, isNext],
    SEARCH_MS,
  );
  const { keys = [], tenants = [] } = answer.value ?? {};
  const overridden = listOf(answer.value, 'overrides');
  const overrides = overridden.rows;
  const banned = allBans(listOf(answer.value, 'bans'), found.value?.bans ?? []);
  const bans = banned.rows;
  const isUnknown = !answer.isLoading && !answer.value;
  const denied = withShares(keys, tenants).filter((key) => key.denied > 0);
  const busy = keys.filter((/** @type {any} */ key) => key.denied === 0);
  return html`<div class="detail">
    <${Failure} answer=${answer} />
    <div class="detail-columns">
      <div>
        ${tenants.length > 0 && html`<${Tenants} rows=${tenants} keys=${keys} why=${whyUncounted(row)} />`}
        <${DeniedNow} row=${row} counted=${denied} found=${found} bans=${bans} overrides=${overrides} />
        <${NearKeys} answer=${near} />
        <h3>Busiest admitted keys</h3>
        ${
          busy.length > 0
            ? html`<${Keys} rows=${busy} row=${row} overrides=${overrides} />`
            : html`<p class="quiet">
                ${answer.isLoading ? 'Reading …' : isUnknown ? 'Unknown.' : whyUncounted(row) ? `Unknown: ${whyUncounted(row)}.` : denied.length > 0 ? 'No other key.' : 'No key was counted in the last seconds.'}
              </p>`
        }
        <${Slots} row=${row} answer=${near} queues=${answer.value?.queues} />
        <${Queues} name=${name} />
      </div>
      <div>
        <h3>
          Bans <span class="quiet">${isUnknown ? 'unknown' : totalText(banned)}</span>
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
                    No key is banned, as far as the store has records of
                    bans.${toolHint('list --banned --scan', ' Without them,', 'searches all keys.')}
                  </p>`
                : html`<ul class="list">
                      ${bans.map(
                        (/** @type {any} */ ban) =>
                          html`<li>
                            <div>
                              <${Key} of=${ban.key} dimension=${ban.dimension} /><span class="quiet"
                                >${span(ban.bannedForMs)} left, ${originText(ban, row.banRule)}</span
                              >
                            </div>
                            <${Act} label="Unban" change=${withAction('unban', subjectOf(name, ban))} />
                          </li>`,
                      )}
                    </ul>
                    <${NextPage} list=${banned} what="bans" command="list --banned" open=${open('bans')} />`
        }
        <h3>
          Overrides <span class="quiet">${isUnknown ? 'unknown' : totalText(overridden)}</span>
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
                          </ul>
                          <${NextPage}
                            list=${overridden}
                            what="overrides"
                            command="overrides"
                            open=${open('overrides')}
                          />`
                }
                <p>
                  <${Act}
                    label="Change the limits of all keys"
                    change=${multiplied(...asOf(row, { name, all: true }, { override: overrides.find((/** @type {any} */ each) => each.key === undefined) }), 0.5)}
                  />
                </p>`
        }
      </div>
    </div>
  </div>`;
}
