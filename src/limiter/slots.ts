import { performance } from '../common/real-time.js';
import type { Verdict } from '../common/decision.js';
import type { PolicySet, Query } from '../contract/store.js';

interface Held {
  readonly units: number;
  until: number;
}

/** Fewer leases than this are not worth a look for those that have ended. */
const FEW = 100;

/** The concurrency slots that requests of one limiter hold in this process, for metrics. The store alone knows what is free. */
export class Slots {
  readonly #clock: () => number;
  readonly #held = new Map<string, Held>();
  /** From so many leases on, those that have ended are looked for. It doubles, so that a lease costs the same however many there are. */
  #look = FEW;

  /** @param clock monotonic, ms; for tests */
  constructor(clock = () => performance.now()) {
    this.#clock = clock;
  }

  /** How many leases it keeps. */
  get kept(): number {
    return this.#held.size;
  }

  /** How many slots are held now. */
  get size(): number {
    this.#dropEnded();
    let size = 0;
    for (const { units } of this.#held.values()) size += units;
    return size;
  }

  /** Notes the slots of a request that was charged so many units. */
  take({ lease, set }: Query, policies: readonly Verdict[], units: number): void {
    const ms = longestLease(set, (i) => policies[i]!.allowed);
    this.#held.set(lease, { units, until: this.#clock() + ms });
    if (this.#held.size >= this.#look) this.#dropEnded();
  }

  release(lease: string): void {
    this.#held.delete(lease);
  }

  renew(lease: string, set: PolicySet): void {
    const held = this.#held.get(lease);
    if (held) held.until = this.#clock() + longestLease(set, () => true);
  }

  #dropEnded(): void {
    const now = this.#clock();
    for (const [lease, { until }] of this.#held) if (until <= now) this.#held.delete(lease);
    this.#look = Math.max(FEW, 2 * this.#held.size);
  }
}

/** The longest lease of a set's concurrency policies, ms; 0 if it has none. @param holds whether slots of the i-th policy were taken */
function longestLease({ policies }: PolicySet, holds: (i: number) => boolean): number {
  let longest = 0;
  for (const [i, { traits, window }] of policies.entries())
    if (traits.holdsSlots && holds(i)) longest = Math.max(longest, window);
  return longest;
}
