import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { metrics, type Attributes, type Meter, type ObservableResult } from '@opentelemetry/api';
import type { DecisionMessage, OutboundMessage, StoreMessage } from '../contract/diagnostics.js';
import { invalidOption } from '../common/errors.js';
import { checkShape } from '../common/validate.js';
import { DownTime } from './down-time.js';
import { observeGauges } from './gauges.js';
import { Names } from './names.js';

/** The options of {@link instrument}. */
export interface InstrumentOptions {
  /** The meter. @default the global meter provider's meter `headgate` */
  meter?: Meter;
  /** The share of a limit, above 0 and below 1, at or below which an admitted decision counts as near its limit. @default 0.2 */
  nearLimit?: number;
}

/** Options of histograms of seconds. Most stores answer within a millisecond; a `timeout` may be a minute. */
const SECONDS = {
  unit: 's',
  advice: {
    explicitBucketBoundaries: [
      0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 10,
    ],
  },
};

/**
 * Reports every limiter of this process to OpenTelemetry, until the returned function is called. Metrics:
 *
 * - `headgate.decisions` (counter): by `limiter`, `outcome` (`allowed`, `denied`, `shadow-denied`, or `error` if the store's error was
 *   thrown), `reason`, `policy` (the deciding one), `degraded`;
 * - `headgate.near_limit` (counter): admitted with little left, by `limiter` and `policy`; its share of the decisions warns early;
 * - `headgate.shadow.denials` (counter): denials that a shadow policy would have made, by `limiter` and `policy`;
 * - `headgate.local.denials` (counter): denials that this process remembered from Redis, so that no call was made, by `limiter`;
 * - `headgate.store.full` (counter): requests for whose key a memory store had no room, by `limiter` and `outcome`;
 * - `headgate.store.duration` (histogram, s): until the answer, by `limiter`, `degraded` and `failed`;
 * - `headgate.store.busy` (histogram, s): the part of that time in which this process was busy with other work, by `limiter`;
 * - `headgate.degraded.time` (counter, s): the time for which stores have been down;
 * - `headgate.outbound.denials` (counter): calls of `limitFetch` that a partner rejected, by `limiter` and `status`;
 * - `headgate.outbound.paused` (counter, s): the pauses that this process began for that, by `limiter`.
 *
 * These are gauges by `limiter`, which are read when metrics are collected, and disappear when the limiter is closed:
 *
 * - `headgate.store.up`: 1, or 0 while the store is down (a cluster, while all its servers are);
 * - `headgate.store.servers_down`: the servers of a cluster that are down;
 * - `headgate.queue.waiting`, `headgate.queue.held`: requests that wait, and requests that are held for their turn (`maxDelay`);
 * - `headgate.queue.limit`: the most requests of each kind, `maxWaiting`;
 * - `headgate.slots.used`: concurrency slots that requests of this process hold;
 * - `headgate.memory.keys`: keys that have state in this process.
 *
 * Attributes never contain a key, and have at most 200 different names.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
 */
export function instrument(options: InstrumentOptions = {}): () => void {
  checkShape('instrument', options, ['meter', 'nearLimit']);
  const nearLimit = options.nearLimit ?? 0.2;
  if (typeof nearLimit !== 'number' || !(nearLimit > 0 && nearLimit < 1)) {
    throw invalidOption('nearLimit', nearLimit, 'Pass a number above 0 and below 1.');
  }
  const meter = options.meter ?? metrics.getMeter('headgate');
  const counter = (name: string, description: string, unit: string) =>
    meter.createCounter(`headgate.${name}`, { description, unit });
  const decisions = counter('decisions', 'Decisions of rate limiters', '{decision}');
  const near = counter('near_limit', 'Admitted with little quota left', '{decision}');
  const shadows = counter('shadow.denials', 'Denials that shadow policies would have made', '{decision}');
  const locals = counter('local.denials', 'Denials without a call to the store', '{decision}');
  const full = counter('store.full', 'Requests for whose key a memory store had no room', '{decision}');
  const turnedAway = counter('outbound.denials', 'Calls that a partner rejected', '{call}');
  const paused = counter('outbound.paused', 'Pauses that partners asked for', 's');
  const duration = meter.createHistogram('headgate.store.duration', {
    description: "Time until the store's answer",
    ...SECONDS,
  });
  const busy = meter.createHistogram('headgate.store.busy', {
    description: "How much of the time until the store's answer this process was busy",
    ...SECONDS,
  });
  const degraded = meter.createObservableCounter('headgate.degraded.time', {
    description: 'Time for which stores have been down',
    unit: 's',
  });

  const names = new Names();
  const onDecision = (message: unknown): void => {
    const { limiter, shadow, local, decision } = message as DecisionMessage;
    const { allowed, reason, policy } = decision;
    const would = shadow && decision.retryAfterMs !== 0;
    const outcome = would ? 'shadow-denied' : allowed ? 'allowed' : 'denied';
    const at: Attributes = { limiter: names.bounded(limiter) };
    if (reason === 'store-full') full.add(1, { ...at, outcome });
    if (local && outcome !== 'allowed') locals.add(1, at);
    decisions.add(1, {
      ...at,
      outcome,
      ...(reason && { reason }),
      ...(policy !== undefined && { policy: names.bounded(policy) }),
      degraded: decision.degraded,
    });
    for (const verdict of decision.policies) {
      const of = { ...at, policy: names.bounded(verdict.name) };
      if (!verdict.allowed && allowed && !would) shadows.add(1, of);
      if (verdict.allowed && verdict.remaining <= verdict.limit * nearLimit) near.add(1, of);
    }
  };
  const onStore = (message: unknown): void => {
    const { limiter, durationMs, busyMs, degraded: instead, error } = message as StoreMessage;
    const name = names.bounded(limiter);
    // The caller got the error (`onStoreError: 'throw'`), so there is no decision.
    if (error !== undefined && !instead)
      decisions.add(1, { limiter: name, outcome: 'error', reason: 'store-error', degraded: false });
    busy.record(busyMs / 1000, { limiter: name });
    duration.record(durationMs / 1000, {
      limiter: name,
      degraded: instead,
      failed: error !== undefined,
    });
  };
  const onOutbound = (message: unknown): void => {
    const { limiter, status, pauseMs } = message as OutboundMessage;
    const at: Attributes = { limiter: names.bounded(limiter) };
    if (status >= 400) turnedAway.add(1, { ...at, status });
    paused.add(pauseMs / 1000, at);
  };
  const downTime = new DownTime();
  const observeDownTime = (result: ObservableResult): void => result.observe(downTime.seconds);

  subscribe('headgate:decision', onDecision);
  subscribe('headgate:store', onStore);
  subscribe('headgate:health', downTime.onHealth);
  subscribe('headgate:outbound', onOutbound);
  degraded.addCallback(observeDownTime);
  const endGauges = observeGauges(meter, names);
  return () => {
    unsubscribe('headgate:decision', onDecision);
    unsubscribe('headgate:store', onStore);
    unsubscribe('headgate:health', downTime.onHealth);
    unsubscribe('headgate:outbound', onOutbound);
    degraded.removeCallback(observeDownTime);
    endGauges();
  };
}
