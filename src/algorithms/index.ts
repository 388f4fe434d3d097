import type { AlgorithmDefinition } from './algorithm.js';
import { calendar, type CalendarPolicy } from './calendar.js';
import { concurrency, type ConcurrencyPolicy } from './concurrency.js';
import { fixedWindow, type FixedWindowPolicy } from './fixed-window.js';
import { gcra, type LeakyBucketPolicy, type TokenBucketPolicy } from './gcra.js';
import { slidingLog, type SlidingLogPolicy } from './sliding-log.js';
import { slidingWindow, type SlidingWindowPolicy } from './sliding-window.js';

export { Column, SlotColumn, type Params, type Saved, type Traits } from './algorithm.js';
export type {
  CalendarPolicy,
  ConcurrencyPolicy,
  FixedWindowPolicy,
  LeakyBucketPolicy,
  SlidingLogPolicy,
  SlidingWindowPolicy,
  TokenBucketPolicy,
};

/** One named quota: plain data, so that it can come from JSON. */
export type Policy =
  | FixedWindowPolicy
  | SlidingWindowPolicy
  | SlidingLogPolicy
  | TokenBucketPolicy
  | LeakyBucketPolicy
  | ConcurrencyPolicy
  | CalendarPolicy;

export type Algorithm = NonNullable<Policy['algorithm']>;

/** The algorithm of policies that name none. */
export const DEFAULT_ALGORITHM: Algorithm = 'sliding-window';

/** Which page evaluates a policy. */
export type Kernel = 'sliding-window' | 'fixed-window' | 'sliding-log' | 'gcra' | 'concurrency' | 'calendar';

/** The kernels, by the names of their pages. To add one: a `.ts` and a `.lua` page, a line here, its name and its policy above. */
export const algorithms: Readonly<Record<Kernel, AlgorithmDefinition>> = {
  'sliding-window': slidingWindow,
  'fixed-window': fixedWindow,
  'sliding-log': slidingLog,
  gcra,
  concurrency,
  calendar,
};
