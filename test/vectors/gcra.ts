import type { Vectors } from './vectors.js';

const slow = { limit: 2, window: '1m', burst: 3 } as const;

const bucket = [
  [0, { peek: 3 }, 'yes', 3, 0],
  [0, 3, 'yes', 0, 90_000],
  [0, 4, 'never', 0, 90_000],
  [1, 1, { after: 29_999 }, 0, 89_999],
  [1, 3, { after: 89_999 }, 0, 89_999],
  [29_999, 1, { after: 1 }, 0, 60_001],
  [30_000, 1, 'yes', 0, 90_000],
  [119_999, { peek: 3 }, { after: 1 }, 2, 1],
  [120_000, { peek: 3 }, 'yes', 3, 0],
  [120_000, 1, 'yes', 2, 30_000],
  [120_000, 'reset'],
  [120_000, { peek: 3 }, 'yes', 3, 0],
] as const;

export const gcra: readonly Vectors[] = [
  { title: 'token-bucket', policy: { algorithm: 'token-bucket', ...slow }, rows: bucket },
  { title: 'gcra', policy: { algorithm: 'gcra', ...slow }, rows: bucket },
  { title: 'leaky-bucket, a meter', policy: { algorithm: 'leaky-bucket', ...slow }, rows: bucket },
  {
    title: 'a rate that does not divide: a third of a second each, never rounded',
    policy: { algorithm: 'token-bucket', limit: 3, window: '1s', burst: 1 },
    rows: [
      [0, 1, 'yes', 0, 334],
      [333, 1, { after: 1 }, 0, 1],
      [334, 1, 'yes', 0, 334],
      [667, 1, { after: 1 }, 0, 1],
      [668, 1, 'yes', 0, 334],
      [1_002, 1, 'yes', 0, 334],
    ],
  },
  {
    title: 'a burst keeps its fractions: after a second, exactly three units are back',
    policy: { algorithm: 'token-bucket', limit: 3, window: '1s', burst: 7 },
    rows: [
      [0, 7, 'yes', 0, 2_334],
      [334, 1, 'yes', 0, 2_333],
      [667, 1, 'yes', 0, 2_333],
      [1_000, 1, 'yes', 0, 2_334],
      [1_333, 1, { after: 1 }, 0, 2_001],
    ],
  },
  {
    title: 'many per millisecond',
    policy: { algorithm: 'gcra', limit: 1_000_000, window: '1s', burst: 2_500 },
    rows: [
      [0, 2_500, 'yes', 0, 3],
      [0, 1, { after: 1 }, 0, 3],
      [1, 1_000, 'yes', 0, 3],
      [2, 1_500, { after: 1 }, 1_000, 2],
      [3, 1_500, 'yes', 500, 2],
    ],
  },
  {
    title: 'leaky-bucket with maxDelay: each request gets its own turn',
    policy: { algorithm: 'leaky-bucket', limit: 10, window: '1s', burst: 1, maxDelay: 250 },
    rows: [
      [0, 1, 'yes', 0, 100],
      [0, 1, { held: 100 }, 0, 200],
      [0, 1, { held: 200 }, 0, 300],
      [0, 1, { after: 50 }, 0, 300],
      [49, 1, { after: 1 }, 0, 251],
      [50, 1, { held: 250 }, 0, 350],
      [50, 2, 'never', 0, 350],
      [400, 1, 'yes', 0, 100],
    ],
  },
  {
    title: 'refunds: units that have drained cannot be given back',
    policy: { algorithm: 'token-bucket', limit: 10, window: '10s', burst: 5 },
    rows: [
      [0, 5, 'yes', 0, 5_000],
      [3_000, { settle: 0, to: 0 }],
      [3_000, { peek: 5 }, 'yes', 5, 0],
      [3_000, 2, 'yes', 3, 2_000],
      [3_000, 2, 'yes', 1, 4_000],
      [4_500, { settle: 1, to: 0 }],
      [4_500, { peek: 4 }, { after: 1_000 }, 3, 2_000],
    ],
  },
  {
    title: 'a debt of at most one window',
    policy: { algorithm: 'token-bucket', limit: 10, window: '10s', burst: 5 },
    rows: [
      [0, 1, 'yes', 4, 1_000],
      [0, { settle: 0, to: 1_000 }],
      [0, 1, { after: 10_000 }, 0, 14_000],
      [10_000, 1, 'yes', 0, 5_000],
    ],
  },
];
