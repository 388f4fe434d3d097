import type { Vectors } from './vectors.js';

const policy = { algorithm: 'sliding-log', limit: 3, window: '1s' } as const;

export const slidingLog: readonly Vectors[] = [
  {
    title: 'each unit leaves exactly one window after it was admitted',
    policy,
    rows: [
      [0, { peek: 3 }, 'yes', 3, 0],
      [0, 1, 'yes', 2, 1_000],
      [400, 2, 'yes', 0, 1_000],
      [999, 1, { after: 1 }, 0, 401],
      [999, 2, { after: 401 }, 0, 401],
      [999, 3, { after: 401 }, 0, 401],
      [999, 4, 'never', 0, 401],
      [1_000, { peek: 1 }, 'yes', 1, 400],
      [1_000, 1, 'yes', 0, 1_000],
      [1_399, 1, { after: 1 }, 0, 601],
      [1_400, 2, 'yes', 0, 1_000],
      [5_000, 3, 'yes', 0, 1_000],
      [5_000, 'reset'],
      [5_000, 3, 'yes', 0, 1_000],
    ],
  },
  {
    title: 'around the ring, many times',
    policy: { ...policy, limit: 2 },
    rows: [
      [0, 1, 'yes', 1, 1_000],
      [600, 1, 'yes', 0, 1_000],
      [1_000, 1, 'yes', 0, 1_000],
      [1_600, 1, 'yes', 0, 1_000],
      [1_999, 1, { after: 1 }, 0, 601],
      [2_000, 1, 'yes', 0, 1_000],
      [2_000, 2, { after: 1_000 }, 0, 1_000],
      [2_600, 1, 'yes', 0, 1_000],
      [3_600, 2, 'yes', 0, 1_000],
    ],
  },
  {
    title: 'a charge gives back its own units, a refund by hand the oldest, and nothing of what has left',
    policy,
    rows: [
      [0, 2, 'yes', 1, 1_000],
      [500, 1, 'yes', 0, 1_000],
      [600, { settle: 1, to: 0 }],
      [600, 2, { after: 400 }, 1, 400],
      [1_000, { settle: 0, to: 0 }],
      [1_000, { peek: 3 }, 'yes', 3, 0],
      [1_100, 1, 'yes', 2, 1_000],
      [1_200, 2, 'yes', 0, 1_000],
      [1_300, { refund: 2 }],
      [1_300, { peek: 3 }, { after: 900 }, 2, 900],
      [1_300, { refund: 9 }],
      [1_300, { peek: 3 }, 'yes', 3, 0],
    ],
  },
  {
    title: 'a debt fills the log: one window, then all is forgiven',
    policy,
    rows: [
      [0, 1, 'yes', 2, 1_000],
      [500, { settle: 0, to: 100 }],
      [500, 1, { after: 1_000 }, 0, 1_000],
      [1_500, 3, 'yes', 0, 1_000],
    ],
  },
];
