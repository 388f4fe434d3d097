// Sites on which the oracle once found a difference, so that every run plays them.
import type { Site, Step } from './draw.js';

const step: Step = {
  ...{ kind: 'consume', limiter: 0, keys: { key: 'a' }, pick: 0, ms: 0, cost: 1, costs: undefined },
  ...{ tier: 0, id: undefined, weight: undefined, isAll: false, change: 'limit', limit: 1, window: 6000 },
};
const limiter = {
  ...{ ban: undefined, shadow: false, overrides: true, idsFor: 600_000, repeats: 5, hasIds: false },
  ...{ refunds: false, onStoreError: 'throw' },
};

const log = { name: 'log', by: 'key', algorithm: 'sliding-log', limit: 1, window: 1200 } as const;
const bucket = { name: 'bucket', by: 'key', algorithm: 'gcra', window: 12_000, burst: 1 } as const;
const other = { name: 'other', by: 'key', algorithm: 'concurrency', limit: 1, window: 1200 } as const;
const pro = [other, { ...bucket, limit: 5, thresholds: [0.5] }];

const start = Date.UTC(2040, 0, 1);

export const found: Readonly<Record<string, Site>> = {
  // After an override of any policy of the key, a bucket returns up to 2 ms less than it charged.
  'a crossing by a settlement after a return': {
    limiters: [{ ...limiter, policies: [other, { ...bucket, limit: 1 }], tiers: { pro } }],
    start,
    row: new Set(),
    steps: [
      { ...step, tier: 1 },
      { ...step, kind: 'settle', cost: 3 },
      { ...step, kind: 'advance', ms: 3000 },
      { ...step, kind: 'override' },
      { ...step, kind: 'cancel' },
      { ...step, kind: 'settle' },
      { ...step, kind: 'usage', tier: 1 },
    ],
  },
  // The refund of a settled request is two steps of the store. A request that waits was admitted between them.
  'a request in line at the refund of a settled one': {
    limiters: [{ ...limiter, policies: [log], tiers: { pro: [{ ...log, limit: 3 }] } }],
    start,
    row: new Set(),
    steps: [
      step,
      { ...step, kind: 'settle', cost: 3 },
      { ...step, kind: 'wait', tier: 1 },
      { ...step, kind: 'refund' },
    ],
  },
};
