// The first screen: all limiters now.
import { Bar, Spark } from './charts.js';
import { policyParts, scaled } from './command.js';
import { html, useState } from './lib.js';
import {
  Act,
  authorOf,
  effectOf,
  Key,
  limitsText,
  Problem,
  Subject,
  subjectOf,
  Time,
  Undo,
  verbOf,
} from './parts.js';
import { get, useAnswer, useApp } from './state.js';
import { bytes, causeText, count, many, percent, printable, rate, span } from './text.js';

const MORE = 100;

/** The sign for nothing, which keeps the eye on the numbers. */
const None = html`<span class="quiet"><span aria-hidden="true">–</span><span class="hidden">none</span></span>`;

const SORTS = /** @type {Record<string, [label: string, by: (row: any) => number | string]>} */ ({
  denied: ['most denied', (row) => -row.rates.denied * 1e6 - row.rates.admitted],
  requests: ['most requests', (row) => -(row.rates.admitted + row.rates.denied)],
  share: ['highest share denied', (row) => -shareOf(row.rates)],
  waiting: ['most waiting', (row) => -(row.rates.waiting + row.rates.held + row.rates.slots)],
  name: ['name', (row) => row.name],
});

/** @param {any} rates */
const shareOf = ({ admitted, denied }) => (denied === 0 ? 0 : denied / (admitted + denied));

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
        <div class="head"><h2 id="limiters">Limiters <span class="quiet">${count(rows.length)}</span></h2>
          <span class="legend" aria-hidden="true"><i class="admitted"></i>admitted <i class="denied"></i>denied, last 15 minutes</span>
          <label class="inline"><span class="hidden">Filter limiters</span><input type="search" placeholder="Filter" value=${query} onInput=${(/** @type {any} */ event) => setQuery(event.target.value)} /></label>
          <label class="inline"><span class="hidden">Order</span><select value=${sort} onChange=${(/** @type {any} */ event) => setSort(event.target.value)}>${Object.entries(SORTS).map(([value, [label]]) => html`<option value=${value}>${label}</option>`)}</select></label></div>
        ${
          rows.length === 0
            ? html`<${NoLimiters} />`
            : html`<table class="limiters"><thead><tr>
          <th scope="col">Limiter</th><th scope="col">Last 15 minutes</th><th scope="col" class="number">Requests/s</th><th scope="col">Denied</th>
          <th scope="col" class="number"><abbr title="How often a minute a key has used 70 % of a limit, at most in the last 5 minutes">Near limit</abbr></th><th scope="col">Waiting</th><th scope="col" class="number"><abbr title="Processes with this limiter">Procs</abbr></th></tr></thead>
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
  return html`<div class="empty"><p><b>No limiter is known yet.</b></p><p class="quiet">Limiters appear when they are created with this store. On Redis, counts need <code>redisStore(client, { top: true })</code>.</p></div>`;
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
    <section class="tile wide" aria-label="Requests"><div><h2>Requests</h2><p class="figure">${rate(admitted + denied)}<small>/s</small></p>
      <p class="quiet">${instances === 0 ? 'no process counts them' : `counted by ${many(instances, 'process').replace('processs', 'processes')}`}</p></div>
      <${Spark} spark=${wholeSpark(parts)} minutes=${parts.minutes} width=${300} height=${72} large=${true} /></section>
    <section class="tile" aria-label="Denied"><h2>Denied</h2><p class=${denied > 0 ? 'figure bad' : 'figure'}>${percent(denied, admitted + denied)}</p>
      <p class="quiet">${worst ? html`${rate(denied)}/s, most in <b>${printable(worst.of)}</b> ${causeText(worst)}` : 'nothing is denied now'}</p></section>
    <section class="tile" aria-label="Waiting"><h2>Waiting</h2><p class="figure">${count(waiting)}</p>
      <p class="quiet">${count(held)} held, ${many(slots, 'slot')} in use</p></section>
    <section class="tile" aria-label="Store"><h2>Store</h2><p class=${store.state === 'up' ? 'figure good' : 'figure bad'}><i class="dot" aria-hidden="true"></i>${store.state === 'up' ? 'Up' : 'Down'}</p>
      <p class="quiet">${store.state === 'up' ? (sick.length > 0 ? html`<b>${many(sick.length, 'process').replace('processs', 'processes')}</b> see it as ${sick[0].health.state}` : degraded > 0 ? `${rate(degraded)}/s decided without it` : store.tookMs === undefined ? 'answers' : `answers in ${store.tookMs} ms`) : printable(store.message ?? '')}</p></section>
    ${memory.map((/** @type {any} */ server) => html`<${Memory} server=${server} />`)}
  </div>`;
}

