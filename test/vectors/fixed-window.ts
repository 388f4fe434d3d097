import type { Vectors } from './vectors.js';

const policy = { algorithm: 'fixed-window', limit: 3, window: '10s' } as const;

export const fixedWindow: readonly Vectors[] = [
  {
    title: 'the window starts at the first request and ends a window later',
    policy,
    rows: [
      [0, { peek: 3 }, 'yes', 3, 0],
      [0, 1, 'yes', 2, 10_000],
      [1_000, 1, 'yes', 1, 9_000],
      [2_000, 2, { after: 8_000 }, 1, 8_000],
      [2_000, 1, 'yes', 0, 8_000],
      [2_000, 0, 'yes', 0, 8_000],
      [9_999, 1, { after: 1 }, 0, 1],
      [9_999, { peek: 3 }, { after: 1 }, 0, 1],
      [10_000, { peek: 3 }, 'yes', 3, 0],
      [10_000, 3, 'yes', 0, 10_000],
      [10_000, 4, 'never', 0, 10_000],
      [25_000, 1, 'yes', 2, 10_000],
      [25_000, 'reset'],
      [25_000, { peek: 1 }, 'yes', 3, 0],
    ],
  },
  {
    title: 'its worst case: twice the limit across the edge',
    policy: { ...policy, limit: 100 },
    rows: [
      [0, 1, 'yes', 99, 10_000],
      [9_999, 99, 'yes', 0, 1],
      [10_000, 100, 'yes', 0, 10_000],
    ],
  },
  {
    title: 'refunds: never more than was charged, and nothing of an expired window',
    policy,
    rows: [
      [0, 2, 'yes', 1, 10_000],
      [1_000, { refund: 1 }],
      [1_000, { peek: 1 }, 'yes', 2, 9_000],
      [1_000, { refund: 5 }],
      [1_000, { peek: 1 }, 'yes', 3, 0],
      [1_500, 3, 'yes', 0, 10_000],
      [11_500, 2, 'yes', 1, 10_000],
      [11_500, { settle: 1, to: 0 }],
      [11_500, { peek: 1 }, 'yes', 1, 10_000],
      [11_500, { settle: 2, to: 1 }],
      [11_500, { peek: 1 }, 'yes', 2, 10_000],
    ],
  },
  {
    title: 'more than a million units',
    policy: { ...policy, limit: 2 ** 20 + 2 },
    rows: [
      [0, 1, 'yes', 2 ** 20 + 1, 10_000],
      [0, 1, 'yes', 2 ** 20, 10_000],
      [0, 1, 'yes', 2 ** 20 - 1, 10_000],
      [0, 2 ** 20 - 1, 'yes', 0, 10_000],
    ],
  },
  {
    title: 'a window of more than a hundred days',
    policy: { ...policy, window: '200d' },
    rows: [
      [0, 1, 'yes', 2, 17_280_000_000],
      [1, 1, 'yes', 1, 17_279_999_999],
      [2, 1, 'yes', 0, 17_279_999_998],
      [3, 1, { after: 17_279_999_997 }, 0, 17_279_999_997],
    ],
  },
  {
    title: 'a debt lasts until the window ends',
    policy,
    rows: [
      [0, 1, 'yes', 2, 10_000],
      [1_000, { settle: 0, to: 1_000 }],
      [1_000, 1, { after: 9_000 }, 0, 9_000],
      [10_000, 3, 'yes', 0, 10_000],
    ],
  },
];
