import { startPostgres } from '../../../test/support/postgres.js';
import {
  atLeast,
  barOf,
  endAll,
  spreads,
  tableOf,
  type Bench,
  type Part,
  type Section,
} from '../lib/part.js';
import { fixed, rate } from '../lib/figures.js';
import { sample } from '../lib/stats.js';
import type { PostgresRound, PostgresSubject } from '../rigs/postgres.js';

const PEER = 'rate-limiter-flexible';
const subjects: readonly PostgresSubject[] = ['headgate', PEER, 'one upsert per request'];
const IN_FLIGHT = 64;
const ROUND_MS = 2000;

/** The default of the option `timeout`, ms. */
const TIMEOUT_MS = 100;
const MAX_DELAY_MS = 10;

interface Case {
  readonly title: string;
  readonly keys: number;
  readonly processes: number;
  /** The least ratio of decisions to those of the peer. */
  readonly least: number;
}

const cases: readonly Case[] = [
  { title: '10,000 keys, one process', keys: 10_000, processes: 1, least: 4 },
  { title: 'one hot key, one process', keys: 1, processes: 1, least: 20 },
  { title: 'one hot key, 4 processes', keys: 1, processes: 4, least: 30 },
];

/** A server with its default settings, beside the store of a peer and a statement by hand. */
export const postgres: Part = {
  name: 'postgres',
  async run(bench) {
    const server = await startPostgres({ fsync: 'on' });
    try {
      const sections: Section[] = [];
      for (const each of cases) sections.push(await measure(bench, server.url, each));
      return sections;
    } finally {
      await server.stop();
    }
  },
};

async function measure(bench: Bench, url: string, { title, keys, processes, least }: Case): Promise<Section> {
  const numbered = subjects.flatMap((subject) =>
    Array.from({ length: processes }, (_, i) => ({ subject, i })),
  );
  const rigs = await bench.startAll('postgres', numbered, ({ subject }) => ({ subject, url, keys }));
  const together = (subject: PostgresSubject): Promise<PostgresRound[]> =>
    Promise.all(
      [...rigs].filter(([each]) => each.subject === subject).map(([, rig]) => rig.round(IN_FLIGHT, ROUND_MS)),
    );
  for (const subject of subjects) await together(subject);
  const name = `${title}, ${IN_FLIGHT} in flight in each process`;
  const rounds = await bench.interleave(name, subjects, together);
  await endAll(rigs);
  const results = new Map([...rounds].map(([subject, all]) => [subject, figuresOf(all)] as const));
  const ours = results.get('headgate')!;
  const peer = results.get(PEER)!;
  return tableOf(
    name,
    results,
    [
      spreads('decisions/s', 'perSecond', rate),
      spreads('p50 us', 'p50', 0),
      spreads('p99 us', 'p99', 0),
      spreads('longest wait for a connection, ms', 'connect', 1),
      spreads('delay of the event loop, p99, ms', 'delay99', 1),
      spreads('longest delay, ms', 'delay', 1),
      spreads('CPU of the process, us a decision', 'cpu', 1),
    ],
    {
      note: 'PostgreSQL on loopback with its default settings. Fixed window. The tables of Headgate and of the upsert are unlogged, and the peer creates its own.',
      bars: [
        atLeast(`decisions/s >= ${least}x ${PEER}`, ours.perSecond.median, peer.perSecond.median, least),
        barOf(
          `longest wait for a connection <= ${TIMEOUT_MS} ms`,
          `${fixed(ours.connect.median, 1)} ms`,
          ours.connect.median <= TIMEOUT_MS,
        ),
        barOf(
          `delay of the event loop, p99 <= ${MAX_DELAY_MS} ms`,
          `${fixed(ours.delay99.median, 1)} ms`,
          ours.delay99.median <= MAX_DELAY_MS,
        ),
      ],
    },
  );
}

function figuresOf(rounds: readonly (readonly PostgresRound[])[]) {
  const over = (figure: keyof PostgresRound, of: (values: readonly number[]) => number) =>
    sample(rounds.map((round) => of(round.map((each) => each[figure]))));
  const most = (values: readonly number[]) => Math.max(...values);
  return {
    perSecond: over('perSecond', (values) => values.reduce((sum, value) => sum + value, 0)),
    p50: over('p50', (values) => sample(values).median),
    p99: over('p99', most),
    connect: over('connect', most),
    delay99: over('delay99', most),
    delay: over('delay', most),
    cpu: over('cpu', (values) => sample(values).median),
  };
}
