import { atMost, redisPart, tableOf, type Bar, type Bench, type Section } from '../lib/part.js';
import { BUCKET, DEFAULT, FIXED, MINUTE, redisRigs, SECOND } from '../lib/redis-rigs.js';
import { count, fixed, spread } from '../lib/report.js';
import type { RedisOptions, RedisSubject } from '../rigs/redis.js';

const subjects: readonly RedisSubject[] = [FIXED, DEFAULT, BUCKET];
const MONTH = 30 * 86_400_000;

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
export const cost = redisPart('cost', async (bench, port) => {
  const sections: Section[] = [];
  for (const { what, admitted, ...options } of cases) {
    const most = options.window === SECOND ? 2.2 : 1.5;
    const compared = subjects.map((subject) => ({ subject, scope: what, remote: true, ...options }));
    const title = `${what} (${count(options.keys)} keys)`;
    const bars = (base = 0, sliding = 0, bucket = 0) => [
      atMost(`default: <= ${most}x our fixed window`, sliding, base, most),
      atMost('GCRA: <= 1.3x our fixed window', bucket, base, 1.3),
    ];
    sections.push(await compare(bench, port, title, subjects, compared, bars, admitted));
  }
  const scales = {
    '100,000 a minute': [1e5, MINUTE],
    '4,000,000 a minute': [4e6, MINUTE],
    '100,000 in 30 days': [1e5, MONTH],
  };
  sections.push(
    await compare(
      bench,
      port,
      'fixed window, large limits and long windows',
      Object.keys(scales),
      Object.values(scales).map(([limit = 0, window = 0]) => ({
        ...hotKeys(FIXED),
        limit,
        window,
        scope: `of ${limit}`,
      })),
      (one = 0, ...others) => [atMost('no cliff: <= 1.6x', Math.max(one, ...others), one, 1.6)],
    ),
  );
  const counts = [1, 2, 4];
  for (const subject of [DEFAULT, FIXED]) {
    const title = `policies per decision, ${subject}, 100,000 a minute`;
    const compared = counts.map((policies) => ({ ...hotKeys(subject), policies }));
    const bars = (one = 0, two = 0, four = 0) => [
      atMost('two: <= 1.7x one', two, one, 1.7),
      atMost('four: <= 3x one', four, one, 3),
    ];
    sections.push(await compare(bench, port, title, counts.map(String), compared, bars));
  }
  return sections;
});

/** What overrides cost Redis. */
export const overrides = redisPart('overrides', async (bench, port) => {
  const what = ['without the option', 'no key has one', 'one key in a hundred has one', 'each key has one'];
  const sections: Section[] = [];
  for (const subject of subjects) {
    const compared = [{}, { overrides: 0 }, { overrides: 100 }, { overrides: 1 }].map((option, i) => ({
      ...{ ...hotKeys(subject), remote: true, scope: `overrides ${i}`, ...option },
    }));
    const bars = (off = 0, none = 0, some = 0, each = 0) => [
      atMost('none set: <= 1.15x', none, off, 1.15),
      atMost('one in a hundred set: <= 1.2x', some, off, 1.2),
      atMost('each set: <= 1.2x', each, off, 1.2),
    ];
    sections.push(
      await compare(bench, port, `overrides, ${subject}, 100,000 a minute`, what, compared, bars),
    );
  }
  return sections;
});

const hotKeys = (subject: RedisSubject) => ({ subject, limit: 1e5, window: MINUTE, keys: hot });

/** Redis' CPU per decision of several rigs in turns, us. `bars` gets the medians. */
async function compare(
  bench: Bench,
  port: number,
  title: string,
  what: readonly string[],
  options: readonly Omit<RedisOptions, 'port'>[],
  bars: (...medians: number[]) => Bar[],
  admitted: boolean | 'any' = true,
): Promise<Section> {
  const rigs = await redisRigs(bench, options, (option) => ({ ...option, port }), [64], admitted);
  const samples = [...(await rigs.measure(title, 64, 300)).values()].map((figures) => figures.redis);
  await rigs.end();
  const medians = samples.map(({ median }) => median);
  return tableOf(
    `Redis CPU, 64 in flight: ${title}`,
    new Map(samples.map((sample, i) => [what[i]!, sample])),
    [
      ['Redis us', (sample) => spread(sample, 2)],
      ['ratio', ({ median }) => fixed(median / medians[0]!, 2)],
    ],
    { bars: bars(...medians), data: samples },
  );
}
