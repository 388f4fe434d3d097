import { startCluster } from '../../../test/support/cluster.js';
import { atLeast, tableOf, type Part } from '../lib/part.js';
import { column, DEFAULT, FIXED, most, redisRigs } from '../lib/redis-rigs.js';
import type { RedisSubject } from '../rigs/redis.js';

const peers = ['rate-limiter-flexible', '@fastify/rate-limit'] as const;
const subjects: readonly RedisSubject[] = [FIXED, DEFAULT, ...peers];

/** Three nodes. rate-limit-redis is left out: it loads its script on only one node and fails on the rest. */
export const cluster: Part = {
  name: 'cluster',
  async run(bench) {
    const nodes = await startCluster('redis');
    try {
      const options = { port: nodes.servers[0]!.port, limit: 1e6, keys: 10_000, cluster: true };
      const rigs = await redisRigs(bench, subjects, (subject) => ({ subject, ...options }), [64]);
      const results = await rigs.measure('cluster, 64 in flight', 64, 400);
      await rigs.end();
      const fastest = most(results, peers, 'perSecond');
      const ours = results.get(FIXED)!.perSecond.median;
      return [
        tableOf(
          'Redis Cluster, 3 nodes, 64 in flight, 10000 keys',
          results,
          [column.perSecond, column.ratio(fastest), column.p50, column.p99, column.node],
          { bars: [atLeast('fixed window: >= 1.2x the fastest peer', ours, fastest, 1.2)] },
        ),
      ];
    } finally {
      await nodes.stop();
    }
  },
};
