// The first screen: all limiters now.
import { Bar, Spark } from './charts.js';
import { html, useState } from './lib.js';
import { Limiter, shareOf } from './limiter.js';
import {
  authorOf,
  effectOf,
  Subject,
  Time,
  Undo,
  undoText,
  Unknown,
  useFold,
  verbOf,
  whyUncounted,
} from './parts.js';
import { BusyKeys, DeniedKeys } from './all-keys.js';
import { NearOfAll } from './near.js';
import { PastOutages } from './outage.js';
import { get, useAnswer, useApp } from './state.js';
import { Transfer } from './transfer.js';
import { bytes, causeText, count, many, percent, printable, rate, span } from './text.js';
import { grouped } from './undo.js';

const MORE = 100;

const SORTS = /** @type {Record<string, [label: string, by: (row: any) => number | string]>} */ ({
  denied: ['most denied', (row) => -row.rates.denied * 1e6 - row.rates.admitted],
  requests: ['most requests', (row) => -(row.rates.admitted + row.rates.denied)],
  share: ['highest share denied', (row) => -shareOf(row.rates)],
  waiting: ['most waiting', (row) => -(row.rates.waiting + row.rates.held + row.rates.slots)],
  name: ['name', (row) => row.name],
});

/** The spans of the lines. The stream has the minutes of the first one. */
const RANGES = [
  { label: '15 min', text: 'Last 15 minutes', span: '' },
  { label: '1 h', text: 'Last hour', span: '1h' },
  { label: '24 h', text: 'Last 24 hours', span: '24h' },
];

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
  return {
    ...{ admitted: sum('admitted'), denied: sum('denied'), degraded: sum('degraded') },
    ...{ unreachable: sum('unreachable'), unanswered: sum('unanswered') },
  };
}

export function NowScreen() {
  const { parts, isLoaded, me } = useApp();
  const [query, setQuery] = useState('');
  const [sort, setSort] = useState('denied');
  const [shown, setShown] = useState(MORE);
  const [open, setOpen] = useState('');
  const [range, setRange] = useState(RANGES[0]);
  const { span: wantedSpan } = range;
  const older = useAnswer(
    () => (wantedSpan ? get(`api/history?span=${wantedSpan}`) : Promise.resolve(null)),
    [wantedSpan],
    20_000,
  );
  // Until the answer arrives, the lines of the last minutes stay.
  const past = wantedSpan && older.value ? { ...parts, ...older.value } : parts;
  const spanText = past === parts ? RANGES[0].text : range.text;
  if (!isLoaded) return html`<p class="quiet wait" role="status">Waiting for the store …</p>`;
  const rows = partsOf(parts, 'row');
  const wanted = rows.filter(({ name }) => name.toLowerCase().includes(query.trim().toLowerCase()));
  const by = SORTS[sort][1];
  const sorted = wanted.sort((a, b) => {
    const [one, other] = [by(a), by(b)];
    return one < other ? -1 : one > other ? 1 : a.name < b.name ? -1 : 1;
  });
  const isOld = parts.store?.state === 'down';
  const isEmpty = isOld && !parts.store.readAt;
  return html`<div class=${isOld ? 'now old' : 'now'}>
    <${Summary} parts=${past} rows=${rows} />
    <div class="columns">
      <section aria-labelledby="limiters">
        <div class="head">
          <h2 id="limiters">
            Limiters <span class="quiet">${isEmpty ? 'unknown' : count(rows.length)}</span>
          </h2>
          <span class="legend" aria-hidden="true"
            ><i class="admitted"></i>admitted <i class="denied"></i>denied</span
          >
          <div class="chips" role="group" aria-label="Span of the lines">
            ${RANGES.map((each) => html`<button type="button" class="small" aria-pressed=${each === range} onClick=${() => setRange(each)}>${each.label}</button>`)}
          </div>
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
            ? html`<${NoLimiters} isUnknown=${isEmpty} />`
            : html`<table class="limiters">
                <thead>
                  <tr>
                    <th scope="col">Limiter</th>
                    <th scope="col">${spanText}</th>
                    <th scope="col" class="number">Requests/s</th>
                    <th scope="col">Denied</th>
                    <th scope="col" class="number">
                      <abbr
                        title="Keys that have used 70 % or more of a limit in a minute, the most of the last 5 minutes; a key counts once a window and process"
                        >Near limit</abbr
                      >
                    </th>
                    <th scope="col">Waiting</th>
                    <th scope="col" class="number">
                      <abbr title="Processes with this limiter">Procs</abbr>
                    </th>
                  </tr>
                </thead>
                ${sorted.slice(0, shown).map((row) => html`<${Limiter} key=${row.name} row=${row} spark=${past[`spark ${row.name}`]} near=${parts[`spark ${row.name}`]?.near ?? 0} minutes=${past.minutes} spanText=${spanText} isOpen=${open === row.name} toggle=${() => setOpen(open === row.name ? '' : row.name)} />`)}
              </table>`
        }
        ${sorted.length > shown && html`<button type="button" class="more" onClick=${() => setShown(shown + MORE)}>Show ${Math.min(MORE, sorted.length - shown)} more of ${count(sorted.length - shown)}</button>`}
        <${DeniedKeys}
          rows=${parts.denied ?? []}
        />${rows.length > 0 && html`<${NearOfAll} isOld=${isOld} />`}<${BusyKeys} rows=${parts.busy ?? []} />
        ${me && html`<p class="quiet transfers">Of all limiters: <${Transfer} kind="bans" what=" bans" /><${Transfer} kind="overrides" what=" overrides" /></p>`}
      </section>
      <${Latest} rows=${parts.changes ?? []} isUnknown=${isEmpty} loss=${parts.store?.loss} />
    </div>
  </div>`;
}

