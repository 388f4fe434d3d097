import { performance } from '../../common/real-time.js';
import type { Verdict } from '../../common/decision.js';
import { costAt } from '../../contract/costs.js';
import type { LeaseChange, PolicySet, Query, Store, Subject } from '../../contract/store.js';

interface Lease extends Subject {
  readonly units: number;
  readonly since: number;
  until: number;
}

export interface HeldSlots extends Subject {
  readonly units: number;
  readonly heldMs: number;
}

/** Fewer leases are not worth a search for ended ones. */
const MIN_LEASES_TO_SWEEP = 100;

/** The concurrency slots held by a limiter's requests in this process, for metrics. Only the store knows the free slots. */
export class ProcessSlots {
  readonly #clock: () => number;
  readonly #leases = new Map<string, Lease>();
  #holdMs: number | undefined;
  /** The number of leases at which ended leases are removed. The doubling keeps the cost per lease constant. */
  #look = MIN_LEASES_TO_SWEEP;

  /** @param clock monotonic, ms; for tests */
  constructor(clock = () => performance.now()) {
    this.#clock = clock;
  }

  /** The mean time for which the last slots were held until their release, ms. Undefined before the first release. */
  get holdMs(): number | undefined {
    return this.#holdMs;
  }

  get kept(): number {
    return this.#leases.size;
  }

  get size(): number {
    this.#dropEnded();
    let size = 0;
    for (const { units } of this.#leases.values()) size += units;
    return size;
  }

  /** The slots that are held, the oldest first. */
  *held(): Generator<HeldSlots> {
    const now = this.#clock();
    for (const { set, key, units, since, until } of this.#leases.values())
      if (until > now) yield { set, key, units, heldMs: now - since };
  }

  take(query: Query, policies: readonly Verdict[]): void {
    const { lease, set, key } = query;
    let units = 0;
    const ms = longestLease(set, (i) => {
      if (!policies[i]!.allowed) return false;
      units = Math.max(units, costAt(query, i));
      return costAt(query, i) > 0;
    });
    if (units === 0) return;
    const since = this.#clock();
    this.#leases.set(lease, { set, key, units, since, until: since + ms });
    if (this.#leases.size >= this.#look) this.#dropEnded();
  }

  /** Changes slots in a store, too. @returns false if they were no longer held */
  async change(store: Pick<Store, 'lease'>, change: LeaseChange): Promise<boolean> {
    if (change.action === 'release') this.release(change.lease);
    else if (change.action === 'renew') this.renew(change.lease, change.set);
    else this.#hold(change);
    return store.lease(change);
  }

  release(lease: string): void {
    const { since } = this.#leases.get(lease) ?? {};
    if (since !== undefined) {
      const heldMs = this.#clock() - since;
      this.#holdMs = this.#holdMs === undefined ? heldMs : (3 * this.#holdMs + heldMs) / 4;
    }
    this.#leases.delete(lease);
  }

  renew(lease: string, set: PolicySet): void {
    const known = this.#leases.get(lease);
    const now = this.#clock();
    // An ended lease is not renewed, even if still kept here.
    if (known && known.until > now) known.until = Math.max(known.until, now + longestLease(set, () => true));
  }

  #hold(change: LeaseChange): void {
    const { lease, set, key } = change;
    const units = Math.max(
      ...set.policies.map(({ traits }, i) => (traits.holdsSlots ? costAt(change, i) : 0)),
    );
    const now = this.#clock();
    const { since } = this.#leases.get(lease) ?? { since: now };
    this.#leases.set(lease, { set, key, units, since, until: now + longestLease(set, () => true) });
  }

  #dropEnded(): void {
    const now = this.#clock();
    for (const [lease, { until }] of this.#leases) if (until <= now) this.#leases.delete(lease);
    this.#look = Math.max(MIN_LEASES_TO_SWEEP, 2 * this.#leases.size);
  }
}

/** The longest lease of a set's concurrency policies, ms, or 0 without any. @param holds whether slots of the i-th policy were taken */
function longestLease({ policies }: PolicySet, holds: (i: number) => boolean): number {
  let longest = 0;
  for (const [i, { traits, window }] of policies.entries())
    if (traits.holdsSlots && holds(i)) longest = Math.max(longest, window);
  return longest;
}
