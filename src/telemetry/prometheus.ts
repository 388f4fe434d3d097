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

function nameOf([key, { kind }]: (typeof ROWS)[number]): string {
  return `headgate_${underscored(key)}${kind === 'counter' || kind === 'clock' ? '_total' : ''}`;
}

/** @throws HeadgateError `HEADGATE_INVALID_OPTION` before the first metric is made, so that a refused call leaves none */
function checkFree(register: Registry): void {
  for (const name of ROWS.map(nameOf))
    if (register.getSingleMetric(name))
      throw new HeadgateError(
        'HEADGATE_INVALID_OPTION',
        `register: the registry has ${name} already. Call prometheusMetrics once.`,
      );
}

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
  checkFree(register);
  const metrics: (Counter | Gauge | Histogram)[] = [];
  let read: (set: Sink['add']) => void = () => {};
  for (const row of ROWS) {
    const [key, { kind, by, description: help }] = row;
    const name = nameOf(row);
    const labelNames = by.map((attribute) => underscored(ATTRIBUTES[attribute]));
    const config = { name, help, labelNames, registers: [register] };
    const labels = (values: Parameters<typeof attributesOf>[0]) => {
      const all = Object.entries(attributesOf(values, underscored));
      return Object.fromEntries(all.map(([label, value]) => [label, String(value)]));
    };
    if (kind === 'histogram') {
      const histogram = new Histogram({ ...config, buckets: BUCKETS });
      metrics.push(histogram);
      added.set(key, (_, value, values) => histogram.observe(labels(values), value));
    } else if (kind === 'counter') {
      const counter = new Counter(config);
      metrics.push(counter);
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
      metrics.push(metric);
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
    // A repeated end leaves the metrics of a later call.
    for (const [i, name] of ROWS.map(nameOf).entries())
      if (register.getSingleMetric(name) === metrics[i]) register.removeSingleMetric(name);
  };
}
