import { startServer } from '../../../test/support/servers.js';
import { ratioBar, type Bench, type Part, type Section } from '../lib/part.js';
import { count, fixed, spread } from '../lib/report.js';
import { summarize, type Sample } from '../lib/stats.js';
import type { RedisOptions, RedisSubject } from '../rigs/redis.js';

const FIXED = 'headgate fixed-window';
const DEFAULT = 'headgate sliding-window (default)';
const BUCKET = 'headgate gcra';
const subjects: readonly RedisSubject[] = [FIXED, DEFAULT, BUCKET];

const SECOND = 1000;
const MINUTE = 60_000;
const DAY = 86_400_000;

type Case = Pick<RedisOptions, 'limit' | 'window' | 'keys'> & {
  readonly what: string;
  /** What every answer is. */
  readonly admitted: boolean | 'any';
};

const hot = 10_000;
const cases: readonly Case[] = [
  { what: '100,000 a minute, hot keys', limit: 1e5, window: MINUTE, keys: hot, admitted: true },
  {
    what: '100 a minute, keys that come a few times',
    limit: 100,
    window: MINUTE,
    keys: 50_000,
    admitted: 'any',
  },
  { what: '100,000 a second, hot keys', limit: 1e5, window: SECOND, keys: hot, admitted: true },
  { what: '100 a second, hot keys', limit: 100, window: SECOND, keys: hot, admitted: 'any' },
  { what: '100,000 a minute, cold keys', limit: 1e5, window: MINUTE, keys: 1_000_000, admitted: true },
  { what: '100 a second, half denied', limit: 100, window: SECOND, keys: 1000, admitted: 'any' },
  { what: '1 a minute, denied', limit: 1, window: MINUTE, keys: hot, admitted: 'any' },
];

/** What a decision costs Redis: our algorithms against our fixed window, which is one INCRBY. Every denial asks the server. */
export const cost: Part = {
  name: 'cost',
  async run(bench) {
    const server = await startServer('redis');
    try {
      const sections: Section[] = [];
      for (const each of cases) sections.push(await algorithmsAt(bench, server.port, each));
      return [...sections, await longAndLarge(bench, server.port), ...(await several(bench, server.port))];
    } finally {
      await server.stop();
    }
  },
};

/** What overrides cost Redis. */
export const overrides: Part = {
  name: 'overrides',
  async run(bench) {
    const server = await startServer('redis');
    try {
      return await overridden(bench, server.port);
    } finally {
      await server.stop();
    }
  },
};

/** Redis' CPU per decision of several rigs in turns, us. */
async function measure(
  bench: Bench,
  title: string,
  options: readonly RedisOptions[],
  admitted: boolean | 'any',
): Promise<Sample[]> {
  const rigs = await Promise.all(options.map((option) => bench.start('redis', option)));
  for (const rig of rigs) await rig.warmUp([64], admitted);
  const rounds = await bench.interleave(title, rigs, (rig) => rig.round(64, 300, admitted));
  await Promise.all(rigs.map((rig) => rig.end()));
  return [...rounds.values()].map((values) => summarize(values).redis);
}

function table(title: string, what: readonly string[], results: readonly Sample[]): Section {
  return {
    title: `Redis CPU, 64 in flight: ${title}`,
    columns: ['', 'Redis us', 'ratio'],
    rows: results.map((sample, i) => [
      what[i]!,
      spread(sample, 2),
      fixed(sample.median / results[0]!.median, 2),
    ]),
    data: results,
  };
}

async function algorithmsAt(
  bench: Bench,
  port: number,
  { what, admitted, ...options }: Case,
): Promise<Section> {
  const results = await measure(
    bench,
    what,
    subjects.map((subject) => ({ subject, port, scope: what, remote: true, ...options })),
    admitted,
  );
  const [base, sliding, bucket] = results.map(({ median }) => median) as [number, number, number];
  const most = options.window === SECOND ? 2.2 : 1.5;
  return {
    ...table(`${what} (${count(options.keys)} keys)`, subjects, results),
    bars: [
      ratioBar(`default: <= ${most}x our fixed window`, sliding, base, most, true),
      ratioBar('GCRA: <= 1.3x our fixed window', bucket, base, 1.3, true),
    ],
  };
}

async function longAndLarge(bench: Bench, port: number): Promise<Section> {
  const what = ['100,000 a minute', '4,000,000 a minute', '100,000 in 30 days'];
  const scales = [
    [1e5, MINUTE],
    [4e6, MINUTE],
    [1e5, 30 * DAY],
  ] as const;
  const results = await measure(
    bench,
    'large limits, long windows',
    scales.map(([limit, window]) => ({
      subject: FIXED,
      port,
      limit,
      window,
      keys: hot,
      scope: `of ${limit}`,
    })),
    true,
  );
  const worst = Math.max(...results.map(({ median }) => median));
  return {
    ...table('fixed window, large limits and long windows', what, results),
    bars: [ratioBar('no cliff: <= 1.6x', worst, results[0]!.median, 1.6, true)],
  };
}

async function several(bench: Bench, port: number): Promise<Section[]> {
  const counts = [1, 2, 4];
  const sections: Section[] = [];
  for (const subject of [DEFAULT, FIXED] as const) {
    const results = await measure(
      bench,
      `policies, ${subject}`,
      counts.map((policies) => ({ subject, port, limit: 1e5, window: MINUTE, keys: hot, policies })),
      true,
    );
    const [one, two, four] = results.map(({ median }) => median) as [number, number, number];
    sections.push({
      ...table(`policies per decision, ${subject}, 100,000 a minute`, counts.map(String), results),
      bars: [
        ratioBar('two: <= 1.7x one', two, one, 1.7, true),
        ratioBar('four: <= 3x one', four, one, 3, true),
      ],
    });
  }
  return sections;
}

async function overridden(bench: Bench, port: number): Promise<Section[]> {
  const what = ['without the option', 'no key has one', 'one key in a hundred has one', 'each key has one'];
  const cases = [undefined, 0, 100, 1];
  const sections: Section[] = [];
  for (const subject of subjects) {
    const results = await measure(
      bench,
      `overrides, ${subject}`,
      cases.map((overrides, i) => ({
        ...{ subject, port, limit: 1e5, window: MINUTE, keys: hot, remote: true },
        scope: `overrides ${i}`,
        ...(overrides !== undefined && { overrides }),
      })),
      true,
    );
    const [off, none, some, each] = results.map(({ median }) => median) as [number, number, number, number];
    sections.push({
      ...table(`overrides, ${subject}, 100,000 a minute`, what, results),
      bars: [
        ratioBar('none set: <= 1.15x', none, off, 1.15, true),
        ratioBar('one in a hundred set: <= 1.2x', some, off, 1.2, true),
        ratioBar('each set: <= 1.2x', each, off, 1.2, true),
      ],
    });
  }
  return sections;
}
