// The counts of a site: one for each policy that counts apart, and key.
import { Bucket } from './bucket.js';
import { isBucket, type InForce } from './overrides.js';
import { SharedCount } from './shares.js';
import { Marks } from './thresholds.js';
import { Timed } from './timed.js';
import type { Count, Policy } from './types.js';

export interface Entry {
  readonly limiter: string;
  readonly by: string;
  readonly key: string;
  /** The policy by whose rate a bucket drains without an override. */
  readonly base: Policy;
  readonly id: string;
  /** Whether an override started the count. */
  readonly isNew: boolean;
  readonly count: Count;
  readonly marks: Marks;
}

/** Policies that differ only in the limit share a count; of a bucket, the configured rate is a part of it. */
function idOf({ base }: InForce): string {
  const { name, window, limit, burst = limit, maxDelay = 0, segments = 10, period, share, by } = base;
  const shape = isBucket(base)
    ? ['bucket', limit, burst, maxDelay]
    : [base.algorithm, base.algorithm === 'sliding-window' ? segments : '', period, share];
  return [name, by, window, ...shape].join('|');
}

export class Counts {
  readonly entries = new Map<string, Entry>();

  of(limiter: string, part: InForce): Entry {
    const id = idOf(part);
    const place = [limiter, id, part.key].join('\n');
    let entry = this.entries.get(place);
    if (!entry) {
      const { policy, base, key, isNew } = part;
      const [count, marks] = [created(policy), new Marks()];
      entry = { limiter, by: base.by, key, base, id, isNew, count, marks };
      this.entries.set(place, entry);
    }
    return entry;
  }

  forget(isForgotten: (entry: Entry) => boolean): void {
    for (const entry of this.entries.values())
      if (isForgotten(entry)) {
        entry.count.forget();
        entry.marks.forget();
      }
  }
}

function created(policy: Policy): Count {
  if (isBucket(policy)) return new Bucket();
  return policy.share === undefined ? new Timed(policy) : new SharedCount(policy);
}
