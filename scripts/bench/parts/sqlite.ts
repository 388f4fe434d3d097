import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ratioBar, type Bench, type Part, type Section } from '../lib/part.js';
import { fixed, rate, spread } from '../lib/report.js';
import { quantile, sample } from '../lib/stats.js';
import type { SqliteRound, SqliteSubject } from '../rigs/sqlite.js';

const PEER = 'rate-limiter-flexible';
const subjects: readonly SqliteSubject[] = ['headgate', PEER, `${PEER}, WAL`, 'no limiter'];

const PROCESSES = 4;
const MS = 2000;

type Rigs = Awaited<ReturnType<typeof startRigs>>;

const startRigs = (bench: Bench, subject: SqliteSubject, directory: string, count: number) => {
  const path = join(directory, `${subject}-${count}.db`);
  return Promise.all(Array.from({ length: count }, () => bench.start('sqlite', { subject, path })));
};

/** A file that processes of one machine share. Run it on a Node with node:sqlite, or with better-sqlite3 on NODE_PATH. */
export const sqlite: Part = {
  name: 'sqlite',
  async run(bench) {
    const directory = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
    try {
      return [await measure(bench, directory, 1, 1), await measure(bench, directory, PROCESSES, 64)];
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  },
};

async function measure(bench: Bench, directory: string, count: number, inFlight: number): Promise<Section> {
  const rigs = new Map<SqliteSubject, Rigs>();
  for (const subject of subjects) rigs.set(subject, await startRigs(bench, subject, directory, count));
  const together = (subject: SqliteSubject): Promise<SqliteRound[]> =>
    Promise.all(rigs.get(subject)!.map((rig) => rig.round(inFlight, MS)));
  for (const subject of subjects) await together(subject);
  const title = `${count === 1 ? 'One process' : `${count} processes`}, ${inFlight} in flight each`;
  const rounds = await bench.interleave(title, subjects, together);
  for (const each of rigs.values()) await Promise.all(each.map((rig) => rig.end()));
  const results = new Map([...rounds].map(([subject, all]) => [subject, figuresOf(all)] as const));
  const ours = results.get('headgate')!;
  const peer = results.get(PEER)!;
  const bars =
    count === 1
      ? []
      : [
          ratioBar(`decisions/s >= 3x ${PEER}`, ours.perSecond.median, peer.perSecond.median, 3),
          bar('longest block of the event loop, p99 <= 10 ms', ours.block99, ours.block99 <= 10, ' ms'),
          bar('each process >= 0.5 of its fair share', ours.share, ours.share >= 0.5, ''),
        ];
  return {
    title,
    note:
      'Fixed window, 10,000 keys. Blocks are the longest turns of the event loop in each tenth of a second. The last row is what the machine does to ' +
      'processes that are as busy.',
    columns: [
      '',
      'decisions/s',
      'p50 us',
      'p99 us',
      'turn p99 ms',
      'block p50 ms',
      'block p99 ms',
      'longest ms',
      'least share',
    ],
    rows: [...results]
      .map(([subject, { perSecond, p50, p99, turn99, block50, block99, longest, share }]) => [
        ...[subject, spread(perSecond, rate), spread(p50, 0), spread(p99, 0)],
        ...[spread(turn99, 1), fixed(block50, 1), fixed(block99, 1), fixed(longest, 1), fixed(share, 2)],
      ])
      .map((row) => row.map((cell) => (cell.includes('NaN') ? 'no turn' : cell))),
    bars,
    data: Object.fromEntries(results),
  };
}

const bar = (text: string, figure: number, pass: boolean, unit: string) => ({
  bar: text,
  measured: `${fixed(figure, 2)}${unit}`,
  pass,
});

function figuresOf(rounds: readonly (readonly SqliteRound[])[]) {
  const blocks = rounds.flatMap((round) => round.flatMap((each) => each.blocks)).sort((a, b) => a - b);
  const median = (figure: 'p50' | 'p99' | 'turn99') =>
    sample(
      rounds.map((round) =>
        quantile(
          round.map((each) => each[figure]).sort((a, b) => a - b),
          0.5,
        ),
      ),
    );
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
