import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { access, constants, stat, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, resolve } from 'node:path';
import { failure, usageError } from '../errors.js';
import { duration, printable } from '../format.js';
import type { Io } from '../io.js';
import { policyText } from '../../policy-text.js';
import { cellsOf, count, many, moment, share } from './format.js';
import type { LogSummary } from './log-file.js';
import { leftNote, logNotes } from './notes.js';
import type { Interval, ReplayResult } from './replay.js';

/** Logs often have whole seconds. */
const SECOND = 1000;

const packages = createRequire(import.meta.url);

/** A file of the page: beside the bundle, where the build puts it, or from the source, where it is. */
function asset(name: string, module?: string): string {
  const beside = new URL(`./page/${name}`, import.meta.url);
  return readFileSync(existsSync(beside) || !module ? beside : packages.resolve(module), 'utf8');
}

/** Whether a report can be written there, said before the work is done. @throws CliError */
export async function checkReportPath(path: string, logs: readonly string[], { cwd }: Io): Promise<string> {
  const file = resolve(cwd, path);
  if (logs.some((log) => resolve(cwd, log) === file)) {
    throw usageError(
      `--report: ${path} is a log that is read. Write the name of a new file: --report report.html.`,
    );
  }
  const found = await stat(file).catch(() => undefined);
  if (found?.isDirectory()) {
    throw usageError(
      `--report: ${path} is a directory. Write the name of a file in it: --report ${path}/report.html.`,
    );
  }
  try {
    await access(found ? file : dirname(file), constants.W_OK);
  } catch (error) {
    throw failure(
      `--report: ${path} cannot be written: ${(error as Error).message}. Choose another place.`,
      error,
    );
  }
  return file;
}

/** Writes the page. @throws CliError `FAILED` */
export async function writeReport(
  file: string,
  result: ReplayResult,
  logs: readonly LogSummary[],
  left: readonly string[],
): Promise<void> {
  try {
    await writeFile(file, reportPage(result, logs, left));
  } catch (error) {
    throw failure(
      `--report: ${file} cannot be written: ${(error as Error).message}. Choose another place.`,
      error,
    );
  }
}

/** Text of a log is anybody's: it is never markup. */
const escape = (text: string): string => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

