import type { Row, Vectors } from './vectors.js';

const policy = { algorithm: 'sliding-log', limit: 3, window: '1s' } as const;

/**
 * A tenth of the limit every tenth of the window, for 40 windows, so that the sum of units passes 2^24 twice. Each charge gives back a unit
 * after two tenths and another after eight, so that runs in both halves of the ring change.
 */
const manyUnits: readonly Row[] = Array.from({ length: 400 }, (_, i): readonly Row[] => {
  const [at, age] = [100 * i, Math.min(i, 9)];
  const remaining = 1_000_000 - 100_000 * (age + 1) + Math.max(0, age - 2) + (age === 9 ? 1 : 0);
  return [
    [at, 100_000, 'yes', remaining, 1_000],
    ...(i >= 2 ? [[at, { settle: i - 2, to: 99_999 }] as const] : []),
    ...(i >= 8 ? [[at, { settle: i - 8, to: 99_998 }] as const] : []),
    // The oldest charge has 99,998 units left, and leaves first.
    ...(i >= 9 ? [[at, { peek: 100_008 }, { after: 100 }, 10, 1_000] as const] : []),
    ...(i >= 9 ? [[at, { peek: 100_009 }, { after: 200 }, 10, 1_000] as const] : []),
  ];
}).flat();

/** The same charges. Half of the oldest charge is refunded by hand before the charge is given back, so only the second half is left to return. */
const halves: readonly Row[] = Array.from({ length: 400 }, (_, i): readonly Row[] => {
  const at = 100 * i;
  return [
    [at, 100_000, 'yes', 900_000 - 100_000 * Math.min(i, 9), 1_000],
    ...(i >= 9 ? [[at, { refund: 50_000 }] as const, [at, { settle: i - 9, to: 0 }] as const] : []),
    ...(i >= 9 ? [[at, { peek: 1 }, 'yes', 100_000, 1_000] as const] : []),
  ];
}).flat();

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
    title:
      'a charge gives back its own units, a refund by hand the oldest, and nothing of units that have left',
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
  {
    title: 'sums of units run over, and their differences stay right',
    policy: { ...policy, limit: 1_000_000 },
    rows: manyUnits,
  },
  {
    title: 'a charge whose units were refunded gives back the others, where sums run over, too',
    policy: { ...policy, limit: 1_000_000 },
    rows: halves,
  },
  {
    title: 'a debt has an end, and is given back whole',
    policy,
    rows: [
      [0, 1, 'yes', 2, 1_000],
      [0, { settle: 0, to: 20_000_000 }],
      [0, 1, { after: 1_000 }, 0, 1_000],
      [0, { settle: 0, to: 2 }],
      [0, 1, 'yes', 0, 1_000],
      [1_000, 3, 'yes', 0, 1_000],
    ],
  },
];
