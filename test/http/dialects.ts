// The header fields as data: a policy, the number and cost of the requests, and all fields of the last answer.
import type { Policy } from 'headgate';
import type { HeaderDialect } from '../../src/http/quota-fields.js';

interface Row {
  readonly title: string;
  readonly headers?: HeaderDialect | readonly HeaderDialect[] | false;
  readonly policies: readonly Policy[];
  /** Default 1. */
  readonly cost?: number;
  /** Default 1. */
  readonly requests?: number;
  /** All fields of rate limits. */
  readonly fields: Readonly<Record<string, string>>;
}

const minute = { name: 'minute', algorithm: 'fixed-window', limit: 100, window: '1m' } as const;
const hour = { name: 'hour', algorithm: 'sliding-window', limit: 1000, window: '1h' } as const;
const burst = { name: 'burst', algorithm: 'token-bucket', limit: 20, window: '1s', burst: 40 } as const;
const bucket = { name: 'bucket', algorithm: 'gcra', limit: 10, window: '10s' } as const;
const slots = { name: 'slots', algorithm: 'concurrency', limit: 10, lease: '1m' } as const;

const draft6 = { 'ratelimit-limit': '100', 'ratelimit-remaining': '42', 'ratelimit-reset': '60' };

export const dialects: readonly Row[] = [
  {
    title: 'by default draft-6 and draft-11, an item per policy, the tightest policy alone in single fields',
    policies: [burst, hour],
    fields: {
      'ratelimit-limit': '20',
      'ratelimit-remaining': '39',
      'ratelimit-reset': '1',
      'ratelimit-policy': '"burst";q=20;w=1, "hour";q=1000;w=3600',
      ratelimit: '"burst";r=39;t=2, "hour";r=999;t=3597',
    },
  },
  {
    title: 'in draft-6',
    headers: 'draft-6',
    policies: [minute],
    cost: 58,
    fields: { ...draft6, 'ratelimit-policy': '100;w=60' },
  },
  {
    title: 'in draft-7',
    headers: 'draft-7',
    policies: [minute],
    cost: 58,
    fields: { ratelimit: 'limit=100, remaining=42, reset=60', 'ratelimit-policy': '100;w=60' },
  },
  {
    title: 'in draft-11',
    headers: ['draft-11'],
    policies: [minute],
    cost: 58,
    fields: { ratelimit: '"minute";r=42;t=60', 'ratelimit-policy': '"minute";q=100;w=60' },
  },
  {
    title: 'in draft-6 and draft-7',
    headers: ['draft-6', 'draft-7'],
    policies: [minute],
    cost: 58,
    fields: { ...draft6, ratelimit: 'limit=100, remaining=42, reset=60', 'ratelimit-policy': '100;w=60' },
  },
  {
    title: 'in draft-7 and draft-11: the newer one has the fields',
    headers: ['draft-11', 'draft-7'],
    policies: [minute],
    cost: 58,
    fields: { ratelimit: '"minute";r=42;t=60', 'ratelimit-policy': '"minute";q=100;w=60' },
  },
  { title: 'nothing if so chosen', headers: false, policies: [minute], fields: {} },
  {
    title: 'several policies in draft-6',
    headers: 'draft-6',
    policies: [burst, hour],
    fields: {
      'ratelimit-limit': '20',
      'ratelimit-remaining': '39',
      'ratelimit-reset': '1',
      'ratelimit-policy': '20;w=1, 1000;w=3600',
    },
  },
  {
    title: 'windows that are no whole seconds, rounded up',
    headers: 'draft-11',
    policies: [{ name: 'odd', algorithm: 'fixed-window', limit: 10, window: 1500 }],
    fields: { 'ratelimit-policy': '"odd";q=10;w=2', ratelimit: '"odd";r=9;t=2' },
  },
  {
    title: 'windows below a second as one',
    headers: ['draft-11', 'draft-6'],
    policies: [{ name: 'quick', algorithm: 'fixed-window', limit: 10, window: 100 }],
    fields: {
      'ratelimit-limit': '10',
      'ratelimit-remaining': '9',
      'ratelimit-reset': '1',
      'ratelimit-policy': '"quick";q=10;w=1',
      ratelimit: '"quick";r=9;t=1',
    },
  },
  {
    title: 'concurrency in its own unit, and without a time, which is unknown',
    headers: 'draft-11',
    policies: [slots],
    fields: { 'ratelimit-policy': '"slots";q=10;qu="concurrent-requests"', ratelimit: '"slots";r=9' },
  },
  {
    title: 'no fields of concurrency beside a quota in the older dialects, which have no units',
    headers: ['draft-6', 'draft-7'],
    policies: [slots, minute],
    fields: {
      'ratelimit-limit': '100',
      'ratelimit-remaining': '99',
      'ratelimit-reset': '60',
      'ratelimit-policy': '100;w=60',
      ratelimit: 'limit=100, remaining=99, reset=60',
    },
  },
  {
    title: 'no fields of concurrency alone in draft-6, draft-7 and legacy fields',
    headers: ['draft-6', 'draft-7', 'legacy-seconds'],
    policies: [{ ...slots, limit: 1 }],
    fields: {},
  },
  {
    title: 'legacy fields with the seconds until the reset',
    headers: ['legacy-seconds', 'draft-11'],
    policies: [minute],
    fields: {
      'x-ratelimit-limit': '100',
      'x-ratelimit-remaining': '99',
      'x-ratelimit-reset': '60',
      'ratelimit-policy': '"minute";q=100;w=60',
      ratelimit: '"minute";r=99;t=60',
    },
  },
  {
    title: 'of concurrency alone by default the fields of draft-11',
    policies: [slots],
    fields: { 'ratelimit-policy': '"slots";q=10;qu="concurrent-requests"', ratelimit: '"slots";r=9' },
  },
  {
    title: 'no fields if all policies are shadows',
    headers: ['draft-6', 'draft-11', 'legacy'],
    policies: [
      { ...minute, shadow: true },
      { ...slots, shadow: true },
    ],
    cost: 101,
    fields: {},
  },
  {
    title: 'names as structured-field strings',
    headers: 'draft-11',
    policies: [{ ...minute, name: 'say "hi" \\, ok?' }],
    fields: {
      'ratelimit-policy': '"say \\"hi\\" \\\\, ok?";q=100;w=60',
      ratelimit: '"say \\"hi\\" \\\\, ok?";r=99;t=60',
    },
  },
  {
    title: "the limiter's name for a sole policy without one",
    headers: 'draft-11',
    policies: [{ algorithm: 'fixed-window', limit: 100, window: '1m' }],
    fields: { 'ratelimit-policy': '"limiter-0";q=100;w=60', ratelimit: '"limiter-0";r=99;t=60' },
  },
  {
    title: 'the time to the next unit when no unit is left',
    headers: 'draft-11',
    policies: [bucket],
    cost: 10,
    fields: { 'ratelimit-policy': '"bucket";q=10;w=10', ratelimit: '"bucket";r=0;t=1' },
  },
  {
    title: 'never more units in a time than the rate allows',
    headers: 'draft-11',
    policies: [bucket],
    cost: 4,
    fields: { 'ratelimit-policy': '"bucket";q=10;w=10', ratelimit: '"bucket";r=6;t=6' },
  },
  {
    title: 'a denial: the fields of the denying policy, and Retry-After',
    policies: [{ ...minute, limit: 1 }, hour],
    requests: 2,
    fields: {
      'ratelimit-limit': '1',
      'ratelimit-remaining': '0',
      'ratelimit-reset': '60',
      'ratelimit-policy': '"minute";q=1;w=60, "hour";q=1000;w=3600',
      ratelimit: '"minute";r=0;t=60, "hour";r=999;t=3597',
      'retry-after': '60',
    },
  },
  {
    title: 'a denial of a cost above the remaining units: the time until they are there',
    policies: [bucket],
    cost: 6,
    requests: 2,
    fields: {
      'ratelimit-limit': '10',
      'ratelimit-remaining': '4',
      'ratelimit-reset': '2',
      'ratelimit-policy': '"bucket";q=10;w=10',
      ratelimit: '"bucket";r=4;t=2',
      'retry-after': '2',
    },
  },
  {
    title: 'a denial by several: the longest wait',
    headers: 'draft-7',
    policies: [
      { ...minute, limit: 1 },
      { ...hour, algorithm: 'fixed-window', limit: 1 },
    ],
    requests: 2,
    fields: {
      'ratelimit-policy': '1;w=60, 1;w=3600',
      ratelimit: 'limit=1, remaining=0, reset=3600',
      'retry-after': '3600',
    },
  },
  {
    title: 'a denial that waiting does not end: no Retry-After, and in single fields when the quota is full',
    policies: [{ ...minute, limit: 5 }],
    cost: 6,
    requests: 2,
    fields: {
      'ratelimit-limit': '5',
      'ratelimit-remaining': '5',
      'ratelimit-reset': '0',
      'ratelimit-policy': '"minute";q=5;w=60',
      ratelimit: '"minute";r=5;t=60',
    },
  },
  {
    title: 'a denial that waiting does not end, of a cost above the capacity',
    policies: [minute, { ...slots, limit: 1 }],
    cost: 2,
    fields: {
      'ratelimit-limit': '100',
      'ratelimit-remaining': '100',
      'ratelimit-reset': '0',
      'ratelimit-policy': '"minute";q=100;w=60, "slots";q=1;qu="concurrent-requests"',
      ratelimit: '"minute";r=100;t=60, "slots";r=1',
    },
  },
];
