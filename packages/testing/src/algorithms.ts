import fc from 'fast-check';
import type { Algorithm, Policy } from 'headgate';
import { TestClock } from 'headgate/testing';
import { pick, some } from './random.js';

/** The facts that the laws check for an algorithm: published, and independent of the implementation. */
interface Facts {
  readonly fields: (ranges: Required<Ranges>) => fc.Arbitrary<object>;
  /**
   * The required fields. A window whose end depends on the time of day lasts a year here, so that no window ends during a check.
   * @default window
   */
  readonly plain?: (window: number) => Record<string, unknown>;
  /** The most units that are admitted in any window of the policy's length. */
  readonly bound: (policy: Policy) => number;
  /** The way in which charges end: in turn, singly, with the window, or by release. */
  readonly leaves: 'in turn' | 'singly' | 'by window' | 'released';
  /**
   * The remaining units of a plain policy of 6 a minute at 15, 30, 59.999, 66, 74.999 and 81 s, after 4 units were charged at 0 s, and the
   * rest at 15 s.
   */
  readonly remaining: readonly number[];
  /** The units that the bursts of law 1 get from a plain policy at limit 100, if that is certain. */
  readonly reached?: number;
  /** The longest time for which a policy may hold a unit beyond the unit's window, ms. @default none */
  readonly overhang?: (policy: Policy) => number;
}

/** A window, and other fields in half of the cases each. */
const windowAnd = ({ windows }: Required<Ranges>, others: Record<string, fc.Arbitrary<number>> = {}) =>
  fc.tuple(pick(windows), some(others)).map(([window, more]) => ({ window, ...more }));
const burst = pick([1, 2, 5, 20, 300]);

const PERIODS = [
  ...['hour', 'day', 'week', 'month', 'year'].map((period) => ({ period })),
  { period: 'week', anchor: 'thursday' },
  { period: 'month', anchor: 31 },
  { period: 'year', anchor: '04-06' },
];

const ZONES = ['Europe/Berlin', 'Asia/Kathmandu', 'Pacific/Apia'];

const bucket: Facts = {
  fields: (ranges) => windowAnd(ranges, { burst }),
  bound: (policy) => capacityOf(policy) + policy.limit,
  leaves: 'in turn',
  remaining: [0, 2, 4, 5, 6, 6],
};

const FACTS: Readonly<Record<Algorithm, Facts>> = {
  'fixed-window': {
    fields: (ranges) => windowAnd(ranges),
    bound: ({ limit }) => 2 * limit,
    leaves: 'by window',
    remaining: [0, 0, 0, 6, 6, 6],
    reached: 199,
  },
  'sliding-window': {
    fields: (ranges) => windowAnd(ranges, { segments: pick([1, 2, 3, 10, 60]) }),
    bound: ({ limit }) => limit,
    leaves: 'singly',
    remaining: [0, 0, 0, 4, 4, 6],
    reached: 100,
    // The oldest segment counts in full.
    overhang: (policy) => {
      const { segments = 10 } = policy as { segments?: number };
      const window = windowOf(policy);
      const segment = Math.ceil(window / segments);
      return segment + (Math.ceil(window / segment) * segment - window);
    },
  },
  'sliding-log': {
    fields: (ranges) => windowAnd(ranges),
    bound: ({ limit }) => limit,
    leaves: 'singly',
    remaining: [0, 0, 0, 4, 4, 6],
    reached: 100,
  },
  'token-bucket': { ...bucket, reached: 199 },
  'leaky-bucket': {
    ...bucket,
    fields: (ranges) => windowAnd(ranges, { burst, maxDelay: pick(ranges.maxDelays) }),
  },
  gcra: bucket,
  calendar: {
    fields: () =>
      fc
        .tuple(pick(PERIODS), some({ timeZone: pick(ZONES) }))
        .map(([period, zone]) => ({ ...period, ...zone })),
    plain: () => ({ period: 'year' }),
    bound: ({ limit }) => 2 * limit,
    leaves: 'by window',
    remaining: [0, 0, 0, 0, 0, 0],
    // Some periods are longer than the shortest one.
    overhang: (policy) =>
      'period' in policy ? MAX_PERIOD_MS[policy.period] - MIN_PERIOD_MS[policy.period] : 0,
  },
  concurrency: {
    fields: ({ windows }) => fc.record({ lease: pick(windows) }),
    plain: (lease) => ({ lease }),
    bound: ({ limit }) => limit,
    leaves: 'released',
    remaining: [0, 0, 0, 4, 4, 6],
  },
};

