// Counterexamples that random traces have found, shrunk: each once told the stores apart.
import type { Trace } from 'headgate/testing';

const decide = (cost: number) => ({ do: 'decide', cost, peek: cost === 0 }) as const;
const giveBack = { do: 'adjust', units: -1, of: 0, marked: false } as const;

export const regressions: Readonly<Record<string, Trace>> = {
  'fixed-window: a refund after the window, and then the clock goes back': {
    tiers: [[{ algorithm: 'fixed-window', limit: 1, window: 1 }]],
    ban: undefined,
    steps: [
      [0, 0, 'a', decide(1)],
      [1, 0, 'a', giveBack],
      [-5_000, 0, 'a', decide(0)],
    ],
  },
  'tiers: what one tier sees as expired still counts for another, whatever other keys do meanwhile': {
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
};