/** @param {any} props */
function NoLimiters({ isUnknown }) {
  if (isUnknown)
    return html`<p class="quiet">Unknown: the store has not answered since this page is read.</p>`;
  return html`<div class="empty">
    <p><b>No limiter is known yet.</b></p>
    <p class="quiet">
      A process publishes its limiters a second after it makes the first, then every 30 seconds.
    </p>
  </div>`;
}

/** The reason why no decision is counted. Empty if decisions of a limiter are. @param {any} store @param {any[]} rows @returns {string} */
function whyUnknown(store, rows) {
  if (store.state === 'down' && !store.readAt) return 'the store does not answer';
  if (rows.length === 0) return 'no limiter is known';
  if (rows.some(({ isCounted }) => isCounted)) return '';
  return whyUncounted(rows.find(({ isCounted }) => isCounted === null) ?? rows[0]).replace(/\bits\b/, 'the');
}

/** @param {any} props */
function Summary({ parts, rows }) {
  const { store = { state: 'up' }, total = {}, memory = [], processes = [] } = parts;
  const { admitted = 0, denied = 0, degraded = 0, waiting = 0, held = 0, slots = 0, instances = 0 } = total;
  const causes = rows.flatMap((/** @type {any} */ row) =>
    row.causes.map((/** @type {any} */ cause) => ({ ...cause, of: row.name })),
  );
  const why = whyUnknown(store, rows);
  const uncounted = why ? 0 : rows.filter((/** @type {any} */ row) => !row.isCounted).length;
  const [worst] = causes.sort((/** @type {any} */ a, /** @type {any} */ b) => b.denied - a.denied);
  const whole = wholeSpark(parts);
  const sick = processes.filter((/** @type {any} */ each) => each.health.state !== 'up');
  return html`<div class="tiles">
    <section class="tile wide" aria-label="Decisions">
      <div>
        <h2>
          <abbr title="A request that passes several limiters is decided by each of them">Decisions</abbr>
        </h2>
        <p class="figure">
          ${why ? html`<${Unknown} />` : html`${rate(admitted + denied)}<small>/s</small>`}
        </p>
        <p class="quiet">
          ${why || (instances === 0 ? 'no process has counted any in the last seconds' : `counted by ${many(instances, 'process')}`)}
        </p>
        ${uncounted > 0 && html`<p class="warn">without those of ${many(uncounted, 'limiter')}: unknown</p>`}
      </div>
      <${Spark} spark=${whole} minutes=${parts.minutes} width=${300} height=${72} large=${true} />
    </section>
    <section class="tile" aria-label="Denied">
      <h2>Denied <span class="quiet">of all decisions</span></h2>
      <p class=${denied > 0 && !why ? 'figure bad' : 'figure'}>
        ${why ? html`<${Unknown} />` : percent(denied, admitted + denied)}
      </p>
      <p class="quiet">
        ${why || (worst ? html`${rate(denied)}/s, most in <b>${printable(worst.of)}</b> ${causeText(worst)}` : uncounted > 0 ? 'none of those that are counted' : 'none counted in the last seconds')}
      </p>
    </section>
    <section class="tile" aria-label="Waiting">
      <h2>Waiting</h2>
      <p class="figure">${why ? html`<${Unknown} />` : count(waiting)}</p>
      <p class="quiet">${why || `${held > 0 ? `${count(held)} held, ` : ''}${many(slots, 'slot')} in use`}</p>
    </section>
    <section class="tile" aria-label="Store">
      <h2>Store</h2>
      <p class=${store.state === 'up' ? 'figure good' : 'figure bad'}>
        <i class="dot" aria-hidden="true"></i>${store.state === 'up' ? 'Up' : 'Down'}
      </p>
      <p class="quiet">
        ${store.state === 'up' ? html`<${Latency} latency=${store.latency} why=${why} />` : printable(store.message ?? '')}
      </p>
      ${sick.length > 0 && html`<p class="quiet"><b>${many(sick.length, 'process')}</b> ${sick.length === 1 ? 'sees' : 'see'} it as ${sick[0].health.state}</p>`}
      ${degraded > 0 && html`<p class="warn">${rate(degraded)}/s decided without it</p>`}
      <${PastOutages} minutes=${parts.minutes} counts=${whole} isDown=${store.state === 'down'} />
    </section>
    ${memory.map((/** @type {any} */ server) => html`<${Memory} server=${server} />`)}
  </div>`;
}

