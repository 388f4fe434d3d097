// A drawn site in real time: its windows are shortened, and each limiter also counts in a ledger that never denies or expires.
import fc from 'fast-check';
import { sites, type DrawnLimiter } from '../draw.js';
import { coveringRows, type Row } from '../rows.js';
import type { Policy } from '../model/types.js';
import type { ProcessSite } from './task.js';

export const LEDGER: Policy = {
  ...{ name: 'ledger', algorithm: 'fixed-window', limit: 10_000, window: 2_592_000_000, by: 'key' },
  thresholds: [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064],
};

const LENGTHS: Readonly<Record<number, number>> = {
  ...{ 1200: 300, 6000: 600, 12_000: 900, 60_000: 1500, 600: 150 },
  ...{
    500: 100,
    1000: 200,
    3000: 300,
    10_000: 1000,
    30_000: 1200,
    600_000: 5000,
    86_400_000: 2400,
    172_800_000: 2400,
  },
};
const short = (ms: number) => LENGTHS[ms] ?? ms;

function shortPolicy(policy: Policy): Policy {
  const { window, maxDelay } = policy;
  return {
    ...policy,
    window: short(window),
    ...(maxDelay === undefined ? {} : { maxDelay: short(maxDelay) }),
  };
}

const setOf = (policies: readonly Policy[]) => [...policies.map(shortPolicy), LEDGER];

function inRealTime(drawn: DrawnLimiter): DrawnLimiter {
  const { policies, tiers, ban } = drawn;
  return {
    ...drawn,
    policies: setOf(policies),
    tiers: Object.fromEntries(Object.entries(tiers).map(([tier, set]) => [tier, setOf(set)])),
    ban: ban && {
      ...ban,
      ...{ within: short(ban.within), for: short(ban.for), max: short(ban.max) },
    },
    idsFor: 600_000,
  };
}

/** The rows of features. Requests have ids wherever they can, because a killed process leaves its ids to others. */
const rows = coveringRows().map((row): Row =>
  row.has('concurrency') ? row : new Set([...row, 'request ids']),
);

/** The site of a seed. */
export function siteOf(seed: number): ProcessSite {
  const any = fc.constantFrom(...rows).chain((row) => fc.record({ site: sites(row), resets: fc.nat(3) }));
  const { site, resets } = fc.sample(any, { seed, numRuns: 1 })[0]!;
  const limiters = site.limiters.map(inRealTime);
  return { limiters, resets: resets === 0 && limiters.every(({ hasIds }) => !hasIds) };
}
