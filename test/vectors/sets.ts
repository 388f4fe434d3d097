import type { SetVectors } from './vectors.js';

const burst = { name: 'burst', algorithm: 'token-bucket', limit: 2, window: '1s', burst: 4 } as const;
const hour = { name: 'hour', algorithm: 'sliding-window', limit: 6, window: '1h' } as const;

export const sets: readonly SetVectors[] = [
  {
    title: 'several policies: all charge, or none does',
    policies: [burst, hour],
    rows: [
      [0, 4, true, undefined, 0, [0, 2]],
      [0, 1, false, 'quota-exceeded', 500, [0, 2]],
      [2_000, 3, false, 'quota-exceeded', 3_958_000, [4, 2]],
      [2_000, 2, true, undefined, 0, [2, 0]],
      [3_000, 5, false, 'cost-exceeds-capacity', undefined, [4, 0]],
      [3_000, 1, false, 'quota-exceeded', 3_957_000, [4, 0]],
      [3_960_000, 4, true, undefined, 0, [0, 2]],
    ],
  },
  {
    title: 'a shadow evaluates and reports, and never denies',
    policies: [{ ...burst, shadow: true }, hour],
    rows: [
      [0, 5, true, undefined, 0, [4, 1]],
      [0, 1, true, undefined, 0, [3, 0]],
      [0, 1, false, 'quota-exceeded', 3_960_000, [3, 0]],
    ],
  },
  {
    title: 'repeated denials ban, longer each time, until they are forgotten',
    policies: [{ algorithm: 'fixed-window', limit: 1, window: '1m' }],
    ban: { after: 2, within: '10m', for: '1h', factor: 2, max: '3h' },
    rows: [
      [0, 1, true, undefined, 0, [0]],
      [0, 1, false, 'quota-exceeded', 60_000, [0]],
      [0, 1, false, 'banned', 3_600_000, [0]],
      [3_599_999, 1, false, 'banned', 1, []],
      [3_600_000, 1, true, undefined, 0, [0]],
      [3_600_000, 1, false, 'quota-exceeded', 60_000, [0]],
      [3_600_000, 1, false, 'banned', 7_200_000, [0]],
      [10_800_000, 1, true, undefined, 0, [0]],
      [10_800_000, 1, false, 'quota-exceeded', 60_000, [0]],
      // That denial no longer counts ten minutes later.
      [11_400_000, 1, true, undefined, 0, [0]],
      [11_400_000, 1, false, 'quota-exceeded', 60_000, [0]],
      [11_400_000, 1, false, 'banned', 10_800_000, [0]],
      // The count of bans starts anew three hours after the last ban ended.
      [33_000_000, 1, true, undefined, 0, [0]],
      [33_000_000, 1, false, 'quota-exceeded', 60_000, [0]],
      [33_000_000, 1, false, 'banned', 3_600_000, [0]],
    ],
  },
  {
    title: 'a ban is forgotten on time, although denials are still counted',
    policies: [{ algorithm: 'fixed-window', limit: 1, window: '1m' }],
    ban: { after: 2, within: '10m', for: '1h', factor: 2, max: '3h' },
    rows: [
      [0, 1, true, undefined, 0, [0]],
      [0, 1, false, 'quota-exceeded', 60_000, [0]],
      [0, 1, false, 'banned', 3_600_000, [0]],
      [14_390_000, 1, true, undefined, 0, [0]],
      [14_390_000, 1, false, 'quota-exceeded', 60_000, [0]],
      [14_400_000, 1, false, 'banned', 3_600_000, [0]],
    ],
  },
];
