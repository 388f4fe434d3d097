// The fifth screen: the processes that are connected.
import { html } from './lib.js';
import { Time, Unknown } from './parts.js';
import { useApp } from './state.js';
import { count, many, printable, rate, span } from './text.js';

const HEALTH_TEXTS = /** @type {Record<string, string>} */ ({ up: 'up', slow: 'slow', down: 'down' });

export function ProcessesScreen() {
  const { parts, isLoaded } = useApp();
  if (!isLoaded) return html`<p class="quiet wait" role="status">Waiting for the store …</p>`;
  const isOld = parts.store?.state === 'down';
  const rows = processRows(parts.instances ?? [], parts.processes ?? []);
  return html`<div class=${isOld ? 'wide-screen old' : 'wide-screen'}>
    <h2 class="screen">Processes</h2>
    <p class="quiet">
      Processes that use the store, and how each of them sees it. A process is listed while it publishes its
      limiters or counts decisions.
    </p>
    ${
      rows.length === 0
        ? html`<p class="quiet">${isOld ? 'Unknown: the store does not answer.' : 'No process is known.'}</p>`
        : html`<table class="log processes">
            <thead>
              <tr>
                <th scope="col">Process</th>
                <th scope="col">Since</th>
                <th scope="col">Version</th>
                <th scope="col">Limiters</th>
                <th scope="col" class="number">Decisions/s</th>
                <th scope="col" class="number">Without the store</th>
                <th scope="col">Store</th>
                <th scope="col">Latency</th>
                <th scope="col" class="number">Event loop</th>
              </tr>
            </thead>
            <tbody>
              ${rows.map((row) => html`<${ProcessRow} key=${row.id} isOld=${isOld} ...${row} />`)}
            </tbody>
          </table>`
    }
    ${new Set(rows.map(({ version }) => version).filter(Boolean)).size > 1 && html`<p class="warn">The processes have different versions of Headgate.</p>`}
  </div>`;
}

/** The published and the counting processes, by host and number. @param {any[]} instances @param {any[]} processes */
function processRows(instances, processes) {
  /** @type {Map<string, any>} */
  const rows = new Map();
  for (const each of [...instances, ...processes]) {
    const id = `${each.host} ${each.pid}`;
    rows.set(id, { ...rows.get(id), ...each, id });
  }
  return [...rows.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** @param {any} props */
function ProcessRow({
  host,
  pid,
  since,
  version,
  limiters = [],
  names = [],
  differing = [],
  silentMs = 0,
  decisions,
  degraded,
  health,
  latency,
  loopDelayMs,
  isOld,
}) {
  const unknown = html`<${Unknown}
    why=${isOld ? 'the store does not answer' : 'the process has not counted a decision in the last seconds'}
  />`;
  const all = names.length > 0 ? names : limiters.map((/** @type {any} */ each) => each.name);
  return html`<tr>
    <td data-label="Process">
      <code>${printable(host)}</code>
      <span class="quiet">${pid}</span
      >${silentMs > 0 && decisions === undefined && html`<div><span class="chip warn" title="Its publication is late, so it may have ended, or cannot reach the store. Slots that it had are free when their leases end">silent for ${span(silentMs)}</span></div>`}
    </td>
    <td data-label="Since">${since ? html`<${Time} at=${since} />` : unknown}</td>
    <td data-label="Version">${version ? printable(version) : unknown}</td>
    <td data-label="Limiters">
      <span title=${printable(all.join(', '))}>${many(all.length, 'limiter')}</span
      >${differing.length > 0 && html`<div><span class="chip warn" title="Other processes have other options">other options: ${printable(differing.join(', '))}</span></div>`}
    </td>
    <td class="number" data-label="Decisions/s">${decisions === undefined ? unknown : rate(decisions)}</td>
    <td class="number" data-label="Without the store">
      ${degraded > 0 ? html`<b class="bad">${rate(degraded)}/s</b>` : degraded === undefined ? unknown : '0'}
    </td>
    <td data-label="Store">
      ${health && !isOld ? html`<span class=${health.state === 'up' ? 'good' : 'bad'}>${HEALTH_TEXTS[health.state]}</span>${health.failures > 0 ? html` <span class="quiet">${many(health.failures, 'failure')}</span>` : ''}` : unknown}
    </td>
    <td data-label="Latency">
      ${latency ? html`<span class="nowrap">${latency.p50Ms} ms</span> <span class="quiet nowrap">99 %: ${latency.p99Ms} ms</span>${latency.late > 0 ? html` <b class="bad">${rate(latency.late)}/s late</b>` : ''}` : unknown}
    </td>
    <td class="number" data-label="Event loop">
      ${loopDelayMs === undefined ? unknown : loopDelayMs > 100 ? html`<b class="bad">${span(loopDelayMs) === '< 1 s' ? `${count(loopDelayMs)} ms` : span(loopDelayMs)} late</b>` : `${count(loopDelayMs)} ms late`}
    </td>
  </tr>`;
}
