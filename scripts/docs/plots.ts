// Draws docs/plots/*.svg: the real algorithms on one trace, with a clock of the script, so that every run draws the same. `tsx
// scripts/docs/plots.ts` writes the files; a test calls `plots()` and compares.
import { mkdirSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { createLimiter, memoryStore } from 'headgate';
import { lightTenants, serve } from '../bench/lib/share-world.js';
import { live } from '../bench/lib/slice-world.js';

interface Outcome {
  /** The arrival of the request, ms. */
  at: number;
  allowed: boolean;
  /** The admission of the request, which is later than `at` if the request was held. */
  start: number;
}

/** Sends a request at each of `times` (ms) to a new limiter. */
async function simulate(policy: string, times: readonly number[]): Promise<Outcome[]> {
  let now = 0;
  const epoch = Date.UTC(2026, 0, 1);
  const limiter = createLimiter({ store: memoryStore({ clock: () => epoch + now }), policies: [policy] });
  const outcomes: Outcome[] = [];
  for (const at of times) {
    now = at;
    const { allowed, delayMs } = await limiter.consume('client');
    outcomes.push({ at, allowed, start: at + delayMs });
  }
  await limiter.close();
  return outcomes;
}

/** `count` times, `every` ms apart, from `from` on. */
const series = (from: number, count: number, every: number): number[] =>
  Array.from({ length: count }, (_, i) => from + i * every);

const LIMIT = 10;
const WINDOW_MS = 10_000;
const END_MS = 40_000;

/** One request, two bursts on both sides of the first window's end, twice the rate for a while, silence, a last burst. */
const trace = [
  0,
  ...series(8_400, 14, 80),
  ...series(10_100, 14, 80),
  ...series(12_000, 38, 500),
  ...series(37_000, 14, 80),
];

/** The largest number of requests admitted in any window. */
function peak(starts: readonly number[]): number {
  return Math.max(...starts.map((start) => starts.filter((s) => s > start - WINDOW_MS && s <= start).length));
}

const STYLE = `<style>
text { font: 12px system-ui, sans-serif; fill: #24292f } .dim { fill: #6e7781 } .name { font-weight: 600 }
.in { fill: #1a7f37 } .out { fill: none; stroke: #cf222e } .line { fill: none; stroke: #0969da; stroke-width: 1.5 }
.limit { stroke: #9a6700; stroke-dasharray: 4 3 } .axis { stroke: #d0d7de } .back { fill: #ffffff }
.area { fill: #0969da; opacity: .1 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .dim { fill: #8d96a0 } .in { fill: #3fb950 } .out { stroke: #f85149 } .line { stroke: #58a6ff }
.limit { stroke: #d29922 } .axis { stroke: #30363d } .back { fill: #0d1117 } .area { fill: #58a6ff } }
</style>`;

const LEFT = 20;
const WIDTH = 800;
const x = (ms: number, end = END_MS): string => (LEFT + (ms / end) * (WIDTH - 2 * LEFT)).toFixed(1);

function svg(title: string, height: number, parts: readonly string[]): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${title}">`,
    STYLE,
    `<rect class="back" width="${WIDTH}" height="${height}"/>`,
    ...parts,
    '</svg>',
    '',
  ].join('\n');
}

const timeAxis = (y: number, times = series(0, 9, 5_000), end = END_MS): string =>
  times
    .map((ms) => `<text class="dim" x="${x(ms, end)}" y="${y}" text-anchor="middle">${ms / 1000} s</text>`)
    .join('\n');

/** The headings above a plot, on the left and on the right. */
const heading = (top: number, name: string, note: string): string =>
  `<text class="name" x="${LEFT}" y="${top + 14}">${name}</text>\n` +
  `<text class="dim" x="${WIDTH - LEFT}" y="${top + 14}" text-anchor="end">${note}</text>`;

/** Stacks plots above one common axis of time. */
function rows(title: string, height: number, parts: readonly string[]): string {
  const bottom = parts.length * height;
  return svg(title, bottom + 24, [...parts, timeAxis(bottom + 14)]);
}

