import { atMost, redisPart, tableOf, type Section } from '../lib/part.js';
import { column, compareRigs, DEFAULT, type Figure } from '../lib/redis-rigs.js';
import { count, rate, spread } from '../lib/figures.js';
import { sample, type Sample } from '../lib/stats.js';
import type { RedisOptions } from '../rigs/redis.js';

/** The growth of a decision's cost with policies, with the limit of a log, and with processes. Through Redis, 64 in flight. */
export const scaling = redisPart('scaling', async (bench, port) => {
  const base: RedisOptions = { subject: DEFAULT, port, limit: 1e6, keys: 10_000 };

  async function compare(title: string, cases: Readonly<Record<string, Partial<RedisOptions>>>) {
    const results = await compareRigs(bench, title, base, cases);
    const data = [...results.values()];
    return { ...tableOf(title, results, [column.perSecond, column.node, column.redis]), data };
  }
  const compareEach = (
    title: string,
    values: readonly number[],
    optionsOf: (value: number) => Partial<RedisOptions>,
  ) => compare(title, Object.fromEntries(values.map((value) => [count(value), optionsOf(value)])));

  /** Three policies by one key each, compared with three by the same key. */
  const dimensions = await compare('Three policies by', {
    'one key': { policies: 3 },
    'three keys, of three dimensions': { policies: 3, dimensions: true },
  });
  const [one, three] = dimensions.data as [Record<Figure, Sample>, Record<Figure, Sample>];
  const bar = '<= 1.2x the Redis CPU of three policies of one key';
  const sections: Section[] = [
    await compareEach('Policies per decision', [1, 2, 4, 8], (policies) => ({ policies })),
    { ...dimensions, bars: [atMost(bar, three.redis.median, one.redis.median, 1.2)] },
    await compareEach('Keys', [100, 10_000, 1_000_000], (keys) => ({ keys })),
    await compareEach('Limit of a sliding log', [10, 1000, 100_000], (limit) => ({
      ...{ subject: 'headgate sliding-log', limit, keys: 5_000_000 / limit },
    })),
  ];
  const rigs = await Promise.all(Array.from({ length: 4 }, () => bench.start('redis', base)));
  const rounds = await bench.interleave('Processes', [1, 2, 4], async (processes) => {
    const results = await Promise.all(rigs.slice(0, processes).map((rig) => rig.round(64, 300, true)));
    return results.reduce((sum, { perSecond }) => sum + perSecond, 0);
  });
  const title = 'Processes on one Redis, on the cores of one machine';
  sections.push(
    tableOf(title, rounds, [['decisions/s, all together', (rates) => spread(sample(rates), rate)]]),
  );
  return sections;
});
