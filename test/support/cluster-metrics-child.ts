// The metrics that four workers of a cluster report together, of which one has other values. Argument: those values, as JSON. Sends the values.
// A process of its own, because metrics count the limiters that other tests have left open.
import { AggregatorRegistry, Registry } from 'prom-client';
import { createLimiter } from 'headgate';
import { prometheusMetrics } from 'headgate/prometheus';

const values = JSON.parse(process.argv[2]!) as Record<string, number>;
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
process.send!(Object.fromEntries(json.map(({ name, values: all }) => [name, all[0]?.value ?? 0])));
