import type { Algorithm, Policy } from '../contract/policy.js';
import type { Random } from './random.js';

/** What the laws promise of an algorithm: published facts, written down without looking at how it decides. */
interface Facts {
  /** The fields beside `algorithm` and `limit`, at random. */
  readonly fields: (random: Random, window: number, maxDelays: readonly number[]) => Record<string, unknown>;
  /** The most units that are admitted in any window of the policy's length. */
  readonly bound: (policy: Policy) => number;
  /** How a charge leaves: one after the other, at its own time, with its window, or when it is given back. */
  readonly leaves: 'in turn' | 'singly' | 'by window' | 'released';
}

const maybe = (random: Random, name: string, values: readonly number[]) =>
  random.once(2) ? { [name]: random.pick(values) } : {};
const BURSTS = [1, 2, 5, 20, 300];

const bucket: Facts = {
  fields: (random, window) => ({ window, ...maybe(random, 'burst', BURSTS) }),
  bound: (policy) => capacityOf(policy) + policy.limit,
  leaves: 'in turn',
};

const FACTS: Readonly<Record<Algorithm, Facts>> = {
  'fixed-window': {
    fields: (_random, window) => ({ window }),
    bound: ({ limit }) => 2 * limit,
    leaves: 'by window',
  },
  'sliding-window': {
    fields: (random, window) => ({ window, ...maybe(random, 'segments', [1, 2, 3, 10, 60]) }),
    bound: ({ limit }) => limit,
    leaves: 'singly',
  },
  'sliding-log': {
    fields: (_random, window) => ({ window }),
    bound: ({ limit }) => limit,
    leaves: 'singly',
  },
  'token-bucket': bucket,
  'leaky-bucket': {
    ...bucket,
    fields: (random, window, maxDelays) => ({
      ...bucket.fields(random, window, maxDelays),
      ...maybe(random, 'maxDelay', maxDelays),
    }),
  },
  gcra: bucket,
  calendar: {
    fields: (random) => ({
      period: random.pick(['hour', 'day', 'week', 'month', 'year']),
      ...(random.once(2)
        ? { timeZone: random.pick(['Europe/Berlin', 'Asia/Kathmandu', 'Pacific/Apia']) }
        : {}),
    }),
    bound: ({ limit }) => 2 * limit,
    leaves: 'by window',
  },
  concurrency: {
    fields: (_random, lease) => ({ lease }),
    bound: ({ limit }) => limit,
    leaves: 'released',
  },
};

/** Every algorithm. */
export const ALGORITHMS = Object.keys(FACTS) as readonly Algorithm[];

const factsOf = ({ algorithm = 'sliding-window' }: Policy): Facts => FACTS[algorithm];

/** What random policies are made of. */
export interface Ranges {
  readonly limits?: readonly number[];
  /** Of windows and leases, ms. */
  readonly windows?: readonly number[];
  readonly maxDelays?: readonly number[];
}

/** A policy of one algorithm, with rates that divide and rates that don't. */
export function randomPolicy(random: Random, algorithm: Algorithm, ranges: Ranges = {}): Policy {
  const {
    limits = [1, 2, 3, 5, 7, 10, 100],
    windows = [1, 7, 1_000, 1_500, 60_000, 3_600_000],
    maxDelays = [0, 100, 5_000],
  } = ranges;
  const fields = FACTS[algorithm].fields(random, random.pick(windows), maxDelays);
  return { algorithm, limit: random.pick(limits), ...fields } as unknown as Policy;
}

/** A plain policy of one algorithm. */
export function plainPolicy(algorithm: Algorithm, limit: number, window: number): Policy {
  const span = isHeld({ algorithm } as Policy) ? { lease: window } : { window };
  return { algorithm, limit, ...(algorithm === 'calendar' ? { period: 'year' } : span) } as unknown as Policy;
}

const HOUR = 3_600_000;

/** How long a period is at least: with a change of summer time, in February, in no leap year. */
const SHORTEST = {
  hour: HOUR,
  day: 23 * HOUR,
  week: 167 * HOUR,
  month: (28 * 24 - 1) * HOUR,
  year: (365 * 24 - 1) * HOUR,
};
const LONGEST = {
  hour: HOUR,
  day: 25 * HOUR,
  week: 169 * HOUR,
  month: (31 * 24 + 1) * HOUR,
  year: (366 * 24 + 1) * HOUR,
};

/** A policy's window, or its lease, or how long its period is at least, ms. */
export function windowOf(policy: Policy): number {
  if ('period' in policy) return SHORTEST[policy.period];
  return Number('lease' in policy ? policy.lease : policy.window);
}

/** What can be spent at once. */
export function capacityOf(policy: Policy): number {
  return ('burst' in policy ? policy.burst : undefined) ?? policy.limit;
}

/**
 * How much longer than its window a policy may hold a unit, ms: the sliding window's oldest segment counts whole, and periods of the
 * calendar are not all as short as the shortest.
 */
export function overhangOf(policy: Policy): number {
  if ('period' in policy) return LONGEST[policy.period] - SHORTEST[policy.period];
  if ((policy.algorithm ?? 'sliding-window') !== 'sliding-window') return 0;
  const { segments = 10 } = policy as { segments?: number };
  const segment = Math.ceil(windowOf(policy) / segments);
  return segment + (Math.ceil(windowOf(policy) / segment) * segment - windowOf(policy));
}

/** The published worst case: units admitted in any window of the policy's length. */
export function boundOf(policy: Policy): number {
  return factsOf(policy).bound(policy);
}

/** Whether units are held until they are released. */
export function isHeld(policy: Policy): boolean {
  return factsOf(policy).leaves === 'released';
}

/** Whether charges leave one after the other, so that giving one back moves those behind it. */
export function drains(policy: Policy): boolean {
  return factsOf(policy).leaves === 'in turn';
}

/** Whether policies that differ in their limit alone share one count. */
export function sharesCount(policy: Policy): boolean {
  const { leaves } = factsOf(policy);
  return leaves === 'singly' || leaves === 'by window';
}
