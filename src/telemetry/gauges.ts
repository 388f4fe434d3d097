import { openLimiters } from '../contract/gauges.js';
import type { Store } from '../contract/store.js';
import type { MetricName, Sink } from './metrics.js';
import type { Names } from './names.js';

/** The values of a limiter that is closed. */
const CLOSED = {
  'store.up': 1,
  'store.servers_down': 0,
  'queue.waiting': 0,
  'queue.held': 0,
  'queue.limit': 0,
  'slots.used': 0,
  'memory.keys': 0,
  'overrides.active': 0,
} satisfies Partial<Record<MetricName, number>>;

type Sum = Record<keyof typeof CLOSED, number>;

/** Reads the open limiters whenever metrics are collected. @returns reports the values */
export function gaugesOf(names: Names): (set: Sink['add']) => void {
  /** By reported name. After a name's limiters are closed, the name stays with empty values, or the SDK would repeat the last values. */
  const sums = new Map<string, Sum>();
  return (set) => {
    for (const name of sums.keys()) sums.set(name, { ...CLOSED });
    addLimiters(sums, names);
    for (const [limiter, sum] of sums)
      for (const [name, value] of Object.entries(sum)) set(name as MetricName, value, { limiter });
  };
}

function addLimiters(sums: Map<string, Sum>, names: Names): void {
  /** By store, the names that are already counted, because limiters of the same name share keys and servers. */
  const counted = new Map<Store, Set<string>>();
  for (const { name, source, health, gauges } of openLimiters()) {
    const label = names.bounded(name);
    const sum = sums.get(label) ?? { ...CLOSED };
    sums.set(label, sum);
    const known = counted.get(source) ?? new Set();
    counted.set(source, known);
    if (!known.has(name)) {
      sum['memory.keys'] += gauges.keys;
      sum['store.servers_down'] += health.serversDown.length;
    }
    known.add(name);
    sum['store.up'] = Math.min(sum['store.up'], health.state === 'up' ? 1 : 0);
    sum['queue.waiting'] += gauges.waiting;
    sum['queue.held'] += gauges.held;
    sum['queue.limit'] += gauges.maxWaiting;
    sum['slots.used'] += gauges.slots;
    sum['overrides.active'] = Math.max(sum['overrides.active'], gauges.overrides);
  }
}