/** @param {any} props */
function Memory({ server: { server, usedBytes, maxBytes, fullInMs } }) {
  const share = maxBytes ? usedBytes / maxBytes : 0;
  return html`<section class="tile" aria-label="Memory"><h2>Memory${server ? html` <span class="quiet">${printable(server)}</span>` : ''}</h2>
    <p class=${share > 0.8 ? 'figure bad' : 'figure'}>${bytes(usedBytes)}</p>
    ${maxBytes ? html`<${Bar} share=${share} kind=${share > 0.8 ? 'bad' : ''} label=${`${percent(usedBytes, maxBytes)} of ${bytes(maxBytes)}`} />` : ''}
    <p class="quiet">${maxBytes ? `of ${bytes(maxBytes)}${fullInMs ? `, full in ${span(fullInMs)}` : ''}` : 'no maxmemory is set'}</p></section>`;
}

/** @param {any} props */
function Limiter({ row, spark, minutes, isOpen, toggle }) {
  const { name, policies, tiers, rates, causes, configurations, processes } = row;
  const all = rates.admitted + rates.denied;
  const id = `open-${name}`;
  const tierNames = Object.keys(tiers);
  const queue = [
    [rates.waiting, 'waiting'],
    [rates.held, 'held'],
    [rates.slots, 'in use'],
  ].filter(([n]) => n > 0);
  return html`<tbody class=${isOpen ? 'open' : ''}><tr>
    <th scope="row"><button type="button" class="row-name" aria-expanded=${isOpen} aria-controls=${isOpen ? id : undefined} onClick=${toggle}><svg class="arrow" viewBox="0 0 10 10" aria-hidden="true"><path d="M3 1l4 4-4 4" /></svg><span class="name">${printable(name)}</span></button>
      ${row.shadow && html`<span class="chip">shadow</span>`}${configurations > 1 && html`<span class="chip warn" title="Processes have different options, as during a deployment">${configurations} configurations</span>`}${rates.degraded > 0 && html`<span class="chip bad" title="Decisions a second by onStoreError, because the store did not answer">${rate(rates.degraded)}/s without the store</span>`}${row.isOverridden && html`<span class="chip warn">all overridden</span>`}
      <div class="policies">${policies.map((/** @type {string} */ text) => html`<${PolicyText} text=${text} />`)}${tierNames.length > 0 && html`<span>${many(tierNames.length, 'tier')}: ${printable(tierNames.join(', '))}</span>`}${row.dynamic && html`<span>by request</span>`}</div></th>
    <td data-label="Last 15 minutes"><${Spark} spark=${spark} minutes=${minutes} /></td>
    <td class="number" data-label="Requests/s">${rate(all)}</td>
    <td class="denied-cell" data-label="Denied">${rates.denied === 0 ? None : html`<b class="bad">${percent(rates.denied, all)}</b> <span class="cause">${rate(rates.denied)}/s${causes[0] ? ` ${causeText(causes[0])}` : ''}</span><${Bar} share=${shareOf(rates)} kind="bad" label=${`${percent(rates.denied, all)} denied`} />`}</td>
    <td class="number" data-label="Near limit">${spark?.near > 0 ? html`${count(spark.near)}<span class="quiet">/min</span>` : None}</td>
    <td data-label="Waiting">${queue.length === 0 ? None : queue.map(([n, what]) => html`<div class="nowrap">${count(n)} <span class="quiet">${what}</span></div>`)}</td>
    <td class="number" data-label="Processes">${processes || html`<span class="quiet">?</span>`}</td>
  </tr>${isOpen && html`<tr class="details" id=${id}><td colspan="7"><${Details} row=${row} /></td></tr>`}</tbody>`;
}

/** @param {any} props */
function PolicyText({ text }) {
  const { name, rest, isNamed } = policyParts(text);
  return html`<span class="policy">${isNamed ? `${printable(name)} ` : ''}<code>${printable(rest)}</code></span>`;
}

/** The change that gives a key, or all keys, a multiple of its limits. @param {any} row @param {any} subject @param {number} factor */
export function multiplied(row, subject, factor) {
  const dimension = subject.dimension ?? 'key';
  const parts = row.policies.map(policyParts);
  const own = subject.all ? parts : parts.filter((/** @type {any} */ part) => part.dimension === dimension);
  if (own.length === 0) return undefined;
  const [only] = parts;
  const change =
    parts.length === 1 && !only.isNamed
      ? scaled(only.rest, factor)
      : Object.fromEntries(own.map((/** @type {any} */ part) => [part.name, scaled(part.rest, factor)]));
  return { action: 'override', ...subject, change, for: '1d' };
}

