import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { count, duration, many, printable, share } from '../format.js';
import type { ClientTimes, Report, Tally } from './report.js';
import { cellsOf, moment, policyTable, replayNotes, spanText } from './tables.js';
import type { Comparison, Interval, ReplayResult } from './replay.js';
import { plotsOf } from './report-plots.js';

const NAMED = 10;

const packages = createRequire(import.meta.url);

/** A file of the page. The build puts it beside the bundle; otherwise it is in the source. */
function asset(name: string, module?: string): string {
  const beside = new URL(`./page/${name}`, import.meta.url);
  return readFileSync(existsSync(beside) || !module ? beside : packages.resolve(module), 'utf8');
}

/** The result of a replay as one HTML page that needs neither other files nor the network. */
export function reportPage(report: Report): string {
  const { result, logs, command, compared } = report;
  const scripts = [asset('uPlot.iife.min.js', 'uplot/dist/uPlot.iife.min.js'), asset('page.js')];
  const hashes = scripts.map((script) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`);
  const { requests, admitted, denied, clients, deniedClients, timeline } = result;
  const plots = plotsOf(report);
  const title = `Headgate replay: ${logs.map(({ name }) => printable(name)).join(', ')}`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src ${hashes.join(' ')}">
<link rel="icon" href="data:,">
<title>${escape(title)}</title>
<style>${asset('uPlot.min.css', 'uplot/dist/uPlot.min.css')}${asset('page.css')}</style>
</head>
<body>
<h1>${escape(title)}</h1>
<p class="quiet">${spanText(result)}</p>
<p><code class="command">${escape(printable(command, Infinity))}</code></p>
<div class="figures">
${figure(count(requests), 'requests')}
${figure(count(admitted), 'admitted')}
${figure(`${count(denied)} <small>(${escape(share(denied, requests))})</small>`, 'denied', denied > 0)}
${figure(count(clients), 'clients')}
${figure(`${count(deniedClients)} <small>(${escape(share(deniedClients, clients))})</small>`, 'clients denied', deniedClients > 0)}
</div>
<h2>Policies</h2>
${table('policies', ...policyTable(result))}
${compared ? comparison(result, compared) : ''}
<h2>Requests</h2>
<p class="quiet">Per ${duration(timeline.width)}, in UTC. Tap or point at the plot for values; drag, or use the buttons, to zoom.${
    plots.partial.length > 0 ? ' Shaded: the log covers a part of that interval only.' : ''
  }</p>
<p class="zoom" hidden><button type="button" id="in">Zoom in</button> <button type="button" id="out">Zoom out</button>
<button type="button" id="all">All</button> <button type="button" id="log" aria-pressed="false">Log scale</button></p>
${plot('requests', peaks(result))}
<h2>Denied by each policy</h2>
<p class="quiet">A request that two policies deny counts for both.</p>
${plot('denied', 'Requests that each policy denied; the table below has the values.')}
<details><summary>The plots as a table</summary>
${intervalTable(result)}
</details>
${deniedSections(report)}
<h2>How much of a limit the clients used</h2>
<p class="quiet">The largest part of the capacity that each client used at any time.</p>
${result.policies.map(useBars).join('\n')}
<h2>Logs</h2>
<ul>${replayNotes(report)
    .map((note) => `<li>${escape(note.trim())}</li>`)
    .join('')}</ul>
<p class="quiet">Made with <code>headgate replay</code>.</p>
<script type="application/json" id="data">${jsonInHtml(plots)}</script>
<script>${scripts[0]}</script>
<script type="module">${scripts[1]}</script>
</body>
</html>
`;
}

/** The second set of policies, compared with the first. */
function comparison(
  first: ReplayResult,
  { result: second, both, firstOnly, secondOnly }: Comparison,
): string {
  const { requests, clients } = first;
  const cells = ({ denied: some, deniedClients: of }: ReplayResult): string[] => {
    return [count(some), share(some, requests), count(of), share(of, clients)];
  };
  const [ours, theirs] = [cells(first), cells(second)];
  const names = ['denied', 'of requests', 'clients denied', 'of clients'];
  const rows = names.map((what, i) => [what, ours[i]!, theirs[i]!]);
  return `<h2>Compared with other policies</h2>
${table('other policies', ...policyTable(second))}
${table('comparison', ['', 'the policies above', 'the other ones'], rows)}
<p>Clients denied by both: ${count(both)}; only by the policies above: ${count(firstOnly)}; only by the others: ${count(secondOnly)}.</p>
${plot('compared', `Denied by the policies above: ${count(first.denied)}; by the other ones: ${count(second.denied)}.`)}`;
}

function deniedSections({ result, denied, clients }: Report): string {
  if (result.denied === 0) return '<h2>Clients denied most</h2>\n<p>No client was denied.</p>';
  const { top, deniedClients } = result;
  const rows = top.map((client) => cellsOf(client, 200, moment));
  const head = ['client', 'requests', 'denied', 'share', 'first (UTC)', 'last (UTC)', 'longest streak', 'by'];
  const more = deniedClients - top.length;
  const chart =
    clients === undefined
      ? '<p class="quiet">Their requests over time are not shown, because that needs a second reading of the log.</p>'
      : `<p class="quiet">Their requests per ${duration(clients.width)}. Dashed: the units that a policy admits from one client in that time, on average.</p>
${plot('clients', clientsLabel(clients))}`;
  return `<h2>Clients denied most</h2>
${chart}
${table('clients denied', head, rows)}${more > 0 ? `<p class="quiet">... and ${many(more, 'more client')}.</p>` : ''}
<h2>Paths of the denied requests</h2>
${tallyBars(denied.paths.tally(NAMED), result.denied)}
<h2>Statuses of the denied requests</h2>
<p class="quiet">The statuses in the log, as the server sent them at that time.</p>
${tallyBars(denied.statuses.tally(NAMED), result.denied)}`;
}

function clientsLabel({ clients }: ClientTimes): string {
  const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
  const texts = clients.map(({ key, admitted, denied }) => {
    return `${printable(key)}: ${count(sum(admitted))} admitted, ${count(sum(denied))} denied`;
  });
  return `Requests over time of the clients denied most. ${texts.join('; ')}.`;
}

/** The largest values in words, as the label of the plot for screen readers. */
function peaks({ timeline: { intervals, width } }: ReplayResult): string {
  const most = (valueOf: (interval: Interval) => number): string => {
    const peak = intervals.reduce((a, b) => (valueOf(b) > valueOf(a) ? b : a));
    return valueOf(peak) === 0 ? 'none' : `at most ${count(valueOf(peak))}, from ${moment(peak.start)}`;
  };
  return `Per ${duration(width)}: requests ${most((i) => i.admitted + i.denied)}; denied ${most((i) => i.denied)}. The table below has the values.`;
}

function intervalTable({ timeline, policies }: ReplayResult): string {
  return table(
    'requests',
    ['from (UTC)', 'admitted', 'denied', ...policies.map(({ name }) => `by ${name}`)],
    timeline.intervals.map(({ start, admitted, denied, policies: by }) => [
      moment(start),
      ...[admitted, denied, ...by].map(count),
    ]),
  );
}

function useBars({ name, use }: ReplayResult['policies'][number]): string {
  const rows = use.map((clients, i) => {
    const isDenied = i === use.length - 1;
    return [isDenied ? 'denied' : `${10 * i} to ${10 * (i + 1)} %`, clients, isDenied] as const;
  });
  return `<h3>${escape(name)}</h3>${bars(rows)}`;
}

/** Invisible characters, which could change how a browser shows other texts. */
const HIDDEN = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

// Texts of a log may come from anyone, so they must never become markup.
export const escape = (text: string): string =>
  text
    .toWellFormed()
    .replace(HIDDEN, (c) => printable(c))
    .replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

/** JSON that cannot end the script that contains it. */
export const jsonInHtml = (value: unknown): string =>
  JSON.stringify(value)
    .replace(HIDDEN, (c) => c.split('').map(unitEscape).join(''))
    .replaceAll('<', unitEscape);

const unitEscape = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;

function figure(value: string, label: string, bad = false): string {
  return `<div><b${bad ? ' class="out"' : ''}>${value}</b>${label}</div>`;
}

const NUMBER = /^([<>] )?[\d,]+(\.\d+)?( %)?$/;

/** A table. The page makes it sortable, and offers its rows as CSV under this name. */
function table(name: string, head: readonly string[], rows: readonly (readonly string[])[]): string {
  const numeric = head.map((_, i) => rows.every((row) => NUMBER.test(row[i]!)));
  const line = (cells: readonly string[], cell: (text: string, attributes: string) => string): string => {
    const all = cells.map((text, i) => cell(escape(text), numeric[i] ? ' class="number"' : ''));
    return `<tr>${all.join('')}</tr>`;
  };
  const heads = line(head, (text, attributes) => `<th scope="col"${attributes}>${text}</th>`);
  const body = rows.map((row) => line(row, (text, attributes) => `<td${attributes}>${text}</td>`));
  return `<div class="scroll"><table data-name="${escape(name)}"><thead>${heads}</thead><tbody>
${body.join('\n')}
</tbody></table></div>`;
}

/** One bar per row: its label, its value, and whether it is bad. */
function bars(rows: readonly (readonly [label: string, value: number, bad: boolean])[]): string {
  const most = Math.max(1, ...rows.map(([, value]) => value));
  const lines = rows.map(([label, value, bad]) => {
    const filled = value === 0 ? '' : `<i style="width: ${((100 * value) / most).toFixed(2)}%"></i>`;
    const bar = `<span class="bar${bad ? ' bad' : ''}">${filled}</span>`;
    return `<span class="label">${escape(label)}</span>${bar}<span>${count(value)}</span>`;
  });
  return `<div class="bars">${lines.join('\n')}</div>`;
}

/** Bars for how often each name occurred. */
function tallyBars({ rows, others }: Tally, of: number): string {
  const named = rows.map(([name, times]) => [`${name} (${share(times, of)})`, times, true] as const);
  return bars(others > 0 ? [...named, [`others (${share(others, of)})`, others, true]] : named);
}

/** A plot of the page. Screen readers read the label. */
function plot(id: string, label: string): string {
  return `<div id="${id}" class="plot" role="img" aria-label="${escape(label)}"></div>`;
}