/** Requests as ticks, admitted above a line and denied below. Above them, the number admitted in the last window. */
function row(top: number, name: string, note: string, outcomes: readonly Outcome[]): string {
  const starts = outcomes.filter(({ allowed }) => allowed).map(({ start }) => start);
  const base = top + 86;
  const y = (units: number): string => (base - (units / (2 * LIMIT)) * 62).toFixed(1);
  const events = [
    ...starts.map((at) => [at, 1] as const),
    ...starts.map((at) => [at + WINDOW_MS, -1] as const),
  ];
  events.sort(([a, up], [b, down]) => a - b || up - down);
  let units = 0;
  let path = `M${x(0)} ${y(0)}`;
  for (const [i, [at, change]] of events.entries()) {
    if (at > END_MS) break;
    units += change;
    if (events[i + 1]?.[0] !== at) path += `H${x(at)}V${y(units)}`;
  }
  path += `H${x(END_MS)}`;
  const marks = outcomes.map(({ at, allowed, start }) =>
    allowed
      ? `<rect class="in" x="${x(start)}" y="${base + 4}" width="1.6" height="9"/>`
      : `<path class="out" d="M${x(at)} ${base + 16}v7"/>`,
  );
  const counts = `${starts.length} of ${outcomes.length} admitted, at most ${peak(starts)} in any 10 s`;
  return [
    heading(top, name, `${note}, ${counts}`),
    `<path class="area" d="${path}V${y(0)}Z"/>`,
    `<path class="line" d="${path}"/>`,
    `<path class="axis" d="M${x(0)} ${base}H${x(END_MS)}"/>`,
    `<path class="limit" d="M${x(0)} ${y(LIMIT)}H${x(END_MS)}"/>`,
    ...marks,
  ].join('\n');
}

async function algorithms(): Promise<string> {
  const figures = [
    ['fixed-window', 'limit 10', 'fixed-window 10/10s'],
    ['sliding-window', 'limit 10, 10 segments', 'sliding-window 10/10s'],
    ['sliding-log', 'limit 10', 'sliding-log 10/10s'],
    ['token-bucket', 'limit 10, burst 10', 'token-bucket 10/10s'],
    ['token-bucket', 'limit 10, burst 3', 'token-bucket 10/10s burst 3'],
    ['leaky-bucket', 'limit 10, burst 1, maxDelay 3 s', 'leaky-bucket 10/10s burst 1 max-delay 3s'],
  ] as const;
  const height = 120;
  const parts: string[] = [];
  for (const [i, [name, note, policy]] of figures.entries())
    parts.push(row(i * height, name, note, await simulate(policy, trace)));
  return rows('What each algorithm admits of the same requests', height, parts);
}

/** The units of a client that asks all the time, by the number of segments. */
async function segments(): Promise<string> {
  const demand = series(0, 400, 100);
  const choices = [2, 5, 10, 60].map(
    (n) => [`sliding-window, ${n} segments`, `10/10s segments ${n}`] as const,
  );
  const parts: string[] = [];
  const height = 34;
  for (const [i, [name, policy]] of [...choices, ['sliding-log', 'sliding-log 10/10s'] as const].entries()) {
    const admitted = (await simulate(policy, demand)).filter(({ allowed }) => allowed);
    const top = i * height;
    const back = admitted[LIMIT]!.at - admitted[0]!.at;
    const plot = [
      heading(top, name, `the first unit is back after ${(back / 1000).toFixed(1)} s`),
      ...admitted.map(({ at }) => `<rect class="in" x="${x(at)}" y="${top + 19}" width="1.6" height="9"/>`),
      `<path class="axis" d="M${x(0)} ${top + 30}H${x(END_MS)}"/>`,
    ];
    parts.push(plot.join('\n'));
  }
  return rows('How soon units are back, by the number of segments', height, parts);
}

/** The units of one window that eight processes spend, hold and give back. */
async function slices(): Promise<string> {
  const [limit, window] = [2_000, 2_000];
  const { history } = await live({
    ...{ seed: 1, policy: { algorithm: 'fixed-window', limit, window }, window, hold: 100 },
    ...{ distances: Array.from({ length: 8 }, () => 0.2), process: (random) => random.integer(0, 7) },
    ...{ key: () => 0, rate: 1.25, duration: 1_990, faults: false },
  });
  const [height, base] = [250, 220];
  const across = (ms: number): string => x(ms, window);
  const up = (units: number): string => (base - (units / limit) * 160).toFixed(1);
  const line = (of: (each: (typeof history)[number]) => number): string =>
    history.map((each) => `${across(each.at)} ${up(of(each))}`).join('L');
  const spent = line((each) => each.spent);
  const largestHeld = Math.max(...history.map(({ held }) => held));
  const end = history.at(-1)!;
  const note = `spent (blue), and held besides (up to the red line, at most ${largestHeld}); ${end.back} given back in all`;
  return svg('What a process holds, spends and gives back of a window', height, [
    heading(0, `2,000 units in 2 s, eight processes, 1,250 requests a second`, ''),
    `<text class="dim" x="${LEFT}" y="31">${note}</text>`,
    `<path class="out" d="M${line((each) => each.spent + each.held)}"/>`,
    `<path class="area" d="M${spent}L${across(end.at)} ${base}L${LEFT} ${base}Z"/>`,
    `<path class="line" d="M${spent}"/>`,
    `<path class="limit" d="M${across(0)} ${up(limit)}H${across(window)}"/>`,
    `<path class="axis" d="M${across(0)} ${base}H${across(window)}"/>`,
    timeAxis(base + 16, series(0, 5, 500), window),
  ]);
}

