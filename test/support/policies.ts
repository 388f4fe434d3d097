// Random policies, and what the laws promise of each algorithm.
import fc from 'fast-check';
import type { Algorithm, Policy } from 'headgate';

export const algorithms: readonly Algorithm[] = [
  'fixed-window',
  'sliding-window',
  'sliding-log',
  'token-bucket',
  'leaky-bucket',
  'gcra',
  'concurrency',
];

interface Ranges {
  readonly limits?: readonly number[];
  readonly windows?: readonly number[];
  readonly maxDelays?: readonly number[];
}

/** A policy of one algorithm; rates that divide and rates that don't. */
export function policyOf(algorithm: Algorithm, ranges: Ranges = {}): fc.Arbitrary<Policy> {
  const limit = fc.constantFrom(...(ranges.limits ?? [1, 2, 3, 5, 7, 10, 100]));
  const window = fc.constantFrom(...(ranges.windows ?? [1, 7, 1_000, 1_500, 60_000, 3_600_000]));
  const optional = <T>(values: readonly T[]) => fc.option(fc.constantFrom(...values), { nil: undefined });
  const fields: Record<Algorithm, Record<string, fc.Arbitrary<unknown>>> = {
    'fixed-window': { window },
    'sliding-window': { window, segments: optional([1, 2, 3, 10, 60]) },
    'sliding-log': { window },
    'token-bucket': { window, burst: optional([1, 2, 5, 20, 300]) },
    'leaky-bucket': {
      window,
      burst: optional([1, 2, 5, 20, 300]),
      maxDelay: optional(ranges.maxDelays ?? [0, 100, 5_000]),
    },
    gcra: { window, burst: optional([1, 2, 5, 20, 300]) },
    concurrency: { lease: window },
  };
  return fc
    .record({ algorithm: fc.constant(algorithm), limit, ...fields[algorithm] })
    .map((policy) => Object.fromEntries(Object.entries(policy).filter(([, value]) => value !== undefined)))
    .map((policy) => policy as unknown as Policy);
}

/** The policy's window, or its lease, ms. */
export const windowOf = (policy: Policy): number => Number('lease' in policy ? policy.lease : policy.window);

/** What can be spent at once. */
export const burstOf = (policy: Policy): number =>
  ('burst' in policy ? policy.burst : undefined) ?? policy.limit;

/** How much longer than its window a policy may hold a unit: the sliding window's oldest segment counts whole. */
export function overhangOf(policy: Policy): number {
  if (policy.algorithm !== 'sliding-window') return 0;
  const segment = Math.ceil(windowOf(policy) / (policy.segments ?? 10));
  return segment + (Math.ceil(windowOf(policy) / segment) * segment - windowOf(policy));
}

/** The published worst case: units admitted in any window of the policy's length. */
export function boundOf(policy: Policy): number {
  switch (policy.algorithm ?? 'sliding-window') {
    case 'fixed-window':
      return 2 * policy.limit;
    case 'token-bucket':
    case 'leaky-bucket':
    case 'gcra':
      return burstOf(policy) + policy.limit;
    case 'sliding-window':
    case 'sliding-log':
    case 'concurrency':
      return policy.limit;
  }
}
