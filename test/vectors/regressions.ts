// Counterexamples that random traces have found, shrunk. Each of them once made the stores decide differently.
import type { Trace } from 'headgate-testing';

const decide = (cost: number) => ({ do: 'decide', cost, peek: cost === 0 }) as const;
const giveBack = { do: 'adjust', units: -1, of: 0, marked: false } as const;

const DAY = 86_400_000;
const MILLION = 2 ** 20;

/** The steps of a long state: forms of a value change, segments pass, the clock goes back. */
const longSteps = (window: number, ...costs: readonly number[]): Trace['steps'] => [
  ...costs.map((cost) => [0, 1, 'a', decide(cost)] as const),
  [1_000, 0, 'a', decide(1)],
  [1_000, 1, 'a', decide(1)],
  [0, 1, 'a', giveBack],
  [3_000, 1, 'a', decide(300)],
  [-2_500, 1, 'a', decide(2)],
  [0, 0, 'a', decide(0)],
  [9_000, 1, 'a', decide(70_000)],
  [0, 0, 'a', decide(1)],
  [1_500, 1, 'a', decide(3 * MILLION)],
  [window / 5, 1, 'a', decide(1)],
  [0, 0, 'a', decide(1)],
  [window / 1.6, 1, 'a', decide(1)],
  [window / 2, 1, 'a', decide(2)],
  [window / 2.5, 0, 'a', decide(2)],
];

export const regressions: Readonly<Record<string, Trace>> = {
  'sliding-window: units that have left the window are given back, and then the clock goes back': {
    tiers: [[{ name: 'p0', algorithm: 'sliding-window', limit: 1000, window: 60_000 }]],
    ban: undefined,
    steps: [
      [50, 0, 'a', decide(5)],
      [32_000, 0, 'a', decide(200)],
      [2_000, 0, 'a', decide(2)],
      [2_000, 0, 'a', decide(200)],
      [30_000, 0, 'a', { do: 'adjust', units: -1, of: 20, marked: true }],
      [-5_000, 0, 'a', decide(0)],
    ],
  },
  'leaky-bucket: one of two policies denies a charge of the other, and then the clock goes back': {
    tiers: [
      [
        { name: 'p0', algorithm: 'leaky-bucket', limit: 3, window: 7, burst: 20 },
        { name: 'p1', algorithm: 'leaky-bucket', limit: 1, window: 1000, maxDelay: 5000 },
      ],
    ],
    ban: undefined,
    steps: [
      [500, 0, 'a', decide(1)],
      [500, 0, 'a', decide(2)],
      [-5_000, 0, 'a', { do: 'lease', action: 'release', of: 33 }],
      [0, 0, 'a', decide(0)],
    ],
  },
  ...Object.fromEntries(
    (['fixed-window', 'sliding-window'] as const).flatMap((algorithm) =>
      [10_000, 30 * DAY].map((window): [string, Trace] => [
        `${algorithm}: small and large limits share the count of a window of ${window} ms`,
        {
          tiers: [[{ algorithm, limit: 400, window }], [{ algorithm, limit: 4 * MILLION, window }]],
          ban: undefined,
          steps: longSteps(window, 1, 253, 1, 1, 2, 65_300),
        },
      ]),
    ),
  ),
  'fixed-window: a window that has ended two weeks ago, by a clock that runs ahead of the server': {
    tiers: [[{ algorithm: 'fixed-window', limit: 1, window: 1_000 }]],
    ban: undefined,
    steps: [
      [0, 0, 'a', decide(1)],
      [14 * DAY, 0, 'a', decide(0)],
      [0, 0, 'a', decide(1)],
    ],
  },
  'fixed-window: a long window that has ended a month ago, by a clock that runs ahead of the server': {
    tiers: [[{ algorithm: 'fixed-window', limit: 3, window: 12 * DAY }]],
    ban: undefined,
    steps: [
      [0, 0, 'a', decide(3)],
      [30 * DAY, 0, 'a', decide(0)],
      [0, 0, 'a', decide(1)],
      [0, 0, 'a', decide(1)],
      [30 * DAY, 0, 'a', giveBack],
      [0, 0, 'a', decide(3)],
    ],
  },
  'calendar: a denial and a refund after the period, and then the clock goes back': {
    tiers: [[{ algorithm: 'calendar', limit: 3, period: 'hour' }]],
    ban: undefined,
    steps: [
      [0, 0, 'a', decide(2)],
      [DAY, 0, 'a', decide(4)],
      [0, 0, 'a', giveBack],
      [-DAY, 0, 'a', decide(0)],
      [0, 0, 'a', decide(2)],
    ],
  },
  'fixed-window: a refund after the window, and then the clock goes back': {
    tiers: [[{ algorithm: 'fixed-window', limit: 1, window: 1 }]],
    ban: undefined,
    steps: [
      [0, 0, 'a', decide(1)],
      [1, 0, 'a', giveBack],
      [-5_000, 0, 'a', decide(0)],
    ],
  },
  'tiers: units that one tier sees as expired still count for another, whatever other keys do meanwhile': {
    tiers: [
      [{ algorithm: 'sliding-log', limit: 1, window: 1 }],
      [{ algorithm: 'sliding-log', limit: 3, window: 60_000 }],
    ],
    ban: undefined,
    steps: [
      [0, 0, 'a', decide(1)],
      [0, 1, 'a', decide(5)],
      [500, 0, 'a', giveBack],
      [0, 0, 'b', decide(1)],
      [0, 1, 'a', decide(0)],
    ],
  },
  'sliding-window: the window is changed while the oldest segment is partly expired': {
    tiers: [[{ limit: 10, window: 10_000 }], [{ limit: 10, window: 20_000 }]],
    ban: undefined,
    steps: [
      [0, 0, 'a', decide(1)],
      [10_000, 0, 'a', decide(1)],
      [500, 1, 'a', decide(0)],
      [0, 1, 'a', decide(8)],
    ],
  },
  'request ids: the record of a returned charge ends with its time, so that a later attempt can be changed': {
    tiers: [
      [
        { name: 'p0', algorithm: 'calendar', limit: 1, period: 'day' },
        { name: 'p1', algorithm: 'calendar', limit: 9, period: 'day', count: 'attempts' },
      ],
    ],
    ban: undefined,
    steps: [
      [0, 0, 'a', { ...decide(1), id: 1 }],
      [0, 0, 'a', { do: 'adjust', units: -100, of: 0, marked: true }],
      [30_000, 0, 'a', { ...decide(2), id: 1 }],
      [29_999, 0, 'a', { do: 'adjust', units: 5, of: 1, marked: true }],
      [1, 0, 'a', { do: 'adjust', units: 5, of: 1, marked: true }],
    ],
  },
};
