import type { Vectors } from './vectors.js';

const policy = { algorithm: 'concurrency', limit: 2, lease: '30s' } as const;

export const concurrency: readonly Vectors[] = [
  {
    title: 'a slot is held until it is released, once',
    policy,
    rows: [
      [0, { peek: 2 }, 'yes', 2, 0],
      [0, 1, 'yes', 1, 30_000],
      [10_000, 1, 'yes', 0, 30_000],
      [10_000, 1, { after: 20_000 }, 0, 30_000],
      [10_000, 2, { after: 30_000 }, 0, 30_000],
      [10_000, 3, 'never', 0, 30_000],
      [12_000, { release: 1, held: true }],
      [12_000, { release: 1, held: false }],
      [12_000, { peek: 1 }, 'yes', 1, 18_000],
      [12_000, { release: 0, held: true }],
      [12_000, { peek: 2 }, 'yes', 2, 0],
    ],
  },
  {
    title: 'a crash frees the slot at the end of its lease',
    policy,
    rows: [
      [0, 2, 'yes', 0, 30_000],
      [29_999, 1, { after: 1 }, 0, 1],
      [30_000, 1, 'yes', 1, 30_000],
      [30_000, { release: 0, held: false }],
      [30_000, { peek: 2 }, { after: 30_000 }, 1, 30_000],
    ],
  },
  {
    title: 'a renewed lease lasts as long again',
    policy,
    rows: [
      [0, 1, 'yes', 1, 30_000],
      [0, 1, 'yes', 0, 30_000],
      [20_000, { renew: 0, held: true }],
      [20_000, 1, { after: 10_000 }, 0, 30_000],
      [30_000, 1, 'yes', 0, 30_000],
      [30_000, { renew: 1, held: false }],
      [49_999, 1, { after: 1 }, 0, 10_001],
      [50_000, { renew: 0, held: false }],
      [50_000, { peek: 2 }, { after: 10_000 }, 1, 10_000],
      [50_000, 'reset'],
      [50_000, { release: 2, held: false }],
      [50_000, { peek: 2 }, 'yes', 2, 0],
    ],
  },
  {
    title: 'a lease of several units is renewed and released whole',
    policy,
    rows: [
      [0, 2, 'yes', 0, 30_000],
      [20_000, { renew: 0, held: true }],
      [30_000, { peek: 1 }, { after: 20_000 }, 0, 20_000],
      [30_000, { release: 0, held: true }],
      [30_000, { peek: 2 }, 'yes', 2, 0],
    ],
  },
  {
    title: 'units are given back by their lease, not by a refund',
    policy,
    rows: [
      [0, 2, 'yes', 0, 30_000],
      [1_000, { refund: 2 }],
      [1_000, { settle: 0, to: 0 }],
      [1_000, { peek: 1 }, { after: 29_000 }, 0, 29_000],
    ],
  },
];