/** What a replay found, as one page of HTML that needs nothing else, nor the network. */
function reportPage(result: ReplayResult, logs: readonly LogSummary[], left: readonly string[]): string {
  const scripts = [asset('uPlot.iife.min.js', 'uplot/dist/uPlot.iife.min.js'), asset('page.js')];
  const hashes = scripts.map((script) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`);
  const { requests, admitted, denied, clients, deniedClients, first, last, timeline } = result;
  const partial = partialIntervals(result);
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
<p class="quiet">${moment(first)} to ${moment(last)} UTC, ${duration(Math.max(1, last - first))}</p>
<div class="figures">
${figure(count(requests), 'requests')}
${figure(count(admitted), 'admitted')}
${figure(`${count(denied)} <small>(${escape(share(denied, requests))})</small>`, 'denied', denied > 0)}
${figure(count(clients), 'clients')}
${figure(`${count(deniedClients)} <small>(${escape(share(deniedClients, clients))})</small>`, 'clients denied', deniedClients > 0)}
</div>
<h2>Policies</h2>
${policyTable(result)}
<h2>Requests</h2>
<p class="quiet">Per ${duration(timeline.width)}, in UTC. Tap or point at the plot for values; drag, or use the buttons, to zoom.${
    partial.length > 0 ? ' Shaded: the log covers a part of that interval only.' : ''
  }</p>
<p class="zoom" hidden><button type="button" id="in">Zoom in</button> <button type="button" id="out">Zoom out</button>
<button type="button" id="all">All</button></p>
<div id="requests" role="img" aria-label="${escape(peaks(result))}"></div>
<h2>Denied by each policy</h2>
<p class="quiet">A request that two policies deny is in both.</p>
<div id="denied" role="img" aria-label="Requests that each policy denied; the table below has the values."></div>
<details><summary>The plots as a table</summary>
${intervalTable(result)}
</details>
<h2>How much of a limit the clients used</h2>
<p class="quiet">The most that a client used at any time, of what can be spent at once.</p>
${result.policies.map(useBars).join('\n')}
<h2>Clients denied most</h2>
${topTable(result)}
<h2>Logs</h2>
<ul>${[...left.map(leftNote), ...logNotes(logs, result)]
    .map((note) => `<li>${escape(note.trim())}</li>`)
    .join('')}</ul>
<p class="quiet">Made with <code>headgate replay</code>.</p>
<script type="application/json" id="data">${jsonInHtml({ ...plotsOf(result), partial })}</script>
<script>${scripts[0]}</script>
<script type="module">${scripts[1]}</script>
</body>
</html>
`;
}

function figure(value: string, label: string, bad = false): string {
  return `<div><b${bad ? ' class="out"' : ''}>${value}</b>${label}</div>`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const numeric = head.map((_, i) => rows.every((row) => /^([<>] )?[\d,]+(\.\d+)?( %)?$/.test(row[i]!)));
  const line = (tag: 'td' | 'th', cells: readonly string[]) => {
    const all = cells.map(
      (text, i) => `<${tag}${numeric[i] ? ' class="number"' : ''}>${escape(text)}</${tag}>`,
    );
    return `<tr>${all.join('')}</tr>`;
  };
  return `<div class="scroll"><table><thead>${line('th', head)}</thead><tbody>
${rows.map((row) => line('td', row)).join('\n')}
</tbody></table></div>`;
}

function policyTable({ policies, requests, clients }: ReplayResult): string {
  return table(
    ['policy', 'limit', 'denied', 'of requests', 'clients', 'of clients', 'first (UTC)', 'last (UTC)'],
    policies.map(({ name, policy, denied, clients: affected, first, last }) => [
      policy.shadow ? `${name} (would have)` : name,
      policyText({ ...policy, name: undefined } as unknown as typeof policy),
      count(denied),
      share(denied, requests),
      count(affected),
      share(affected, clients),
      moment(first),
      moment(last),
    ]),
  );
}

function topTable({ top, deniedClients }: ReplayResult): string {
  if (top.length === 0) return '<p>Nobody was denied.</p>';
  const rows = top.map((client) => cellsOf(client, 200, moment));
  const more = deniedClients - top.length;
  const head = ['client', 'requests', 'denied', 'share', 'first (UTC)', 'last (UTC)', 'longest streak', 'by'];
  return `${table(head, rows)}${more > 0 ? `<p class="quiet">... and ${many(more, 'more client')}.</p>` : ''}`;
}

/** The largest values, for those who do not see the plot. */
function peaks({ timeline: { intervals, width } }: ReplayResult): string {
  const most = (valueOf: (interval: Interval) => number): string => {
    const peak = intervals.reduce((a, b) => (valueOf(b) > valueOf(a) ? b : a));
    return valueOf(peak) === 0 ? 'none' : `at most ${count(valueOf(peak))}, from ${moment(peak.start)}`;
  };
  return `Per ${duration(width)}: requests ${most((i) => i.admitted + i.denied)}; denied ${most((i) => i.denied)}. The table below has the values.`;
}

function intervalTable({ timeline, policies }: ReplayResult): string {
  return table(
    ['from (UTC)', 'admitted', 'denied', ...policies.map(({ name }) => `by ${name}`)],
    timeline.intervals.map(({ start, admitted, denied, policies: by }) => [
      moment(start),
      ...[admitted, denied, ...by].map(count),
    ]),
  );
}

/** Where the log covers a part of an interval only, at its begin and its end, in seconds. */
function partialIntervals({ timeline: { intervals, width }, first, last }: ReplayResult): [number, number][] {
  const [begin, end] = [intervals[0]!.start, intervals.at(-1)!.start];
  const starts = new Set([
    ...(first - begin >= SECOND ? [begin] : []),
    ...(end + width - last > SECOND ? [end] : []),
  ]);
  return [...starts].map((start) => [start / 1000, (start + width) / 1000]);
}

function useBars({ name, use }: ReplayResult['policies'][number]): string {
  const most = Math.max(1, ...use);
  const bars = use.map((clients, i) => {
    const isDenied = i === use.length - 1;
    const label = isDenied ? 'denied' : `${10 * i} to ${10 * (i + 1)} %`;
    const filled = clients === 0 ? '' : `<i style="width: ${((100 * clients) / most).toFixed(2)}%"></i>`;
    const bar = `<span class="bar${isDenied ? ' bad' : ''}">${filled}</span>`;
    return `<span>${label}</span>${bar}<span>${count(clients)}</span>`;
  });
  return `<h3>${escape(name)}</h3><div class="bars">${bars.join('\n')}</div>`;
}

/** Colours of the policies: variables of the page's style. */
const COLORS = 6;

function plotsOf({ timeline, policies }: ReplayResult): object {
  const { intervals } = timeline;
  return {
    times: intervals.map(({ start }) => start / 1000),
    width: timeline.width / 1000,
    plots: [
      {
        id: 'requests',
        stacked: true,
        series: [
          { name: 'admitted', color: '--in', values: intervals.map(({ admitted }) => admitted) },
          { name: 'denied', color: '--out', values: intervals.map(({ denied }) => denied) },
        ],
      },
      {
        id: 'denied',
        series: policies.map(({ name }, i) => ({
          name,
          color: `--p${i % COLORS}`,
          values: intervals.map((interval) => interval.policies[i]),
        })),
      },
    ],
  };
}

/** No text ends the script that it stands in. */
const jsonInHtml = (value: unknown): string => JSON.stringify(value).replaceAll('<', '\\u003c');
