/** The names of attributes, in the namespace of Headgate or as OpenTelemetry's conventions have them. */
export const ATTRIBUTES = {
  limiter: 'headgate.limiter',
  policy: 'headgate.policy',
  tier: 'headgate.tier',
  outcome: 'headgate.outcome',
  reason: 'headgate.reason',
  degraded: 'headgate.degraded',
  automatic: 'headgate.automatic',
  change: 'headgate.change',
  error: 'error.type',
  status: 'http.response.status_code',
} as const;

export type Attribute = keyof typeof ATTRIBUTES;

/** The values of a measurement's attributes. Undefined ones are left out. */
export type Values = Readonly<Partial<Record<Attribute, string | number | boolean | undefined>>>;

/**
 * `counter` and `histogram` receive measurements. The others are read when metrics are collected: `clock` is a counter, `sum` may be added up
 * over processes, and of `min` and `max` the least or the greatest value counts.
 */
export type Kind = 'counter' | 'histogram' | 'clock' | 'sum' | 'min' | 'max';

interface Row {
  readonly kind: Kind;
  readonly unit: string;
  readonly by: readonly Attribute[];
  readonly description: string;
}

const row = (kind: Kind, unit: string, by: readonly Attribute[], description: string): Row => ({
  ...{ kind, unit, by, description },
});

/** All metrics, the source of the metrics of OpenTelemetry and Prometheus. */
export const METRICS = {
  decisions: row(
    'counter',
    '{decision}',
    ['limiter', 'outcome', 'reason', 'policy', 'tier', 'degraded', 'error'],
    'Decisions of rate limiters',
  ),
  units: row('counter', '{unit}', ['limiter', 'policy', 'tier'], 'Units that admitted requests cost'),
  near_limit: row('counter', '{decision}', ['limiter', 'policy', 'tier'], 'Admitted with little quota left'),
  'shadow.denials': row(
    'counter',
    '{decision}',
    ['limiter', 'policy', 'tier'],
    'Denials that shadow policies would have made',
  ),
  'local.denials': row('counter', '{decision}', ['limiter'], 'Denials without a call to the store'),
  bans: row('counter', '{ban}', ['limiter', 'automatic'], 'Bans that this process began'),
  changes: row('counter', '{change}', ['limiter', 'change'], 'Changes by hand that this process made'),
  'wait.duration': row('histogram', 's', ['limiter', 'outcome', 'tier'], 'Time for which requests waited'),
  'store.full': row(
    'counter',
    '{decision}',
    ['limiter', 'outcome'],
    'Requests with a key for which a memory store had no room',
  ),
  'store.duration': row('histogram', 's', ['limiter', 'degraded', 'error'], "Time until the store's answer"),
  'store.busy': row(
    'histogram',
    's',
    ['limiter'],
    "Time until the store's answer in which this process was busy",
  ),
  'degraded.time': row('clock', 's', [], 'Time for which stores have been down'),
  'outbound.denials': row('counter', '{call}', ['limiter', 'status'], 'Calls that a partner rejected'),
  'outbound.paused': row('counter', 's', ['limiter'], 'Pauses that partners asked for'),
  'store.up': row('min', '', ['limiter'], '1 if the store is up, 0 if it is down'),
  'store.servers_down': row('max', '{server}', ['limiter'], 'Servers of a cluster that are down'),
  'queue.waiting': row('sum', '{request}', ['limiter'], 'Requests that wait for admission'),
  'queue.held': row('sum', '{request}', ['limiter'], 'Admitted requests that are held for their turn'),
  'queue.limit': row(
    'sum',
    '{request}',
    ['limiter'],
    'The most requests that may wait, and that may be held',
  ),
  'slots.used': row('sum', '{slot}', ['limiter'], 'Concurrency slots that requests of this process hold'),
  'memory.keys': row('sum', '{key}', ['limiter'], 'Keys that have state in the memory of this process'),
  'overrides.active': row('max', '{override}', ['limiter'], '1 while an override of all keys is in force'),
} as const satisfies Record<string, Row>;

export type MetricName = keyof typeof METRICS;

export const ROWS = Object.entries(METRICS) as readonly (readonly [MetricName, Row])[];

/**
 * Bounds of histograms of seconds. Most stores answer within a millisecond, and requests may wait for a minute.
 */
export const BUCKETS = [
  0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 10, 30, 60,
];

export interface Sink {
  /** Adds to a counter, or records a value of a histogram. */
  add(name: MetricName, value: number, values: Values): void;
  /** Calls a function whenever metrics are collected, until the returned function is called. */
  observe(read: (set: Sink['add']) => void): () => void;
}

/** The attributes of a measurement by their full names. */
export function attributesOf(
  values: Values,
  nameOf: (name: string) => string = (name) => name,
): Record<string, string | number | boolean> {
  const result: Record<string, string | number | boolean> = {};
  for (const [attribute, value] of Object.entries(values))
    if (value !== undefined) result[nameOf(ATTRIBUTES[attribute as Attribute])] = value;
  return result;
}
