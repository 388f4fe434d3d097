import { metrics, type Meter, type Observable } from '@opentelemetry/api';
import { checkBoolean, checkShape } from '../common/validate.js';
import { attributesOf, BUCKETS, ROWS, type Kind, type MetricName, type Sink } from './metrics.js';
import { checkNearLimit, reportTo } from './report.js';
import { reportSpans } from './spans.js';

/** The options of {@link instrument}. */
export interface InstrumentOptions {
  /** The meter. @default the global meter provider's meter `headgate` */
  meter?: Meter | undefined;
  /** The share of a policy's capacity, above 0 and below 1, at or below which an admission counts as near the limit. @default 0.2 */
  nearLimit?: number | undefined;
  /** Whether decisions are attributes of the active span. Each wait also has a span of its own, `headgate.wait`. @default false */
  spans?: boolean | undefined;
}

/**
 * Reports every limiter of this process to OpenTelemetry, until the returned function is called. Metrics:
 *
 * - `headgate.decisions` (counter): by `headgate.limiter`, `headgate.outcome` (`allowed`, `denied`, `shadow-denied`; `wait-timeout`,
 *   `queue-full` and `aborted` for requests that waited; `error` if the store's error was thrown), `headgate.reason`, `headgate.policy`
 *   (the deciding policy), `headgate.tier`, `headgate.degraded`, `error.type`;
 * - `headgate.units` (counter): the costs of charged requests, by limiter, policy and tier;
 * - `headgate.near_limit` (counter): admitted with little left, by limiter, policy and tier; its share of the decisions warns early;
 * - `headgate.shadow.denials` (counter): denials by shadow policies, by limiter, policy and tier;
 * - `headgate.local.denials` (counter): denials remembered from Redis in this process, without a call;
 * - `headgate.wait.duration` (histogram, s): the time for which requests waited or were held, by limiter, outcome and tier;
 * - `headgate.bans`, `headgate.changes` (counters): bans begun by this process, and changes by hand in this process;
 * - `headgate.store.full` (counter): requests with a key for which a memory store had no room, by limiter and outcome;
 * - `headgate.store.duration` (histogram, s): the time until the answer, by limiter, `headgate.degraded` and `error.type`;
 * - `headgate.store.busy` (histogram, s): the part of the time in which this process was busy with other work;
 * - `headgate.degraded.time` (counter, s): the time for which stores have been down;
 * - `headgate.outbound.denials` (counter): calls of `limitFetch` rejected by a partner, by limiter and `http.response.status_code`;
 * - `headgate.outbound.paused` (counter, s): the pauses begun by this process after such denials.
 *
 * The following metrics are read when metrics are collected, by limiter. The last five are sums, to be added up over processes (UpDownCounters):
 *
 * - `headgate.store.up`: 1, or 0 while the store is down (a cluster, while every server is down);
 * - `headgate.store.servers_down`: the unavailable servers of a cluster;
 * - `headgate.overrides.active`: 1 while an override of all keys is in force;
 * - `headgate.queue.waiting`, `headgate.queue.held`: waiting requests, and requests held for their turn (`maxDelay`);
 * - `headgate.queue.limit`: the most requests of each kind, `maxWaiting`;
 * - `headgate.slots.used`: concurrency slots held by requests of this process;
 * - `headgate.memory.keys`: keys with state in this process.
 *
 * Attributes never contain a key, and have at most 200 different names.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
 */
export function instrument(options: InstrumentOptions = {}): () => void {
  checkShape('instrument', options, ['meter', 'nearLimit', 'spans']);
  const nearLimit = checkNearLimit(options.nearLimit);
  const hasSpans = checkBoolean('spans', options.spans, false);
  const end = reportTo(sinkOf(options.meter ?? metrics.getMeter('headgate')), nearLimit);
  const endSpans = hasSpans ? reportSpans() : undefined;
  return () => {
    end();
    endSpans?.();
  };
}

function sinkOf(meter: Meter): Sink {
  const added = new Map<MetricName, Sink['add']>();
  const observed = new Map<MetricName, Observable>();
  const create: Record<Exclude<Kind, 'counter' | 'histogram'>, 'Counter' | 'UpDownCounter' | 'Gauge'> = {
    ...{ clock: 'Counter', sum: 'UpDownCounter', min: 'Gauge', max: 'Gauge' },
  };
  for (const [key, { kind, unit, description }] of ROWS) {
    const name = `headgate.${key}`;
    const options = { description, ...(unit && { unit }) };
    if (kind === 'histogram') {
      const advice = { explicitBucketBoundaries: BUCKETS };
      const histogram = meter.createHistogram(name, { ...options, advice });
      added.set(key, (_, value, values) => histogram.record(value, attributesOf(values)));
    } else if (kind === 'counter') {
      const counter = meter.createCounter(name, options);
      added.set(key, (_, value, values) => counter.add(value, attributesOf(values)));
    } else {
      observed.set(key, meter[`createObservable${create[kind]}`](name, options));
    }
  }
  return {
    add: (name, value, values) => added.get(name)!(name, value, values),
    observe: (read) => {
      const all = [...observed.values()];
      const callback: Parameters<Meter['addBatchObservableCallback']>[0] = (result) =>
        read((name, value, values) => result.observe(observed.get(name)!, value, attributesOf(values)));
      meter.addBatchObservableCallback(callback, all);
      return () => meter.removeBatchObservableCallback(callback, all);
    },
  };
}