export const ALGORITHMS = Object.keys(FACTS) as readonly Algorithm[];

const factsOf = ({ algorithm = 'sliding-window' }: Policy): Facts => FACTS[algorithm];

/** The values that random policies are made from. */
export interface Ranges {
  readonly limits?: readonly number[];
  /** The lengths of windows and leases, ms. */
  readonly windows?: readonly number[];
  readonly maxDelays?: readonly number[];
}

/** Some rates divide evenly, others do not. */
const RANGES: Required<Ranges> = {
  limits: [1, 2, 3, 5, 7, 10, 100],
  windows: [1, 7, 1_000, 1_500, 60_000, 3_600_000],
  maxDelays: [0, 100, 5_000],
};

export function policyOf(
  algorithms: Algorithm | readonly Algorithm[],
  ranges: Ranges = {},
): fc.Arbitrary<Policy> {
  const all = { ...RANGES, ...ranges };
  const of = (algorithm: Algorithm) =>
    fc
      .tuple(pick(all.limits), FACTS[algorithm].fields(all))
      .map(([limit, fields]) => ({ algorithm, limit, ...fields }) as Policy);
  return fc.oneof(...[algorithms].flat().map(of));
}

/** Policies with a name each: `p0`, `p1`, ... */
export const named = (policies: fc.Arbitrary<readonly Policy[]>): fc.Arbitrary<Policy[]> =>
  policies.map((each) => each.map((policy, i) => ({ ...policy, name: `p${i}` })));

export function plainPolicy(algorithm: Algorithm, limit = 3, window = 60_000): Policy {
  return { algorithm, limit, ...(FACTS[algorithm].plain?.(window) ?? { window }) } as unknown as Policy;
}

const HOUR = 3_600_000;

/** The shortest length of each period: with a change to summer time, in February, in a common year. */
const MIN_PERIOD_MS = {
  hour: HOUR,
  day: 23 * HOUR,
  week: 167 * HOUR,
  month: (28 * 24 - 1) * HOUR,
  year: (365 * 24 - 1) * HOUR,
};
const MAX_PERIOD_MS = {
  hour: HOUR,
  day: 25 * HOUR,
  week: 169 * HOUR,
  month: (31 * 24 + 1) * HOUR,
  year: (366 * 24 + 1) * HOUR,
};

/** A policy's window, its lease, or the shortest length of its period, ms. */
export function windowOf(policy: Policy): number {
  if ('period' in policy) return MIN_PERIOD_MS[policy.period];
  const clock = new TestClock(0);
  clock.advance('lease' in policy ? policy.lease : policy.window);
  return clock.now;
}

/** The most units that can be spent at once. */
export function capacityOf(policy: Policy): number {
  return ('burst' in policy ? policy.burst : undefined) ?? policy.limit;
}

/** The most time beyond its window for which a policy may hold a unit, ms. */
export function overhangOf(policy: Policy): number {
  return factsOf(policy).overhang?.(policy) ?? 0;
}

/** The published worst case: units admitted in any window of the policy's length. */
export function boundOf(policy: Policy): number {
  return factsOf(policy).bound(policy);
}

/** Whether units are slots, which are held until they are released. */
export function countsSlots(policy: Policy): boolean {
  return factsOf(policy).leaves === 'released';
}

/** Whether charges drain in turn, so that a refund moves the later charges forward. */
export function drains(policy: Policy): boolean {
  return factsOf(policy).leaves === 'in turn';
}

/** Whether policies with equal fields except the limit share a count. */
export function sharesCount(policy: Policy): boolean {
  const { leaves } = factsOf(policy);
  return leaves === 'singly' || leaves === 'by window';
}

/** The remaining units of a plain policy of 6 a minute: see `Facts`. */
export function remainingOf(algorithm: Algorithm): readonly number[] {
  return FACTS[algorithm].remaining;
}

/** The units that bursts at the worst times get from a plain policy at limit 100, if that is certain. */
export function reachedBy(algorithm: Algorithm): number | undefined {
  return FACTS[algorithm].reached;
}
