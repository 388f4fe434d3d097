import { startServer } from '../../../test/support/servers.js';
import { redisSubjects as all, type RedisSubject } from '../rigs/redis.js';
import { ratioBar, type Bar, type Bench, type Part, type Section } from '../lib/part.js';
import { fixed, rate, spread } from '../lib/report.js';
import { summarize, type Sample } from '../lib/stats.js';

const KEYS = 10_000;

const FIXED = 'headgate fixed-window';
const DEFAULT = 'headgate sliding-window (default)';

const redisSubjects = all.filter((subject) => !/ log|-log| in a |calendar/.test(subject));
const tuned = redisSubjects.filter((subject) => subject.endsWith('tuned'));
const stock = redisSubjects.filter(
  (subject) => !subject.startsWith('headgate') && !subject.endsWith('tuned'),
);
const peers = [...stock, ...tuned];

type Figures = Record<'perSecond' | 'p50' | 'p99' | 'node' | 'redis' | 'script', Sample>;
type Results = ReadonlyMap<RedisSubject, Figures>;

/** Decisions through one Redis. Peers as their README has them on ioredis, and "tuned": as fast as they can be made. */
export const redis: Part = {
  name: 'redis',
  async run(bench) {
    const server = await startServer('redis');
    try {
      return [...(await admitted(bench, server.port)), await denied(bench, server.port)];
    } finally {
      await server.stop();
    }
  },
};

async function start(bench: Bench, port: number, limit: number) {
  return new Map(
    await Promise.all(
      redisSubjects.map(
        async (subject) =>
          [subject, await bench.start('redis', { subject, port, limit, keys: KEYS })] as const,
      ),
    ),
  );
}

async function admitted(bench: Bench, port: number): Promise<Section[]> {
  const rigs = await start(bench, port, 1e6);
  for (const rig of rigs.values()) await rig.warmUp([64, 8, 1], true);
  const sections: Section[] = [];
  for (const inFlight of [1, 8, 64, 256]) {
    const rounds = await bench.interleave(`redis, ${inFlight} in flight`, redisSubjects, (subject) =>
      rigs.get(subject)!.round(inFlight, 400, true),
    );
    const results: Results = new Map([...rounds].map(([subject, values]) => [subject, summarize(values)]));
    sections.push(
      section(`Redis, ${inFlight} in flight, ${KEYS} keys, admitted`, results, barsOf(inFlight, results)),
    );
  }
  await Promise.all([...rigs.values()].map((rig) => rig.close()));
  return sections;
}

async function denied(bench: Bench, port: number): Promise<Section> {
  const rigs = await start(bench, port, 1);
  for (const rig of rigs.values()) await rig.exhaust();
  const rounds = await bench.interleave('redis, 64 in flight, denied', redisSubjects, (subject) =>
    rigs.get(subject)!.round(64, 400, false),
  );
  await Promise.all([...rigs.values()].map((rig) => rig.close()));
  const results: Results = new Map([...rounds].map(([subject, values]) => [subject, summarize(values)]));
  const { perSecond } = results.get(DEFAULT)!;
  return section(`Redis, 64 in flight, ${KEYS} keys, denied`, results, [
    ratioBar('>= 40x the fastest stock peer', perSecond.median, best(results, stock), 40),
    ratioBar('>= 5x the fastest tuned peer', perSecond.median, best(results, tuned), 5),
  ]);
}

function best(results: Results, subjects: readonly RedisSubject[]): number {
  return Math.max(...subjects.map((subject) => results.get(subject)!.perSecond.median));
}

function least(results: Results, subjects: readonly RedisSubject[], figure: keyof Figures): number {
  return Math.min(...subjects.map((subject) => results.get(subject)![figure].median));
}

function barsOf(inFlight: number, results: Results): Bar[] {
  const ours = results.get(FIXED)!;
  if (inFlight <= 8) {
    return (['p50', 'p99'] as const).map((figure) =>
      ratioBar(
        `fixed window: ${figure} no worse than the best stock peer's`,
        ours[figure].median,
        least(results, stock, figure),
        1.05,
        true,
      ),
    );
  }
  const many = inFlight === 256;
  const perSecond = ours.perSecond.median;
  return [
    ratioBar(
      `fixed window: >= ${many ? 5 : 3.5}x the fastest stock peer`,
      perSecond,
      best(results, stock),
      many ? 5 : 3.5,
    ),
    ratioBar(
      `fixed window: >= ${many ? 2 : 2.5}x the fastest tuned peer`,
      perSecond,
      best(results, tuned),
      many ? 2 : 2.5,
    ),
    ratioBar(
      'default algorithm: >= 2.5x the fastest stock peer',
      results.get(DEFAULT)!.perSecond.median,
      best(results, stock),
      2.5,
    ),
    ...(many
      ? []
      : [
          ratioBar(
            "fixed window: <= 0.5x the leanest peer's Redis CPU",
            ours.redis.median,
            least(results, peers, 'redis'),
            0.5,
            true,
          ),
        ]),
  ];
}

function section(title: string, results: Results, bars: Bar[]): Section {
  const fastest = best(results, stock);
  return {
    title,
    columns: ['', 'decisions/s', 'ratio', 'p50 us', 'p99 us', 'Node us', 'Redis us', 'script us'],
    rows: [...results].map(([subject, { perSecond, p50, p99, node, redis, script }]) => [
      subject,
      spread(perSecond, rate),
      fixed(perSecond.median / fastest, 2),
      fixed(p50.median, p50.median < 10 ? 1 : 0),
      fixed(p99.median, p99.median < 10 ? 1 : 0),
      fixed(node.median, 2),
      fixed(redis.median, 2),
      fixed(script.median, 2),
    ]),
    bars,
    data: Object.fromEntries(results),
  };
}
