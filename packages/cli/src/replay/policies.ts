import { createLimiter, type Algorithm, type Limiter, type Policy } from 'headgate';
import type { CompiledPolicy } from 'headgate/stores';

const DEFAULT_ALGORITHM: Algorithm = 'sliding-window';

/** The number that can be found for a policy of each algorithm: its limit, or the burst for a rate. */
const FOUND: Readonly<Record<Algorithm, 'limit' | 'burst' | undefined>> = {
  'sliding-window': 'limit',
  'fixed-window': 'limit',
  'sliding-log': 'limit',
  'token-bucket': 'burst',
  'leaky-bucket': 'burst',
  gcra: 'burst',
  // A log rarely covers several periods.
  calendar: undefined,
  // A log lacks the duration of each request.
  concurrency: undefined,
};

type Windowed = Extract<Policy, { window: unknown }>;

export type MeasuredAlgorithm = NonNullable<Windowed['algorithm']>;
export const MEASURED = (Object.keys(FOUND) as Algorithm[]).filter(
  (name): name is MeasuredAlgorithm => FOUND[name] !== undefined,
);

export const isBucket = (algorithm: Algorithm = DEFAULT_ALGORITHM): boolean => FOUND[algorithm] === 'burst';

/** Whether units are slots, which are held until they are released. */
export const countsSlots = ({ algorithm }: Policy): boolean => algorithm === 'concurrency';

let compiler: Limiter | undefined;

/** A policy with all its numbers. @throws HeadgateError as `createLimiter` */
export function compiled(policy: Policy): CompiledPolicy {
  compiler ??= createLimiter({ limit: 1, window: '1s', warnings: false });
  return compiler.compile([policy]).policies[0]!;
}
