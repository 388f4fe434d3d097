import { startServer } from '../../../test/support/servers.js';
import { ratioBar, type Part, type Section } from '../lib/part.js';
import { count, fixed, rate, spread } from '../lib/report.js';
import { sample, summarize } from '../lib/stats.js';
import type { RedisOptions } from '../rigs/redis.js';

/** How the cost of a decision grows: with policies, with the limit of a log, with processes. Through Redis, 64 in flight. */
export const scaling: Part = {
  name: 'scaling',
  async run(bench) {
    const server = await startServer('redis');
    const base: RedisOptions = {
      subject: 'headgate sliding-window (default)',
      port: server.port,
      limit: 1e6,
      keys: 10_000,
    };

    async function compare(title: string, what: readonly string[], options: readonly RedisOptions[]) {
      const rigs = await Promise.all(options.map((option) => bench.start('redis', option)));
      for (const rig of rigs) await rig.warmUp([64], true);
      const rounds = await bench.interleave(title, rigs, (rig) => rig.round(64, 300, true));
      await Promise.all(rigs.map((rig) => rig.end()));
      const results = [...rounds.values()].map((values) => summarize(values));
      return {
        title,
        columns: ['', 'decisions/s', 'Node us', 'Redis us'],
        rows: results.map(({ perSecond, node, redis }, i) => [
          what[i]!,
          spread(perSecond, rate),
          fixed(node.median, 2),
          fixed(redis.median, 2),
        ]),
        data: results,
      } satisfies Section;
    }

    /** Three policies by a key each, beside three of one key. */
    async function dimensions(): Promise<Section> {
      const three = { ...base, policies: 3 };
      const what = ['one key', 'three keys, of three dimensions'];
      const section = await compare('Three policies by', what, [three, { ...three, dimensions: true }]);
      const [one, several] = section.data as unknown as [
        { redis: { median: number } },
        { redis: { median: number } },
      ];
      const bar = '<= 1.2x the Redis CPU of three policies of one key';
      return { ...section, bars: [ratioBar(bar, several.redis.median, one.redis.median, 1.2, true)] };
    }

    try {
      const policies = [1, 2, 4, 8];
      const limits = [10, 1000, 100_000];
      const sections: Section[] = [
        await compare(
          'Policies per decision',
          policies.map(String),
          policies.map((n) => ({ ...base, policies: n })),
        ),
        await dimensions(),
        await compare(
          'Keys',
          [100, 10_000, 1_000_000].map(count),
          [100, 10_000, 1_000_000].map((keys) => ({ ...base, keys })),
        ),
        await compare(
          'Limit of a sliding log',
          limits.map(count),
          limits.map((limit) => ({
            ...base,
            subject: 'headgate sliding-log',
            limit,
            scope: `log of ${limit}`,
            keys: 5_000_000 / limit,
          })),
        ),
      ];
      const rigs = await Promise.all(Array.from({ length: 4 }, () => bench.start('redis', base)));
      const rounds = await bench.interleave('Processes', [1, 2, 4], async (processes) => {
        const results = await Promise.all(rigs.slice(0, processes).map((rig) => rig.round(64, 300, true)));
        return results.reduce((sum, { perSecond }) => sum + perSecond, 0);
      });
      sections.push({
        title: 'Processes on one Redis, on the cores of one machine',
        columns: ['', 'decisions/s, all together'],
        rows: [...rounds].map(([processes, rates]) => [String(processes), spread(sample(rates), rate)]),
        data: Object.fromEntries(rounds),
      });
      return sections;
    } finally {
      await server.stop();
    }
  },
};
