// Several exporters: the workers of a cluster, and more than one in a process.
import { expect } from 'chai';
import { AggregatorRegistry, Registry } from 'prom-client';
import { createLimiter } from '../../src/index.js';
import { prometheusMetrics } from '../../src/prometheus.js';

describe('the metrics of a cluster in the primary process', () => {
  /** The values that four workers report together, of which one has the given values. */
  async function together(values: Record<string, number>): Promise<Record<string, number>> {
    const registry = new Registry();
    const end = prometheusMetrics({ register: registry });
    const limiter = createLimiter({ name: 'api', limit: 1, window: '1m', maxWaiting: 50 });
    await limiter.consume('k');
    const worker = await registry.getMetricsAsJSON();
    const other = structuredClone(worker);
    for (const { name, values: all } of other) if (name in values) all[0]!.value = values[name]!;
    const merged = AggregatorRegistry.aggregate([worker, other, worker, worker] as never);
    end();
    await limiter.close();
    const json = await merged.getMetricsAsJSON();
    return Object.fromEntries(json.map(({ name, values: all }) => [name, all[0]?.value ?? 0]));
  }

  it('are down if one store is, and have an override if one has', async () => {
    expect(await together({})).to.include({
      ...{ headgate_store_up: 1, headgate_store_servers_down: 0, headgate_overrides_active: 0 },
    });
    const down = { headgate_store_up: 0, headgate_store_servers_down: 2, headgate_overrides_active: 1 };
    expect(await together(down)).to.include(down);
  });

  it('are sums of keys, queues and decisions', async () => {
    expect(await together({})).to.include({
      ...{ headgate_memory_keys: 4, headgate_queue_limit: 200, headgate_decisions_total: 4 },
    });
  });
});
