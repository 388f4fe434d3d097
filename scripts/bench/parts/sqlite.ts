import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  atLeast,
  atMost,
  barOf,
  redisPart,
  spreads,
  tableOf,
  type Bench,
  type Section,
} from '../lib/part.js';
import { fixed, rate } from '../lib/figures.js';
import { quantile, sample } from '../lib/stats.js';
import { hasSqlite, type SqliteRound, type SqliteSubject } from '../rigs/sqlite.js';

const PEER = 'rate-limiter-flexible';
const subjects: readonly SqliteSubject[] = ['headgate', PEER, `${PEER}, WAL`, 'no limiter'];

/** A local server. For one request at a time, a file must be faster than this. */
const REDIS: SqliteSubject = 'headgate, Redis';

const PROCESSES = 4;
const ROUND_MS = 2000;

type Rigs = Awaited<ReturnType<typeof startRigs>>;

const startRigs = (bench: Bench, subject: SqliteSubject, directory: string, count: number, redis: string) => {
  const path = subject === REDIS ? redis : join(directory, `${subject}-${count}.db`);
  return Promise.all(Array.from({ length: count }, () => bench.start('sqlite', { subject, path })));
};

/** A file that processes of one machine share. Run it on a Node with node:sqlite, or with better-sqlite3 on NODE_PATH. */
export const sqlite = redisPart('sqlite', async (bench, port) => {
  if (!hasSqlite()) {
    console.error('sqlite: left out, because this Node has none, and better-sqlite3 is not on NODE_PATH.');
    return [];
  }
  const directory = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
  const redis = `redis://127.0.0.1:${port}`;
  try {
    const alone = await measure(bench, directory, redis, 1, 1);
    return [alone, await measure(bench, directory, redis, PROCESSES, 64)];
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

async function measure(
  bench: Bench,
  directory: string,
  redis: string,
  count: number,
  inFlight: number,
): Promise<Section> {
  const compared: readonly SqliteSubject[] = count === 1 ? [...subjects, REDIS] : subjects;
  const rigs = new Map<SqliteSubject, Rigs>();
  for (const subject of compared) rigs.set(subject, await startRigs(bench, subject, directory, count, redis));
  const together = (subject: SqliteSubject): Promise<SqliteRound[]> =>
    Promise.all(rigs.get(subject)!.map((rig) => rig.round(inFlight, ROUND_MS)));
  for (const subject of compared) await together(subject);
  const title = `${count === 1 ? 'One process' : `${count} processes`}, ${inFlight} in flight each`;
  const rounds = await bench.interleave(title, compared, together);
  for (const each of rigs.values()) await Promise.all(each.map((rig) => rig.end()));
  const results = new Map([...rounds].map(([subject, all]) => [subject, figuresOf(all)] as const));
  const ours = results.get('headgate')!;
  const peer = results.get(PEER)!;
  const bars =
    count === 1
      ? [atMost(`p50 below that on ${REDIS}`, ours.p50.median, results.get(REDIS)!.p50.median, 1)]
      : [
          atLeast(`decisions/s >= 3x ${PEER}`, ours.perSecond.median, peer.perSecond.median, 3),
          barOf(
            'longest block of the event loop, p99 <= 10 ms',
            `${fixed(ours.block99, 2)} ms`,
            ours.block99 <= 10,
          ),
          barOf('each process >= 0.5 of its fair share', fixed(ours.share, 2), ours.share >= 0.5),
        ];
  const note =
    'Fixed window, 10,000 keys. Blocks are the longest turns of the event loop in each tenth of a second. The last row is what the machine does to ' +
    'processes that are as busy.';
  const single = (name: string, figure: 'block50' | 'block99' | 'longest' | 'share', digits: number) =>
    [name, (figures: Figures) => fixed(figures[figure], digits)] as const;
  const table = tableOf(
    title,
    results,
    [
      ...[
        spreads('decisions/s', 'perSecond', rate),
        spreads('p50 us', 'p50', 0),
        spreads('p99 us', 'p99', 0),
      ],
      ...[spreads('turn p99 ms', 'turn99', 1), single('block p50 ms', 'block50', 1)],
      ...[single('block p99 ms', 'block99', 1), single('longest ms', 'longest', 1)],
      single('least share', 'share', 2),
    ],
    { note, bars },
  );
  return {
    ...table,
    rows: table.rows.map((row) => row.map((cell) => (cell.includes('NaN') ? 'no turn' : cell))),
  };
}

type Figures = ReturnType<typeof figuresOf>;

function figuresOf(rounds: readonly (readonly SqliteRound[])[]) {
  const blocks = rounds.flatMap((round) => round.flatMap((each) => each.blocks)).sort((a, b) => a - b);
  const median = (figure: 'p50' | 'p99' | 'turn99') =>
    sample(rounds.map((round) => sample(round.map((each) => each[figure])).median));
  const totals = rounds.map((round) => round.reduce((sum, { perSecond }) => sum + perSecond, 0));
  const shares = rounds.flatMap((round, i) =>
    round.map(({ perSecond }) => (round.length * perSecond) / totals[i]!),
  );
  return {
    perSecond: sample(totals),
    p50: median('p50'),
    p99: median('p99'),
    turn99: median('turn99'),
    block50: quantile(blocks, 0.5),
    block99: quantile(blocks, 0.99),
    longest: blocks.at(-1) ?? NaN,
    share: Math.min(...shares),
  };
}
