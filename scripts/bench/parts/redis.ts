import { atLeast, atMost, redisPart, tableOf, type Bar, type Bench, type Section } from '../lib/part.js';
import { column, DEFAULT, FIXED, least, most, redisRigs, type Results } from '../lib/redis-rigs.js';
import { fixed } from '../lib/figures.js';
import type { Sample } from '../lib/stats.js';
import { redisSubjects as all, type RedisSubject } from '../rigs/redis.js';

const KEYS = 10_000;

const redisSubjects = all.filter((subject) => !/ log|-log| in a |calendar/.test(subject));
const tuned = redisSubjects.filter((subject) => subject.endsWith('tuned'));
const stock = redisSubjects.filter(
  (subject) => !subject.startsWith('headgate') && !subject.endsWith('tuned'),
);
const peers = [...stock, ...tuned];

/** Decisions through one Redis. Peers run on ioredis with the set-up of their READMEs, and once more "tuned" for speed. */
export const redis = redisPart('redis', async (bench, port) => [
  ...(await admitted(bench, port)),
  await denied(bench, port),
]);

async function admitted(bench: Bench, port: number): Promise<Section[]> {
  const options = { port, limit: 1e6, keys: KEYS };
  const rigs = await redisRigs(bench, redisSubjects, (subject) => ({ subject, ...options }), [64, 8, 1]);
  const sections: Section[] = [];
  for (const inFlight of [1, 8, 64, 256]) {
    const results = await rigs.measure(`redis, ${inFlight} in flight`, inFlight, 400);
    sections.push(
      section(`${inFlight} in flight, ${KEYS} keys, admitted`, results, barsOf(inFlight, results)),
    );
  }
  await rigs.end();
  return sections;
}

async function denied(bench: Bench, port: number): Promise<Section> {
  const options = { port, limit: 1, keys: KEYS };
  const rigs = await redisRigs(bench, redisSubjects, (subject) => ({ subject, ...options }), [], false);
  for (const rig of rigs.rigs.values()) await rig.exhaust();
  const results = await rigs.measure('redis, 64 in flight, denied', 64, 400);
  await rigs.end();
  const { perSecond } = results.get(DEFAULT)!;
  return section(`64 in flight, ${KEYS} keys, denied`, results, [
    atLeast('>= 40x the fastest stock peer', perSecond.median, most(results, stock, 'perSecond'), 40),
    atLeast('>= 5x the fastest tuned peer', perSecond.median, most(results, tuned, 'perSecond'), 5),
  ]);
}

function barsOf(inFlight: number, results: Results<RedisSubject>): Bar[] {
  const ours = results.get(FIXED)!;
  if (inFlight <= 8) {
    return (['p50', 'p99'] as const).map((figure) => {
      const bar = `fixed window: ${figure} no worse than the best stock peer's`;
      return atMost(bar, ours[figure].median, least(results, stock, figure), 1.05);
    });
  }
  const [ofStock, ofTuned] = inFlight === 256 ? [5, 2] : [3.5, 2.5];
  const perSecond = ours.perSecond.median;
  const [fastest, fastestTuned] = [most(results, stock, 'perSecond'), most(results, tuned, 'perSecond')];
  const byDefault = results.get(DEFAULT)!.perSecond.median;
  const lean = "fixed window: <= 0.5x the leanest peer's Redis CPU";
  return [
    atLeast(`fixed window: >= ${ofStock}x the fastest stock peer`, perSecond, fastest, ofStock),
    atLeast(`fixed window: >= ${ofTuned}x the fastest tuned peer`, perSecond, fastestTuned, ofTuned),
    atLeast('default algorithm: >= 2.5x the fastest stock peer', byDefault, fastest, 2.5),
    ...(inFlight === 256 ? [] : [atMost(lean, ours.redis.median, least(results, peers, 'redis'), 0.5)]),
  ];
}

function section(title: string, results: Results<RedisSubject>, bars: Bar[]): Section {
  const short = (name: string, figure: 'p50' | 'p99') =>
    [
      name,
      ({ [figure]: { median } }: Record<'p50' | 'p99', Sample>) => fixed(median, median < 10 ? 1 : 0),
    ] as const;
  const columns = [
    ...[column.perSecond, column.ratio(most(results, stock, 'perSecond'))],
    ...[short('p50 us', 'p50'), short('p99 us', 'p99'), column.node, column.redis, column.script],
  ];
  return tableOf(`Redis, ${title}`, results, columns, { bars });
}
