// The latency of the store in admin.traffic, as decisions see it.
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { createLimiter } from 'headgate';
import { createAdmin } from 'headgate/admin';
import { redisStore } from 'headgate/redis';
import { LatencyHistogram, percentileOf } from '../../src/stores/counts/latency-histogram.js';
import { servers } from '../support/shared-servers.js';
import { clients, freshPrefix } from '../support/stores.js';
import { until } from './stores.js';

describe('the latency of the store', () => {
  it('percentiles are within a tenth of the true ones', () => {
    const histogram = new LatencyHistogram();
    for (let i = 1; i <= 1000; i++) histogram.add(i / 10, 1, i > 990);
    const { buckets, late } = histogram.take()!;
    expect(late).to.equal(10);
    const counts = new Map(Object.entries(buckets).map(([bucket, count]) => [Number(bucket), count]));
    for (const [fraction, ms] of [
      [0.5, 50],
      [0.9, 90],
      [0.99, 99],
    ] as const)
      expect(percentileOf(counts, fraction)).to.be.within(ms * 0.9, ms * 1.1);
    expect(histogram.take()).to.equal(undefined);
    for (const ms of [0, 0.001, 1e9, NaN]) histogram.add(ms, 1, false);
    expect(Object.keys(histogram.take()!.buckets)).to.deep.equal(['0', '79']);
  });

  it('a server that pauses shows in p99, in late answers and in decisions without the store, of each process', async () => {
    const prefix = freshPrefix();
    const client = new Redis(servers.redis.port);
    const store = redisStore(client, { prefix, publish: false, counts: true });
    const limiter = createLimiter({ name: 'api', store, limit: 1e6, window: '1h', warnings: false });
    const admin = createAdmin(clients.redis, { prefix });
    try {
      for (let i = 0; i < 40; i++) await limiter.consume('a');
      await until(async () => ((await admin.traffic()).latency?.p99Ms ?? 0) > 0);
      const calm = (await admin.traffic()).latency!;
      expect(calm.late).to.equal(0);
      expect(calm.p50Ms).to.be.below(100);
      await clients.redis.client('PAUSE', 300, 'ALL');
      await Promise.all(Array.from({ length: 5 }, () => limiter.consume('a')));
      await until(async () => ((await admin.traffic()).processes[0]?.latency?.late ?? 0) > 0);
      const { processes, latency } = await admin.traffic();
      expect(processes).to.have.length(1);
      expect(latency!.p99Ms).to.be.within(100, 2000);
      expect(latency!.late).to.equal(1);
      expect(processes[0]!.latency).to.deep.equal(latency);
      expect(processes[0]).to.include({ decisions: 9, degraded: 1 });
    } finally {
      await limiter.close();
      await store.close?.();
      client.disconnect();
    }
  });
});