/** The latency that decisions see. @param {any} props */
function Latency({ latency, why }) {
  if (!latency) return why ? `latency unknown: ${why}` : 'no decision asked it in the last seconds';
  const { p50Ms, p99Ms, late } = latency;
  return html`answers half of the decisions in <b>${p50Ms} ms</b>, 99 % in
    <b>${p99Ms} ms</b>${late > 0 ? html`, <b class="bad">${rate(late)}/s too late</b>` : ''}`;
}

/** @param {any} props */
function Memory({ server: { server, usedBytes, maxBytes, ownBytes, fullInMs } }) {
  const share = maxBytes ? usedBytes / maxBytes : 0;
  return html`<section class="tile" aria-label="Memory">
    <h2>Memory${server ? html` <span class="quiet">${printable(server)}</span>` : ''}</h2>
    <p class=${share > 0.8 ? 'figure bad' : 'figure'}>${bytes(usedBytes)}</p>
    ${maxBytes ? html`<${Bar} share=${share} kind=${share > 0.8 ? 'bad' : ''} label=${`${percent(usedBytes, maxBytes)} of ${bytes(maxBytes)}`} />` : ''}
    <p class="quiet">
      ${maxBytes ? `of ${bytes(maxBytes)}${fullInMs ? `, full in ${span(fullInMs)}` : ''}` : 'no maxmemory is set'}${ownBytes === null ? '' : html`; about <b>${bytes(ownBytes)}</b> of it are limits`}
    </p>
  </section>`;
}

/** The most changes beside the limiters. */
const LATEST = 12;

/** @param {any} props */
function Latest({ rows, isUnknown, loss }) {
  const { shown, more } = useFold(grouped(rows).slice(0, LATEST), 4);
  return html`<aside aria-labelledby="latest">
    <div class="head">
      <h2 id="latest">Latest changes</h2>
      <a href="#/log">Log</a>
    </div>
    ${
      rows.length === 0
        ? html`<p class="quiet">
            ${isUnknown ? 'Unknown.' : loss ? html`Unknown before <${Time} at=${loss.at} />, when the log was lost. Nothing was changed since.` : 'Nothing was changed yet.'}
          </p>`
        : html`<ol class="changes">
              ${shown.map(
                (/** @type {any} */ row) =>
                  html`<li key=${row.id}>
                    <p>
                      <b>${authorOf(row)}</b> ${verbOf(row)} <${Subject} row=${row} />${undoText(row)}
                      <span class="effect">${effectOf(row)}</span>
                    </p>
                    ${row.reason && html`<p class="reason">${printable(row.reason)}</p>`}
                    <p class="meta">
                      <span>${typeof row.name === 'string' ? printable(row.name) : ''}</span>
                      <${Time} at=${row.at} /><${Undo} row=${row} rows=${rows} />
                    </p>
                  </li>`,
              )}
            </ol>
            ${more}`
    }
  </aside>`;
}
