// The first screen: all limiters now.
import { Bar, Spark } from './charts.js';
import { html, useState } from './lib.js';
import { Limiter, shareOf } from './limiter.js';
import { authorOf, effectOf, Subject, Time, Undo, verbOf } from './parts.js';
import { useApp } from './state.js';
import { bytes, causeText, count, many, percent, printable, rate, span } from './text.js';

const MORE = 100;

const SORTS = /** @type {Record<string, [label: string, by: (row: any) => number | string]>} */ ({
  denied: ['most denied', (row) => -row.rates.denied * 1e6 - row.rates.admitted],
  requests: ['most requests', (row) => -(row.rates.admitted + row.rates.denied)],
  share: ['highest share denied', (row) => -shareOf(row.rates)],
  waiting: ['most waiting', (row) => -(row.rates.waiting + row.rates.held + row.rates.slots)],
  name: ['name', (row) => row.name],
});

/** @param {Record<string, any>} parts @param {string} kind @returns {any[]} */
const partsOf = (parts, kind) =>
  Object.keys(parts)
    .filter((name) => name.startsWith(`${kind} `))
    .map((name) => parts[name]);

/** The sum of all sparklines. @param {Record<string, any>} parts */
function wholeSpark(parts) {
  const sparks = partsOf(parts, 'spark');
  const minutes = parts.minutes ?? [];
  const sum = (/** @type {string} */ column) =>
    minutes.map((/** @type {number} */ _, /** @type {number} */ i) =>
      sparks.reduce((total, spark) => total + (spark[column][i] ?? 0), 0),
    );
  return { admitted: sum('admitted'), denied: sum('denied') };
}

export function NowScreen() {
  const { parts, isLoaded } = useApp();
  const [query, setQuery] = useState('');
  const [sort, setSort] = useState('denied');
  const [shown, setShown] = useState(MORE);
  const [open, setOpen] = useState('');
  if (!isLoaded) return html`<p class="quiet wait" role="status">Waiting for the store …</p>`;
  const rows = partsOf(parts, 'row');
  const wanted = rows.filter(({ name }) => name.toLowerCase().includes(query.trim().toLowerCase()));
  const by = SORTS[sort][1];
  const sorted = wanted.sort((a, b) => {
    const [one, other] = [by(a), by(b)];
    return one < other ? -1 : one > other ? 1 : a.name < b.name ? -1 : 1;
  });
  return html`<div class="now">
    <${Summary} parts=${parts} rows=${rows} />
    <div class="columns">
      <section aria-labelledby="limiters">
        <div class="head">
          <h2 id="limiters">Limiters <span class="quiet">${count(rows.length)}</span></h2>
          <span class="legend" aria-hidden="true"
            ><i class="admitted"></i>admitted <i class="denied"></i>denied, last 15 minutes</span
          >
          <label class="inline"
            ><span class="hidden">Filter limiters</span
            ><input
              type="search"
              placeholder="Filter"
              value=${query}
              onInput=${(/** @type {any} */ event) => setQuery(event.target.value)}
          /></label>
          <label class="inline"
            ><span class="hidden">Order</span
            ><select value=${sort} onChange=${(/** @type {any} */ event) => setSort(event.target.value)}>
              ${Object.entries(SORTS).map(([value, [label]]) => html`<option value=${value}>${label}</option>`)}
            </select></label
          >
        </div>
        ${
          rows.length === 0
            ? html`<${NoLimiters} />`
            : html`<table class="limiters">
                <thead>
                  <tr>
                    <th scope="col">Limiter</th>
                    <th scope="col">Last 15 minutes</th>
                    <th scope="col" class="number">Requests/s</th>
                    <th scope="col">Denied</th>
                    <th scope="col" class="number">
                      <abbr
                        title="How often a minute a key has used 70 % of a limit, at most in the last 5 minutes"
                        >Near limit</abbr
                      >
                    </th>
                    <th scope="col">Waiting</th>
                    <th scope="col" class="number"><abbr title="Processes with this limiter">Procs</abbr></th>
                  </tr>
                </thead>
                ${sorted.slice(0, shown).map((row) => html`<${Limiter} key=${row.name} row=${row} spark=${parts[`spark ${row.name}`]} minutes=${parts.minutes} isOpen=${open === row.name} toggle=${() => setOpen(open === row.name ? '' : row.name)} />`)}
              </table>`
        }
        ${sorted.length > shown && html`<button type="button" class="more" onClick=${() => setShown(shown + MORE)}>Show ${Math.min(MORE, sorted.length - shown)} more of ${count(sorted.length - shown)}</button>`}
      </section>
      <${Latest} rows=${parts.changes ?? []} />
    </div>
  </div>`;
}

