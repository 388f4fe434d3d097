import { startCluster } from '../../../test/support/cluster.js';
import { ratioBar, type Part } from '../lib/part.js';
import { fixed, rate, spread } from '../lib/report.js';
import { summarize } from '../lib/stats.js';
import type { RedisSubject } from '../rigs/redis.js';

const FIXED = 'headgate fixed-window';
const DEFAULT = 'headgate sliding-window (default)';
const peers = ['rate-limiter-flexible', '@fastify/rate-limit'] as const;
const subjects: readonly RedisSubject[] = [FIXED, DEFAULT, ...peers];

/** Three nodes. rate-limit-redis loads its script on one of them only, and fails on the others: it is left out. */
export const cluster: Part = {
  name: 'cluster',
  async run(bench) {
    const nodes = await startCluster('redis');
    try {
      const { port } = nodes.servers[0]!;
      const options = { port, limit: 1e6, keys: 10_000, cluster: true };
      const rigs = new Map(
        await Promise.all(
          subjects.map(
            async (subject) => [subject, await bench.start('redis', { subject, ...options })] as const,
          ),
        ),
      );
      for (const rig of rigs.values()) await rig.warmUp([64], true);
      const rounds = await bench.interleave('cluster, 64 in flight', subjects, (subject) =>
        rigs.get(subject)!.round(64, 400, true),
      );
      await Promise.all([...rigs.values()].map((rig) => rig.end()));
      const results = new Map([...rounds].map(([subject, values]) => [subject, summarize(values)]));
      const fastest = Math.max(...peers.map((peer) => results.get(peer)!.perSecond.median));
      return [
        {
          title: 'Redis Cluster, 3 nodes, 64 in flight, 10000 keys',
          columns: ['', 'decisions/s', 'ratio', 'p50 us', 'p99 us', 'Node us'],
          rows: [...results].map(([subject, { perSecond, p50, p99, node }]) => [
            subject,
            spread(perSecond, rate),
            fixed(perSecond.median / fastest, 2),
            fixed(p50.median, 0),
            fixed(p99.median, 0),
            fixed(node.median, 2),
          ]),
          bars: [
            ratioBar(
              'fixed window: >= 1.2x the fastest peer',
              results.get(FIXED)!.perSecond.median,
              fastest,
              1.2,
            ),
          ],
          data: Object.fromEntries(results),
        },
      ];
    } finally {
      await nodes.stop();
    }
  },
};