/** The units of a shared limit that its tenants have, while a hog comes and goes. */
async function shares(): Promise<string> {
  const [limit, window, end] = [1_000, 10_000, 60_000];
  const epoch = Date.UTC(2026, 0, 1);
  let now = 0;
  const store = memoryStore({ clock: () => epoch + now });
  const limiter = createLimiter({ store, policies: '1000/10s share tenant' });
  const groups = ['light', 'first', 'second'] as const;
  const admitted = groups.map((): { at: number; cost: number }[] => []);
  const levels: [number, number][] = [];
  await serve(
    [
      ...lightTenants(20, 40),
      { tenant: 'first', rate: 300, from: 10, to: 45 },
      { tenant: 'second', rate: 300, from: 25, to: 55 },
    ],
    {
      ...{ limit, window, seconds: end / 1000 },
      ask: async ({ at, tenant, cost }) => {
        now = at;
        const { allowed, policies } = await limiter.consume({ key: 'limit', tenant }, { cost });
        const group = groups.findIndex((name) => tenant.startsWith(name));
        if (allowed) admitted[group]!.push({ at, cost });
        if (tenant === 'first') levels.push([at, policies[0]!.share!]);
        return allowed;
      },
    },
  );
  await limiter.close();
  const [height, base] = [250, 220];
  const across = (ms: number): string => x(ms, end);
  const up = (units: number): string => (base - (units / limit) * 180).toFixed(1);
  const unitsAt = (group: number, at: number): number =>
    admitted[group]!.filter((each) => each.at <= at && each.at > at - window).length;
  const times = series(0, 241, 250);
  const path = (of: (at: number) => number): string =>
    `M${times.map((at) => `${across(at)} ${up(of(at))}`).join('L')}`;
  const sampled = levels.filter(
    ([at], i) => i === 0 || Math.floor(at / 250) > Math.floor(levels[i - 1]![0] / 250),
  );
  const level = sampled.map(([at, share]) => `${across(at)} ${up(share)}`).join('L');
  const label = (at: number, units: number, text: string): string =>
    `<text class="dim" x="${across(at)}" y="${up(units)}">${text}</text>`;
  return svg('Units of a shared limit that light tenants and two hogs have', height, [
    heading(
      0,
      `${limit} units in 10 s: twenty light tenants, and two hogs that ask for three times the limit each`,
      '',
    ),
    `<path class="area" d="${path((at) => unitsAt(0, at))}L${across(end)} ${base}L${LEFT} ${base}Z"/>`,
    ...groups.map((_, group) => `<path class="line" d="${path((at) => unitsAt(group, at))}"/>`),
    `<path class="out" stroke-dasharray="3 3" d="M${level}"/>`,
    `<path class="limit" d="M${across(0)} ${up(limit)}H${across(end)}"/>`,
    `<path class="axis" d="M${across(0)} ${base}H${across(end)}"/>`,
    label(500, 460, 'light tenants'),
    label(15_000, 690, 'share of the first hog (dashed), and its units'),
    label(46_000, 690, 'the second hog'),
    timeAxis(base + 16, series(0, 13, 5_000), end),
  ]);
}

/** The plots by file name. */
export async function plots(): Promise<Record<string, string>> {
  return {
    'algorithms.svg': await algorithms(),
    'segments.svg': await segments(),
    'slices.svg': await slices(),
    'shares.svg': await shares(),
  };
}

const directory = new URL('../../docs/plots/', import.meta.url);
if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  mkdirSync(directory, { recursive: true });
  for (const [name, content] of Object.entries(await plots()))
    writeFileSync(new URL(name, directory), content);
}
