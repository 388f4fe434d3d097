import { checkInteger } from '../validate.js';
import { Column, type AlgorithmDefinition } from './algorithm.js';

type ConcurrencyParams = {
  readonly limit: number;
  readonly lease: number;
};

interface Lease {
  units: number;
  stop: number;
}

/** Units held at a time, each until it is released or its lease ends. */
export class ConcurrencyColumn extends Column<ConcurrencyParams> {
  readonly #leases: (Map<string, Lease> | undefined)[];
  #held = 0;

  constructor(slots: number) {
    super();
    this.#leases = new Array<Map<string, Lease> | undefined>(slots + 1).fill(undefined);
  }

  /** Sets `#held`, the units that are held, and returns the end of the last lease. */
  #read(slot: number, p: ConcurrencyParams, now: number, writable: boolean): number {
    this.#held = 0;
    const latest = now + p.lease;
    let stop = 0;
    for (const lease of this.#leases[slot]?.values() ?? []) {
      if (lease.stop <= now) continue;
      // The clock went back, or the lease was shortened: nobody holds a slot for longer than one lease.
      if (writable && lease.stop > latest) lease.stop = latest;
      this.#held += lease.units;
      stop = Math.max(stop, Math.min(latest, lease.stop));
    }
    return stop;
  }

  look(slot: number, p: ConcurrencyParams, cost: number, now: number, writable: boolean): void {
    const { limit } = p;
    const stop = this.#read(slot, p, now, writable);
    const held = this.#held;
    this.wait = 0;
    if (cost > limit) this.wait = -1;
    else if (cost > 0 && held + cost > limit)
      this.wait = Math.min(stop, this.#endOf(slot, now, held + cost - limit)) - now;
    this.remaining = held < limit ? limit - held : 0;
    this.reset = stop === 0 ? 0 : stop - now;
  }

  /** When the n-th unit from now on is free by the end of its lease. */
  #endOf(slot: number, now: number, n: number): number {
    const leases = [...(this.#leases[slot]?.values() ?? [])].filter((lease) => lease.stop > now);
    leases.sort((a, b) => a.stop - b.stop);
    for (const lease of leases) {
      n -= lease.units;
      if (n <= 0) return lease.stop;
    }
    return Infinity;
  }

  commit(slot: number, p: ConcurrencyParams, cost: number, now: number, id: string): void {
    const leases = (this.#leases[slot] ??= new Map<string, Lease>());
    for (const [other, lease] of leases) if (lease.stop <= now) leases.delete(other);
    leases.set(id, { units: cost, stop: now + p.lease });
    this.remaining = p.limit - this.#held - cost;
    this.reset = p.lease;
  }

  /** Slots are given back by their lease, not by units. */
  adjust(slot: number, p: ConcurrencyParams, _units: number, _mark: number, now: number): void {
    const stop = this.#read(slot, p, now, true);
    this.wait = 0;
    this.remaining = Math.max(0, p.limit - this.#held);
    this.reset = stop === 0 ? 0 : stop - now;
  }

  #holds(slot: number, p: ConcurrencyParams, id: string, now: number): Lease | undefined {
    this.#read(slot, p, now, true);
    const lease = this.#leases[slot]?.get(id);
    return lease && lease.stop > now ? lease : undefined;
  }

  /** Gives back the slots of a lease; false if it has ended. */
  release(slot: number, p: ConcurrencyParams, id: string, now: number): boolean {
    return this.#holds(slot, p, id, now) !== undefined && this.#leases[slot]!.delete(id);
  }

  /** Holds the slots of a lease for another full lease from now; false if it has ended. */
  renew(slot: number, p: ConcurrencyParams, id: string, now: number): boolean {
    const lease = this.#holds(slot, p, id, now);
    if (lease) lease.stop = now + p.lease;
    return lease !== undefined;
  }

  until(slot: number): number {
    let until = 0;
    for (const { stop } of this.#leases[slot]?.values() ?? []) until = Math.max(until, stop);
    return until;
  }

  clear(slot: number): void {
    this.#leases[slot] = undefined;
  }

  sibling(slots: number): ConcurrencyColumn {
    return new ConcurrencyColumn(slots);
  }

  take(from: ConcurrencyColumn, theirs: number, ours: number): void {
    this.#leases[ours] = from.#leases[theirs];
  }
}

export const concurrency: AlgorithmDefinition<ConcurrencyParams> = {
  tag: 'c1',
  compile: (what, { limit, window }) => ({
    limit: checkInteger(`${what}.limit`, limit, 1, 1e5),
    lease: window,
  }),
  createColumn: (slots) => new ConcurrencyColumn(slots),
};
