import type { BatchObservableCallback, Meter } from '@opentelemetry/api';
import { openLimiters } from '../contract/gauges.js';
import type { Store } from '../contract/store.js';
import type { Names } from './names.js';

/** The sums of all limiters of one name. */
interface Sum {
  up: boolean;
  serversDown: number;
  waiting: number;
  held: number;
  maxWaiting: number;
  slots: number;
  keys: number;
}

const NOTHING: Readonly<Sum> = {
  up: true,
  ...{ serversDown: 0, waiting: 0, held: 0, maxWaiting: 0, slots: 0, keys: 0 },
};

/** Reads the open limiters whenever metrics are collected, until the returned function is called. */
export function observeGauges(meter: Meter, names: Names): () => void {
  const gauge = (name: string, description: string, unit?: string) =>
    meter.createObservableGauge(`headgate.${name}`, { description, ...(unit && { unit }) });
  const up = gauge('store.up', '1 if the store is up, 0 if it is down');
  const serversDown = gauge('store.servers_down', 'Servers of a cluster that are down', '{server}');
  const waiting = gauge('queue.waiting', 'Requests that wait for admission', '{request}');
  const held = gauge('queue.held', 'Admitted requests that are held for their turn', '{request}');
  const limit = gauge('queue.limit', 'The most requests that may wait, and that may be held', '{request}');
  const slots = gauge('slots.used', 'Concurrency slots that requests of this process hold', '{slot}');
  const keys = gauge('memory.keys', 'Keys that have state in the memory of this process', '{key}');

  /** By reported name. After its limiters are closed a name stays with empty values, or the SDK would repeat the last ones. */
  const sums = new Map<string, Sum>();
  const observe: BatchObservableCallback = (result) => {
    for (const name of sums.keys()) sums.set(name, { ...NOTHING });
    addLimiters(sums, names);
    for (const [limiter, sum] of sums) {
      const at = { limiter };
      result.observe(up, sum.up ? 1 : 0, at);
      result.observe(serversDown, sum.serversDown, at);
      result.observe(waiting, sum.waiting, at);
      result.observe(held, sum.held, at);
      result.observe(limit, sum.maxWaiting, at);
      result.observe(slots, sum.slots, at);
      result.observe(keys, sum.keys, at);
    }
  };
  const all = [up, serversDown, waiting, held, limit, slots, keys];
  meter.addBatchObservableCallback(observe, all);
  return () => meter.removeBatchObservableCallback(observe, all);
}

function addLimiters(sums: Map<string, Sum>, names: Names): void {
  /** By store, the names that are already counted, because limiters of one name share its keys and servers. */
  const counted = new Map<Store, Set<string>>();
  for (const { name, source, health, gauges } of openLimiters()) {
    const label = names.bounded(name);
    const sum = sums.get(label) ?? { ...NOTHING };
    sums.set(label, sum);
    const known = counted.get(source) ?? new Set();
    counted.set(source, known);
    if (!known.has(name)) {
      sum.keys += gauges.keys;
      sum.serversDown += health.serversDown.length;
    }
    known.add(name);
    sum.up &&= health.state === 'up';
    sum.waiting += gauges.waiting;
    sum.held += gauges.held;
    sum.maxWaiting += gauges.maxWaiting;
    sum.slots += gauges.slots;
  }
}
