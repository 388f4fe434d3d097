import { Counter, Gauge, Histogram, register as globalRegister, type Registry } from 'prom-client';
import { HeadgateError, invalidOption } from '../common/errors.js';
import { checkShape } from '../common/validate.js';
import { attributesOf, ATTRIBUTES, BUCKETS, ROWS, type Sink } from './metrics.js';
import { checkNearLimit, reportTo } from './report.js';

/** The options of {@link prometheusMetrics}. */
export interface PrometheusOptions {
  /** The registry of prom-client. @default the global registry */
  register?: Registry | undefined;
  /** The share of a policy's capacity, above 0 and below 1, at or below which an admission counts as near the limit. @default 0.2 */
  nearLimit?: number | undefined;
}

/** The name of a metric or of a label: as `@opentelemetry/exporter-prometheus` writes it. */
const underscored = (name: string): string => name.replaceAll('.', '_');

/**
 * Reports every limiter of this process to prom-client, until the returned function is called, which also removes the metrics. The metrics
 * equal those of `instrument` in `headgate/opentelemetry`, with the names of OpenTelemetry's Prometheus exporter: `headgate_decisions_total`.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, also if the registry has the metrics already; `HEADGATE_UNKNOWN_OPTION`
 */
export function prometheusMetrics(options: PrometheusOptions = {}): () => void {
  checkShape('prometheusMetrics', options, ['register', 'nearLimit']);
  const nearLimit = checkNearLimit(options.nearLimit);
  const register = options.register ?? globalRegister;
  if (typeof (register as Partial<Registry>).registerMetric !== 'function')
    throw invalidOption('register', register, 'Pass a Registry of prom-client: register: new Registry().');
  const added = new Map<string, Sink['add']>();
  const metrics: string[] = [];
  let read: (set: Sink['add']) => void = () => {};
  for (const [key, { kind, by, description: help }] of ROWS) {
    const isCounter = kind === 'counter' || kind === 'clock';
    const name = `headgate_${underscored(key)}${isCounter ? '_total' : ''}`;
    if (register.getSingleMetric(name))
      throw new HeadgateError(
        'HEADGATE_INVALID_OPTION',
        `register: the registry has ${name} already. Call prometheusMetrics once.`,
      );
    metrics.push(name);
    const labelNames = by.map((attribute) => underscored(ATTRIBUTES[attribute]));
    const config = { name, help, labelNames, registers: [register] };
    const labels = (values: Parameters<typeof attributesOf>[0]) => {
      const all = Object.entries(attributesOf(values, underscored));
      return Object.fromEntries(all.map(([label, value]) => [label, String(value)]));
    };
    if (kind === 'histogram') {
      const histogram = new Histogram({ ...config, buckets: BUCKETS });
      added.set(key, (_, value, values) => histogram.observe(labels(values), value));
    } else if (kind === 'counter') {
      const counter = new Counter(config);
      added.set(key, (_, value, values) => counter.inc(labels(values), value));
    } else {
      const Metric = kind === 'clock' ? Counter : Gauge;
      const metric: Counter | Gauge = new Metric({
        ...config,
        // For the registry of a cluster's primary process, which adds values up by default.
        aggregator: kind === 'clock' ? 'sum' : kind,
        collect: () => {
          metric.reset();
          read((which, value, values) => {
            if (which === key) metric.inc(labels(values), value);
          });
        },
      });
    }
  }
  const sink: Sink = {
    add: (name, value, values) => added.get(name)!(name, value, values),
    observe: (reads) => {
      read = reads;
      return () => (read = () => {});
    },
  };
  const end = reportTo(sink, nearLimit);
  return () => {
    end();
    for (const name of metrics) register.removeSingleMetric(name);
  };
}
