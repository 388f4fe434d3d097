import { performance } from '../common/real-time.js';
import type { Verdict } from '../common/decision.js';
import { costAt } from '../contract/costs.js';
import type { PolicySet, Query } from '../contract/store.js';

interface Lease {
  readonly units: number;
  until: number;
}

/** With fewer leases than this, looking for ended ones is not worth it. */
const FEW = 100;

/** The concurrency slots that requests of one limiter hold in this process, for metrics. Only the store knows which are free. */
export class Slots {
  readonly #clock: () => number;
  readonly #leases = new Map<string, Lease>();
  /** From this many leases on, ended ones are removed. The threshold doubles, so that the cost per lease is constant. */
  #look = FEW;

  /** @param clock monotonic, ms; for tests */
  constructor(clock = () => performance.now()) {
    this.#clock = clock;
  }

  /** How many leases are kept. */
  get kept(): number {
    return this.#leases.size;
  }

  /** How many slots are held now. */
  get size(): number {
    this.#dropEnded();
    let size = 0;
    for (const { units } of this.#leases.values()) size += units;
    return size;
  }

  /** Records the slots of a request that was charged. */
  take(query: Query, policies: readonly Verdict[]): void {
    const { lease, set } = query;
    let units = 0;
    const ms = longestLease(set, (i) => {
      if (!policies[i]!.allowed) return false;
      units = Math.max(units, costAt(query, i));
      return costAt(query, i) > 0;
    });
    if (units === 0) return;
    this.#leases.set(lease, { units, until: this.#clock() + ms });
    if (this.#leases.size >= this.#look) this.#dropEnded();
  }

  release(lease: string): void {
    this.#leases.delete(lease);
  }

  renew(lease: string, set: PolicySet): void {
    const known = this.#leases.get(lease);
    const now = this.#clock();
    // What has ended is not renewed, whether it is still kept here or not.
    if (known && known.until > now) known.until = Math.max(known.until, now + longestLease(set, () => true));
  }

  #dropEnded(): void {
    const now = this.#clock();
    for (const [lease, { until }] of this.#leases) if (until <= now) this.#leases.delete(lease);
    this.#look = Math.max(FEW, 2 * this.#leases.size);
  }
}

/** The longest lease of a set's concurrency policies, ms; 0 if there are none. @param holds whether slots of the i-th policy were taken */
function longestLease({ policies }: PolicySet, holds: (i: number) => boolean): number {
  let longest = 0;
  for (const [i, { traits, window }] of policies.entries())
    if (traits.holdsSlots && holds(i)) longest = Math.max(longest, window);
  return longest;
}
