import type { Vectors } from './vectors.js';

/** Segments of 1 s since the first request. A segment that began at t counts fully until t + 11 s. */
const policy = { algorithm: 'sliding-window', limit: 10, window: '10s' } as const;

export const slidingWindow: readonly Vectors[] = [
  {
    title: 'segments leave one by one, the oldest counted whole',
    policy,
    rows: [
      [0, { peek: 10 }, 'yes', 10, 0],
      [0, 4, 'yes', 6, 11_000],
      [999, 1, 'yes', 5, 10_001],
      [1_000, 5, 'yes', 0, 11_000],
      [1_500, 1, { after: 9_500 }, 0, 10_500],
      [5_000, 1, { after: 6_000 }, 0, 7_000],
      [5_000, 6, { after: 7_000 }, 0, 7_000],
      [5_000, 11, 'never', 0, 7_000],
      [10_999, 1, { after: 1 }, 0, 1_001],
      [11_000, 2, 'yes', 3, 11_000],
      [11_999, { peek: 4 }, { after: 1 }, 3, 10_001],
      [12_000, 4, 'yes', 4, 11_000],
      [40_000, 10, 'yes', 0, 11_000],
      [40_000, 'reset'],
      [40_000, { peek: 10 }, 'yes', 10, 0],
    ],
  },
  {
    title: 'no double burst at the edge',
    policy: { ...policy, limit: 100 },
    rows: [
      [0, 1, 'yes', 99, 11_000],
      [9_999, 99, 'yes', 0, 11_000 - 999],
      [10_000, 1, { after: 1_000 }, 0, 10_000],
      [11_000, 1, 'yes', 0, 11_000],
      [11_000, 1, { after: 9_000 }, 0, 11_000],
    ],
  },
  {
    title: 'one segment',
    policy: { ...policy, limit: 2, window: 1_000, segments: 1 },
    rows: [
      [0, 2, 'yes', 0, 2_000],
      [1_999, 1, { after: 1 }, 0, 1],
      [2_000, 1, 'yes', 1, 2_000],
      [3_000, 1, 'yes', 0, 2_000],
      [3_999, 1, { after: 1 }, 0, 1_001],
      [4_000, 1, 'yes', 0, 2_000],
    ],
  },
  {
    title: 'segments of whole milliseconds: rounded up, so that the window is never short',
    policy: { ...policy, limit: 1, window: 7, segments: 3 },
    rows: [
      [0, 1, 'yes', 0, 12],
      [11, 1, { after: 1 }, 0, 1],
      [12, 1, 'yes', 0, 12],
    ],
  },
  // Counters of 1, 2, 4 and 8 bytes, each with the largest debt that it must hold.
  ...[127, 128, 200, 32_767, 32_768, 50_000, 2 ** 31 - 1, 2 ** 31, 3e9].map((limit): Vectors => ({
    title: `a debt at limit ${limit}`,
    policy: { ...policy, limit },
    rows: [
      [0, 1, 'yes', limit - 1, 11_000],
      [0, { settle: 0, to: limit }],
      [0, 1, { after: 11_000 }, 0, 11_000],
      [1_000, { settle: 0, to: 3 * limit }],
      [10_999, 1, { after: 1_001 }, 0, 1_001],
      [12_000, limit, 'yes', 0, 11_000],
    ],
  })),
  {
    title: 'refunds go back to the segment that was charged',
    policy,
    rows: [
      [0, 4, 'yes', 6, 11_000],
      [1_000, 3, 'yes', 3, 11_000],
      [2_000, { settle: 0, to: 1 }],
      [2_000, { peek: 9 }, { after: 10_000 }, 6, 10_000],
      [2_000, { peek: 7 }, { after: 9_000 }, 6, 10_000],
      [2_000, { settle: 1, to: 0 }],
      [2_000, { peek: 10 }, { after: 9_000 }, 9, 9_000],
      [11_000, { settle: 0, to: 0 }],
      [11_000, { peek: 10 }, 'yes', 10, 0],
    ],
  },
  {
    title: 'refunds without a known charge take the oldest units, which free least',
    policy,
    rows: [
      [0, 4, 'yes', 6, 11_000],
      [1_000, 3, 'yes', 3, 11_000],
      [2_000, { refund: 5 }],
      [2_000, { peek: 9 }, { after: 10_000 }, 8, 10_000],
      [2_000, { refund: 99 }],
      [2_000, { peek: 10 }, 'yes', 10, 0],
    ],
  },
  {
    title: 'a debt of at most one more quota',
    policy,
    rows: [
      [0, 1, 'yes', 9, 11_000],
      [1_000, { settle: 0, to: 100 }],
      [1_000, 1, { after: 11_000 }, 0, 11_000],
      [12_000, 10, 'yes', 0, 11_000],
    ],
  },
];
