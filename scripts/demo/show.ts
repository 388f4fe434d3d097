// The show: the same requests to every algorithm, over HTTP, in real time. Then it prints the results.
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import Table from 'cli-table3';
import pc from 'picocolors';
import { rows } from './algorithms.js';
import type { DemoServer } from './servers.js';

/** When requests are sent, ms: one; eight on either side of the first window's end; then more than the rate for a while. */
const trace = [
  0,
  ...Array<number>(8).fill(1_700),
  ...Array<number>(8).fill(2_100),
  ...every(200, 2_700, 5_900),
];

function every(step: number, from: number, to: number): number[] {
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => from + i * step);
}

/** The width of a column, ms; and the number of columns. Held requests are answered after the last one was sent. */
const COLUMN = 100;
const COLUMNS = 72;

interface Answer {
  status: number;
  headers: Headers;
  body: string;
}

interface Track {
  name: string;
  admitted: number[];
  denied: number[];
  /** The first answer of each kind. Its headers are shown. */
  firstAdmitted?: Answer;
  firstDenied?: Answer;
}

/** The first requests of a process are slow, so they are sent before those that are shown. */
async function warmUp(servers: readonly DemoServer[]): Promise<void> {
  for (const { url } of servers) {
    for (const { name } of rows) await (await fetch(`${url}/${name}?key=warm-up&hold=0`)).text();
  }
}

/** Sends the trace to every algorithm, alternating between the servers, and shows the answers as they come. */
export async function show(servers: readonly DemoServer[], key: string): Promise<void> {
  const tracks = rows.map(({ name }): Track => ({
    name,
    admitted: Array<number>(COLUMNS).fill(0),
    denied: Array<number>(COLUMNS).fill(0),
  }));
  const sent = Array<number>(COLUMNS).fill(0);
  for (const at of trace) sent[at / COLUMN]! += 1;

  await warmUp(servers);
  const start = performance.now();
  const column = () => Math.floor((performance.now() - start) / COLUMN);
  const answers: Promise<void>[] = [];
  let left = trace.length;
  for (const [i, at] of trace.entries()) {
    answers.push(
      (async () => {
        await sleep(start + at - performance.now());
        const server = servers[i % servers.length]!;
        await Promise.all(tracks.map((track) => ask(server, track, key, column)));
        left -= 1;
      })(),
    );
  }
  const done = Promise.all(answers);
  done.catch(() => {}); // Awaited below; a failure must not be unhandled until then.
  if (process.stdout.isTTY && process.stdout.columns > WIDTH) {
    let lines = 0;
    do {
      if (lines > 0) process.stdout.moveCursor(0, -lines);
      const picture = draw(tracks, sent, column());
      process.stdout.write(picture);
      lines = picture.split('\n').length - 1;
      await Promise.race([sleep(COLUMN), done]);
    } while (left > 0);
    await done;
    process.stdout.moveCursor(0, -lines);
  }
  await done;
  process.stdout.write(draw(tracks, sent, COLUMNS));
  process.stdout.write(headers(tracks));
}

async function ask(server: DemoServer, track: Track, key: string, column: () => number): Promise<void> {
  const response = await fetch(`${server.url}/${track.name}?key=${key}`);
  const answer = { status: response.status, headers: response.headers, body: await response.text() };
  if (answer.status !== 200 && answer.status !== 429)
    throw new Error(`${server.url}/${track.name} answered ${answer.status}: ${answer.body}`);
  const kind = answer.status === 200 ? 'admitted' : 'denied';
  track[kind][Math.min(column(), COLUMNS - 1)]! += 1;
  if (kind === 'admitted') track.firstAdmitted ??= answer;
  else track.firstDenied ??= answer;
}

const BARS = ' ▁▂▃▄▅▆▇█';
const NAME = 16;
const WIDTH = NAME + 9 + COLUMNS + 4;

/** A bar with one character per column, for counts up to eight. `now` is the current time. */
function bars(counts: readonly number[], now: number): string {
  return counts
    .slice(0, now)
    .map((count) => BARS[Math.min(count, 8)])
    .join('')
    .padEnd(COLUMNS);
}

function draw(tracks: readonly Track[], sent: readonly number[], now: number): string {
  const second = 1_000 / COLUMN;
  const scale = Array.from({ length: Math.ceil(COLUMNS / second) }, (_, s) => `${s} s`.padEnd(second)).join(
    '',
  );
  const total = sum(sent.slice(0, now));
  const lines = [
    `${''.padEnd(NAME + 9)}${pc.dim(scale)}`,
    `${'requests'.padEnd(NAME)}${'sent'.padEnd(9)}${bars(sent, now)}${String(total).padStart(4)}`,
    '',
  ];
  for (const { name, admitted, denied } of tracks) {
    lines.push(
      `${pc.bold(name.padEnd(NAME))}admitted ${pc.green(bars(admitted, now))}${String(sum(admitted)).padStart(4)}`,
      `${''.padEnd(NAME)}denied   ${pc.red(bars(denied, now))}${String(sum(denied)).padStart(4)}`,
    );
  }
  return `${lines.join('\n')}\n`;
}

const sum = (counts: readonly number[]): number => counts.reduce((a, b) => a + b, 0);

/** The headers of the first request and of the first denied one, and one complete denial. */
function headers(tracks: readonly Track[]): string {
  const table = new Table({
    head: ['', 'RateLimit-Policy', 'RateLimit, first', 'RateLimit, denied', 'Retry-After'],
    style: { head: [], border: [], compact: true },
  });
  for (const { name, firstAdmitted, firstDenied } of tracks) {
    // One line per item. The name in the item is left out, because it is the row's.
    const items = (list: string | null | undefined) =>
      (list ?? '').replaceAll(`"${name}";`, '').replaceAll(', ', '\n');
    table.push([
      pc.bold(name),
      items(firstAdmitted?.headers.get('ratelimit-policy')),
      pc.green(items(firstAdmitted?.headers.get('ratelimit'))),
      pc.red(items(firstDenied?.headers.get('ratelimit'))),
      firstDenied?.headers.get('retry-after') ?? '',
    ]);
  }
  const [example] = tracks.filter(({ name }) => name === 'several');
  return `
${pc.bold('What they were told')} (q: quota, w: window in seconds, r: remaining, t: seconds)
${table.toString()}

${pc.bold('A denial in full')}
${example?.firstDenied ? inFull(example.firstDenied) : ''}
`;
}

const SHOWN = /^(ratelimit.*|retry-after|cache-control|content-type)$/;

function inFull({ status, headers, body }: Answer): string {
  const fields = [...headers]
    .filter(([name]) => SHOWN.test(name))
    .map(([name, value]) => `${name}: ${value}`);
  return [`HTTP/1.1 ${status}`, ...fields, '', body].map((line) => `  ${line}`).join('\n');
}
