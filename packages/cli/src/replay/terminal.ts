import { policyText, type Policy } from 'headgate';
import { columns, count, duration, many, printable, share } from '../format.js';
import type { Io } from '../io.js';
import {
  cellsOf,
  doubtsOf,
  foundText,
  logNotes,
  moment,
  policyTable,
  notesOf,
  type Found,
} from './tables.js';
import type { LogSummary } from './log-file.js';
import type { Comparison, Interval, ReplayResult, Results } from './replay.js';
import { OUTLIER_FACTOR } from './outliers.js';
import type { Suggestions } from './suggest.js';

export function replayText(results: Results, io: Io): string {
  const { bold, red, green, dim } = io.colors;
  const { result, compared } = results;
  const { requests, denied, clients, deniedClients } = result;
  const verdict =
    denied === 0 ? green('none denied') : red(`${count(denied)} denied (${share(denied, requests)})`);
  const of = denied === 0 ? '' : `, of ${many(deniedClients, 'client')} (${share(deniedClients, clients)})`;
  const parts = [
    `${foundText(result, io.colors)}: ${bold(verdict)}${of}`,
    ...doubtsText(results.logs, io),
    policiesText(result, io),
    ...(compared ? [comparisonText(result, compared, io)] : []),
    charts(result, io),
    topTable(result, io),
    notesOf(results)
      .map((note) => dim(note))
      .join('\n'),
  ];
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`;
}

/** Comes before the results, because these may be wrong. */
const doubtsText = (logs: readonly LogSummary[], { colors: { yellow } }: Io): string[] =>
  doubtsOf(logs).map((doubt) => yellow(doubt));

function policiesText(result: ReplayResult, io: Io): string {
  const { held, longestHold } = result;
  const note =
    held > 0 ? `\n${many(held, 'request')} held for their turn, at most ${duration(longestHold)}` : '';
  return `${columns(io, ...policyTable(result)).trimEnd()}${note}`;
}

function topTable({ top, deniedClients }: ReplayResult, io: Io): string {
  if (top.length === 0) return '';
  const head = ['denied most', 'requests', 'denied', '', 'first (UTC)', 'last (UTC)', 'longest streak', 'by'];
  const rows = top.map((client) => cellsOf(client, 44, (time) => moment(time).slice(11)));
  const more = deniedClients - top.length;
  return `${columns(io, head, rows).trimEnd()}${more > 0 ? `\n... and ${many(more, 'more client')}: --top` : ''}`;
}

function comparisonText(first: ReplayResult, compared: Comparison, io: Io): string {
  const { result: second, both, firstOnly, secondOnly } = compared;
  const figures = (of: ReplayResult): string =>
    `${count(of.denied)} denied (${share(of.denied, of.requests)}), of ${many(of.deniedClients, 'client')}`;
  return [
    io.colors.bold('compared with'),
    policiesText(second, io),
    `These policies: ${figures(first)}. The others: ${figures(second)}.`,
    `Clients denied by both: ${count(both)}; only by these policies: ${count(firstOnly)}; only by the others: ${count(secondOnly)}.`,
  ].join('\n');
}

const HEIGHT = 7;

function charts(result: ReplayResult, io: Io): string {
  const { intervals, width } = result.timeline;
  if (intervals.length < 2) return '';
  const room = Math.max(20, Math.min(100, io.width - 14));
  // Neighbouring intervals are added up until they fit.
  const per = Math.ceil(intervals.length / room);
  const groups = Array.from({ length: Math.ceil(intervals.length / per) }, (_, i) =>
    intervals.slice(i * per, (i + 1) * per),
  );
  const draw = (
    what: string,
    of: (interval: Interval) => number,
    paint: (text: string) => string,
  ): string => {
    const sums = groups.map((group) => group.reduce((sum, interval) => sum + of(interval), 0));
    return area(`${what} per ${duration(per * width)}`, sums, paint, result);
  };
  const drawn = [draw('requests', ({ admitted, denied }) => admitted + denied, io.colors.green)];
  if (result.denied > 0) drawn.push(draw('denied', ({ denied }) => denied, io.colors.red));
  return drawn.join('\n\n');
}

const BLOCKS = ['', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const EIGHTHS = BLOCKS.length - 1;

/** One column per value. Only 0 is empty; any other value is visible. */
function area(
  title: string,
  values: readonly number[],
  paint: (text: string) => string,
  { first, last }: ReplayResult,
): string {
  const top = Math.max(...values);
  const heights = values.map((value) =>
    value === 0 ? 0 : Math.max(1, Math.round((value / top) * HEIGHT * EIGHTHS)),
  );
  const margin = Math.max(6, count(top).length + 1);
  const rows = Array.from({ length: HEIGHT }, (_, row) => {
    const below = (HEIGHT - 1 - row) * EIGHTHS;
    const blocks = heights
      .map((height) => BLOCKS[Math.max(0, Math.min(EIGHTHS, height - below))] || ' ')
      .join('');
    const label = row === 0 ? count(top) : '';
    return `${label.padStart(margin)} ${label === '' ? '│' : '┤'}${paint(blocks.trimEnd())}`;
  });
  const time = (x: number): string => {
    const at = moment(first + (last - first) * x);
    return last - first > 86_400_000 ? at.slice(5, 16) : at.slice(11, 19);
  };
  const ends = `${time(0)} ${time(1).padStart(values.length - time(0).length - 1)}`;
  const middle = Math.round((values.length - time(0.5).length) / 2);
  const room = values.length >= 3 * (time(0).length + 2);
  const times = room ? ends.slice(0, middle) + time(0.5) + ends.slice(middle + time(0.5).length) : ends;
  return [
    `${title} (at most ${count(top)})`,
    ...rows,
    `${'0'.padStart(margin)} └${'─'.repeat(values.length)}`,
    `${' '.repeat(margin + 2)}${times}`,
  ].join('\n');
}

export function suggestText(
  suggestions: Suggestions,
  found: Found,
  { logs, command }: { readonly logs: readonly LogSummary[]; readonly command: string },
  io: Io,
): string {
  const { bold, dim } = io.colors;
  const { keep, together } = suggestions;
  const parts = [
    foundText(found, io.colors),
    ...doubtsText(logs, io),
    `The smallest limits, each alone, that never deny this share of the clients:`,
    alternativesTable(suggestions, found, io),
    `${bold(`All together, for ${keep} % of the clients`)}: ${deniedText(together, found)}`,
    bold(arrayOf(together.policies)),
    `To check it:\n  ${checkCommand(command, together.policies)}`,
    ...outliersText(suggestions, found, command, io),
    logNotes(logs, found)
      .map((note) => dim(note))
      .join('\n'),
  ];
  return `${parts.join('\n\n')}\n`;
}

const checkCommand = (command: string, policies: readonly Policy[]): string => {
  const words = policies.map((policy) => `--policy '${policyText(policy).replaceAll("'", "'\\''")}'`);
  return [printable(command, Infinity), ...words].join(' ');
};

const MAX_NAMED = 20;

/** The clients that alone decide the limits above, and the limits without them. */
function outliersText({ keep, outliers }: Suggestions, found: Found, command: string, io: Io): string[] {
  if (!outliers) return [];
  const names = [...outliers.clients];
  const left = names.length - MAX_NAMED;
  const named = names.slice(0, MAX_NAMED).map((name) => printable(name));
  if (left > 0) named.push(`${count(left)} more`);
  return [
    `${io.colors.bold('Outliers')}: ${keep} % of ${many(found.clients, 'client')} are all of them, so the limits above also admit ` +
      `${many(names.length, 'client')} with at least ${OUTLIER_FACTOR} times the peak of every other client: ${named.join(', ')}. ` +
      'If such use is unwanted, these limits deny only such clients:',
    io.colors.bold(arrayOf(outliers.policies)),
    `To check it:\n  ${checkCommand(command, outliers.policies)}`,
  ];
}

function alternativesTable({ each, keep: asked }: Suggestions, found: Found, io: Io): string {
  const head = ['clients kept', 'policy', 'clients denied', '', 'requests denied', ''];
  const alternatives = each.flatMap((suggestion) => suggestion.alternatives);
  const rows = alternatives.map(({ keep, policy, deniedClients, deniedRequests }) => {
    const row = [
      `${keep} %`,
      policyText(policy),
      count(deniedClients),
      share(deniedClients, found.clients),
      deniedRequests === undefined ? '?' : count(deniedRequests),
      deniedRequests === undefined ? '' : share(deniedRequests, found.requests),
    ];
    return keep === asked ? row.map((text) => io.colors.green(text)) : row;
  });
  return columns(io, head, rows).trimEnd();
}

function deniedText({ deniedClients, deniedRequests }: Suggestions['together'], found: Found): string {
  if (deniedClients === 0) return 'no client would be denied';
  const clients = `${many(deniedClients, 'client')} (${share(deniedClients, found.clients)})`;
  return deniedRequests === undefined
    ? `${clients} would be denied (the number of requests is unknown, because neither standard input nor a file that changed can be read twice)`
    : `${clients} would be denied ${many(deniedRequests, 'request')} (${share(deniedRequests, found.requests)})`;
}

function arrayOf(policies: readonly Policy[]): string {
  const lines = policies.map((policy) => {
    const fields = Object.entries(policy).map(([name, value]) => {
      const text =
        typeof value === 'number' ? literal(value) : `'${String(value).replace(/['\\]/g, '\\$&')}'`;
      return `${name}: ${text}`;
    });
    return `  { ${fields.join(', ')} },`;
  });
  return `policies: [\n${lines.join('\n')}\n]`;
}

/** `10_000`. */
const literal = (value: number): string => count(value).replaceAll(',', '_');
