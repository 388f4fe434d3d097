import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { metrics, type Attributes, type Meter } from '@opentelemetry/api';
import type { DecisionMessage, HealthMessage, StoreMessage } from '../contract/diagnostics.js';
import { invalidOption } from '../common/errors.js';
import { checkShape } from '../common/validate.js';

/** What {@link instrument} takes. */
export interface InstrumentOptions {
  /** Default: the global meter provider's meter `headgate`. */
  meter?: Meter;
  /** Admitted with at most this share of the limit left, a decision is near its limit: above 0, below 1. Default 0.2. */
  nearLimit?: number;
}

/** Above this many different names of limiters and policies, further ones are counted as `other`: tiers may make names up. */
const MOST_NAMES = 200;

/** At most so many different strings go out; never a key. */
class Names {
  readonly #known = new Set<string>();

  bounded(name: string): string {
    if (this.#known.has(name)) return name;
    if (this.#known.size >= MOST_NAMES) return 'other';
    this.#known.add(name);
    return name;
  }
}

/**
 * Reports every limiter of this process to OpenTelemetry, until the returned function is called. Metrics:
 *
 * - `headgate.decisions` (counter): by `limiter`, `outcome` (`allowed`, `denied`, `shadow-denied`), `reason`, `policy` (the
 *   one that decided), `degraded`;
 * - `headgate.near_limit` (counter): admitted with little left, by `limiter` and `policy`; its share of the decisions warns early;
 * - `headgate.shadow.denials` (counter): what a shadow policy would have denied, by `limiter` and `policy`;
 * - `headgate.store.full` (counter): requests for whose key a memory store had no room, by `limiter` and `outcome`;
 * - `headgate.store.duration` (histogram, s): until the answer, by `limiter`, `degraded` and `failed`;
 * - `headgate.store.busy` (histogram, s): for how much of that this process was busy with other work, by `limiter`;
 * - `headgate.stores.down` (gauge): how many stores are down now;
 * - `headgate.degraded.time` (counter, s): how long stores have been down.
 *
 * Attributes never hold a key, and at most 200 different names.
 *
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
 */
export function instrument(options: InstrumentOptions = {}): () => void {
  checkShape('instrument', options, ['meter', 'nearLimit']);
  const nearLimit = options.nearLimit ?? 0.2;
  if (typeof nearLimit !== 'number' || !(nearLimit > 0 && nearLimit < 1)) {
    throw invalidOption('nearLimit', nearLimit, 'Write a number above 0 and below 1.');
  }
  const meter = options.meter ?? metrics.getMeter('headgate');
  const decisions = meter.createCounter('headgate.decisions', { description: 'Decisions of rate limiters' });
  const near = meter.createCounter('headgate.near_limit', { description: 'Admitted with little quota left' });
  const shadows = meter.createCounter('headgate.shadow.denials', {
    description: 'What shadow policies would have denied',
  });
  const full = meter.createCounter('headgate.store.full', {
    description: 'Requests for whose key a memory store had no room',
  });
  const seconds = {
    unit: 's',
    advice: {
      explicitBucketBoundaries: [0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1],
    },
  };
  const duration = meter.createHistogram('headgate.store.duration', {
    description: "Time until the store's answer",
    ...seconds,
  });
  const busy = meter.createHistogram('headgate.store.busy', {
    description: "How much of the time until the store's answer this process was busy",
    ...seconds,
  });
  const down = meter.createObservableGauge('headgate.stores.down', {
    description: 'How many stores are down',
  });
  const degraded = meter.createObservableCounter('headgate.degraded.time', {
    description: 'How long stores have been down',
    unit: 's',
  });

  const names = new Names();
  const onDecision = (message: unknown): void => {
    const { limiter, shadow, decision } = message as DecisionMessage;
    const { allowed, reason, policy } = decision;
    const would = shadow && decision.retryAfterMs !== 0;
    const outcome = would ? 'shadow-denied' : allowed ? 'allowed' : 'denied';
    const at: Attributes = { limiter: names.bounded(limiter) };
    if (reason === 'store-full') full.add(1, { ...at, outcome });
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
    busy.record(busyMs / 1000, { limiter: name });
    duration.record(durationMs / 1000, {
      limiter: name,
      degraded: instead,
      failed: error !== undefined,
    });
  };

  let downSeconds = 0;
  const downSince = new Map<object, number>();
  const settle = (): void => {
    const now = performance.now();
    for (const [store, since] of downSince) {
      downSeconds += (now - since) / 1000;
      downSince.set(store, now);
    }
  };
  const onHealth = (message: unknown): void => {
    const { store, health } = message as HealthMessage;
    settle();
    if (health.state === 'down') downSince.set(store, performance.now());
    else downSince.delete(store);
  };
  const observe: Parameters<typeof degraded.addCallback>[0] = (result) => {
    settle();
    result.observe(downSeconds);
  };
  const count: typeof observe = (result) => result.observe(downSince.size);

  subscribe('headgate:decision', onDecision);
  subscribe('headgate:store', onStore);
  subscribe('headgate:health', onHealth);
  degraded.addCallback(observe);
  down.addCallback(count);
  return () => {
    unsubscribe('headgate:decision', onDecision);
    unsubscribe('headgate:store', onStore);
    unsubscribe('headgate:health', onHealth);
    degraded.removeCallback(observe);
    down.removeCallback(count);
  };
}
