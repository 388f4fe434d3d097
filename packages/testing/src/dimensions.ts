// The dimensions of the checks' limiters, and requests with some of their keys.
import fc from 'fast-check';
import type { CreateLimiterOptions, Key } from 'headgate';
import { pick } from './random.js';
import type { StoreUnderTest } from './subject.js';

/** The options of a limiter that place keys of several dimensions in the slots of a cluster. */
export type SlotOptions = Pick<CreateLimiterOptions, 'slotBy' | 'acrossSlots'>;

export const DIMENSIONS = ['key', 'account', 'org'] as const;

/** Keys from a small set, so that two requests may share one dimension but not another. The same text may be a key in each dimension. */
export const mixedKeys: fc.Arbitrary<Exclude<Key, string>> = fc
  .record(Object.fromEntries(DIMENSIONS.map((name) => [name, pick(['a', 'b', '%@org=a'])])), {
    requiredKeys: [],
  })
  .map((keys) => (Object.keys(keys).length === 0 ? { key: 'a' } : keys));

/** The options for making limiters: see `StoreUnderTest.dimensions`. */
export const slotsOf = ({ dimensions }: Pick<StoreUnderTest, 'dimensions'>): SlotOptions =>
  typeof dimensions === 'object' ? dimensions : {};