/** @param {any} props */
function Details({ row }) {
  const { name } = row;
  const answer = useAnswer(() => get(`api/limiter?name=${encodeURIComponent(name)}`), [name], 3000);
  const { keys = [], bans = [], overrides = [] } = answer.value ?? {};
  const denied = keys.filter((/** @type {any} */ key) => key.denied > 0);
  const busy = keys.filter((/** @type {any} */ key) => key.denied === 0);
  return html`<div class="detail">
    ${answer.error && html`<${Problem} text=${answer.error} />`}
    <div class="detail-columns"><div>
      <${Keys} title="Denied now" rows=${denied} row=${row} none="No key is denied." isLoading=${answer.isLoading} />
      <${Keys} title="Busiest keys" rows=${busy} row=${row} none=${denied.length > 0 ? 'No other key.' : 'No key was counted in the last seconds.'} isLoading=${answer.isLoading} />
    </div><div>
      <h3>Bans <span class="quiet">${bans.length}</span></h3>
      ${!row.bans ? html`<p class="quiet">This limiter does not check for bans. Create it with <code>ban: {}</code>.</p>` : bans.length === 0 ? html`<p class="quiet">No key is banned.</p>` : html`<ul class="list">${bans.map((/** @type {any} */ ban) => html`<li><div><${Key} of=${ban.key} dimension=${ban.dimension} /><span class="quiet">${span(ban.bannedForMs)} left${ban.by ? `, by ${printable(ban.by)}` : ', by denials'}${ban.reason ? `: ${printable(ban.reason)}` : ''}</span></div><${Act} label="Unban" change=${withAction('unban', subjectOf(name, ban))} /></li>`)}</ul>`}
      <h3>Overrides <span class="quiet">${overrides.length}</span></h3>
      ${
        row.overridden === null
          ? html`<p class="quiet">Limits of this limiter are fixed. Create it with <code>overrides: true</code>.</p>`
          : html`${overrides.length === 0 ? html`<p class="quiet">All keys have the configured limits.</p>` : html`<ul class="list">${overrides.map((/** @type {any} */ each) => html`<li><div>${each.key === undefined ? html`<b>all keys</b>` : html`<${Key} of=${each.key} dimension=${each.dimension} />`}<span class="quiet">${limitsText(each.change)}${each.until ? `, ${span(new Date(each.until).getTime() - Date.now())} left` : ''}${each.by ? `, by ${printable(each.by)}` : ''}${each.reason ? `: ${printable(each.reason)}` : ''}</span></div><${Act} label="End" change=${each.key === undefined ? { action: 'remove', name, all: true } : withAction('remove', subjectOf(name, each))} /></li>`)}</ul>`}
        <p><${Act} label="Change the limits of all keys" change=${multiplied(row, { name, all: true }, 2)} /></p>`
      }
    </div></div></div>`;
}

/** @param {string} action @param {any} subject */
const withAction = (action, subject) => subject && { action, ...subject };

/** @param {any} props */
function Keys({ title, rows, row, none, isLoading }) {
  const { name } = row;
  if (rows.length === 0) return html`<h3>${title}</h3><p class="quiet">${isLoading ? 'Reading …' : none}</p>`;
  const most = Math.max(...rows.map((/** @type {any} */ key) => key.denied + key.admitted));
  return html`<h3>${title}</h3><table class="keys"><thead><tr><th scope="col">Key</th><th scope="col" class="number">Denied/s</th><th scope="col" class="number">Admitted/s</th><th scope="col">Policy</th><th scope="col"><span class="hidden">Changes</span></th></tr></thead>
    <tbody>${rows.map((/** @type {any} */ key) => {
      const subject = subjectOf(name, key);
      return html`<tr><td data-label="Key"><${Key} of=${key.key} dimension=${key.dimension} />${key.bannedForMs > 0 ? html` <span class="chip bad">banned</span>` : ''}${key.isOverridden ? html` <span class="chip warn">override</span>` : ''}</td>
        <td class="number" data-label="Denied/s">${key.denied > 0 ? html`<b class="bad">${rate(key.denied)}</b>` : rate(key.denied)}</td><td class="number" data-label="Admitted/s">${rate(key.admitted)}</td>
        <td data-label="Policy">${key.policy ? html`<code>${printable(key.policy)}</code>${key.retryAfterMs ? html`<div class="quiet nowrap">for ${span(key.retryAfterMs)}</div>` : ''}` : html`<${Bar} share=${(key.admitted + key.denied) / most} label="share of the busiest key" />`}</td>
        <td class="acts">${row.bans && html`<${Act} label="Ban" kind="danger" change=${subject && { action: 'ban', ...subject, for: '2h' }} />`}${row.overridden !== null && html`<${Act} label="Limits" title="Other limits for this key" change=${subject && multiplied(row, subject, 2)} />`}<${Act} label="Reset" change=${withAction('reset', subject)} /></td></tr>`;
    })}</tbody></table>`;
}

/** @param {any} props */
function Latest({ rows }) {
  return html`<aside aria-labelledby="latest"><div class="head"><h2 id="latest">Latest changes</h2><a href="#/log">Log</a></div>
    ${
      rows.length === 0
        ? html`<p class="quiet">Nothing was changed yet.</p>`
        : html`<ol class="changes">${rows.map(
            (
              /** @type {any} */ row,
            ) => html`<li key=${row.id}><p><b>${authorOf(row)}</b> ${verbOf(row)} <${Subject} row=${row} /> <span class="effect">${effectOf(row)}</span></p>
      ${row.reason && html`<p class="reason">${printable(row.reason)}</p>`}<p class="meta"><span>${typeof row.name === 'string' ? printable(row.name) : ''}</span> <${Time} at=${row.at} /><${Undo} row=${row} rows=${rows} /></p></li>`,
          )}</ol>`
    }</aside>`;
}