function NoLimiters() {
  return html`<div class="empty">
    <p><b>No limiter is known yet.</b></p>
    <p class="quiet">
      Limiters appear when they are created with this store. On Redis, counts need
      <code>redisStore(client, { top: true })</code>.
    </p>
  </div>`;
}

/** @param {any} props */
function Summary({ parts, rows }) {
  const { store = { state: 'up' }, total = {}, memory = [], processes = [] } = parts;
  const { admitted = 0, denied = 0, degraded = 0, waiting = 0, held = 0, slots = 0, instances = 0 } = total;
  const causes = rows.flatMap((/** @type {any} */ row) =>
    row.causes.map((/** @type {any} */ cause) => ({ ...cause, of: row.name })),
  );
  const [worst] = causes.sort((/** @type {any} */ a, /** @type {any} */ b) => b.denied - a.denied);
  const sick = processes.filter((/** @type {any} */ each) => each.health.state !== 'up');
  return html`<div class="tiles">
    <section class="tile wide" aria-label="Requests">
      <div>
        <h2>Requests</h2>
        <p class="figure">${rate(admitted + denied)}<small>/s</small></p>
        <p class="quiet">
          ${instances === 0 ? 'no process counts them' : `counted by ${many(instances, 'process').replace('processs', 'processes')}`}
        </p>
      </div>
      <${Spark} spark=${wholeSpark(parts)} minutes=${parts.minutes} width=${300} height=${72} large=${true} />
    </section>
    <section class="tile" aria-label="Denied">
      <h2>Denied</h2>
      <p class=${denied > 0 ? 'figure bad' : 'figure'}>${percent(denied, admitted + denied)}</p>
      <p class="quiet">
        ${worst ? html`${rate(denied)}/s, most in <b>${printable(worst.of)}</b> ${causeText(worst)}` : 'nothing is denied now'}
      </p>
    </section>
    <section class="tile" aria-label="Waiting">
      <h2>Waiting</h2>
      <p class="figure">${count(waiting)}</p>
      <p class="quiet">${count(held)} held, ${many(slots, 'slot')} in use</p>
    </section>
    <section class="tile" aria-label="Store">
      <h2>Store</h2>
      <p class=${store.state === 'up' ? 'figure good' : 'figure bad'}>
        <i class="dot" aria-hidden="true"></i>${store.state === 'up' ? 'Up' : 'Down'}
      </p>
      <p class="quiet">
        ${store.state === 'up' ? (sick.length > 0 ? html`<b>${many(sick.length, 'process').replace('processs', 'processes')}</b> see it as ${sick[0].health.state}` : degraded > 0 ? `${rate(degraded)}/s decided without it` : store.tookMs === undefined ? 'answers' : `answers in ${store.tookMs} ms`) : printable(store.message ?? '')}
      </p>
    </section>
    ${memory.map((/** @type {any} */ server) => html`<${Memory} server=${server} />`)}
  </div>`;
}

/** @param {any} props */
function Memory({ server: { server, usedBytes, maxBytes, fullInMs } }) {
  const share = maxBytes ? usedBytes / maxBytes : 0;
  return html`<section class="tile" aria-label="Memory">
    <h2>Memory${server ? html` <span class="quiet">${printable(server)}</span>` : ''}</h2>
    <p class=${share > 0.8 ? 'figure bad' : 'figure'}>${bytes(usedBytes)}</p>
    ${maxBytes ? html`<${Bar} share=${share} kind=${share > 0.8 ? 'bad' : ''} label=${`${percent(usedBytes, maxBytes)} of ${bytes(maxBytes)}`} />` : ''}
    <p class="quiet">
      ${maxBytes ? `of ${bytes(maxBytes)}${fullInMs ? `, full in ${span(fullInMs)}` : ''}` : 'no maxmemory is set'}
    </p>
  </section>`;
}

/** @param {any} props */
function Latest({ rows }) {
  return html`<aside aria-labelledby="latest">
    <div class="head">
      <h2 id="latest">Latest changes</h2>
      <a href="#/log">Log</a>
    </div>
    ${
      rows.length === 0
        ? html`<p class="quiet">Nothing was changed yet.</p>`
        : html`<ol class="changes">
            ${rows.map(
              (/** @type {any} */ row) =>
                html`<li key=${row.id}>
                  <p>
                    <b>${authorOf(row)}</b> ${verbOf(row)} <${Subject} row=${row} />
                    <span class="effect">${effectOf(row)}</span>
                  </p>
                  ${row.reason && html`<p class="reason">${printable(row.reason)}</p>`}
                  <p class="meta">
                    <span>${typeof row.name === 'string' ? printable(row.name) : ''}</span>
                    <${Time} at=${row.at} /><${Undo} row=${row} rows=${rows} />
                  </p>
                </li>`,
            )}
          </ol>`
    }
  </aside>`;
}
