// What a decision charged, for settle, refund, release, renew, hold and cancel.
import type { Event } from './thresholds.js';
import type { Charge, Cost, Policy } from './types.js';

export interface Part {
  readonly policy: Policy;
  readonly charge: Charge;
}

/** The decision whose method is called. */
export interface Caller {
  readonly who: unknown;
  readonly isRepetition: boolean;
  /** The real crossings of thresholds by the call, the witness for buckets. */
  readonly reported?: readonly Event[];
}

export class Handle {
  /** The decision that changed the charge first. Of several with one id, only that one may change it again. */
  private owner: unknown;

  /** The time at which only the decision that charged can change the charge. */
  readonly parts: readonly Part[];
  readonly until: number;
  /** Whether anything was charged that can be given back. */
  constructor(parts: readonly Part[], until: number) {
    this.parts = parts;
    this.until = until;
  }

  /** Whether everything was given back, at least for a time. */
  isReturned = false;

  /** @returns the parts, and the units added to each charge */
  settle(
    { who, isRepetition }: Caller,
    cost: Cost,
    now: number,
    policyOf: (part: Part) => Policy,
  ): [Part, number][] {
    if (this.owner === undefined && now >= this.until && isRepetition) return [];
    if ((this.owner ?? who) !== who) return [];
    const isChange = this.parts.some(({ policy, charge }) => {
      const units = typeof cost === 'number' ? cost : cost[policy.name];
      return units !== undefined && units !== charge.units;
    });
    if (isChange) this.owner = who;
    const changes = this.parts.flatMap((part): [Part, number][] => {
      const units = typeof cost === 'number' ? cost : cost[part.policy.name];
      if (units === undefined) return [];
      return [[part, part.charge.count.settle(part.charge, now, units, policyOf(part))]];
    });
    this.isReturned ||= isChange && this.parts.every(({ charge }) => charge.units === 0);
    return changes;
  }

  release(now: number): boolean {
    return this.slots((charge) => charge.count.release!(charge, now));
  }

  renew(now: number): boolean {
    return this.slots((charge) => charge.count.renew!(charge, now));
  }

  hold(now: number): boolean {
    return this.slots((charge) => charge.count.hold!(charge, now));
  }

  /** The slots of a shadow do not change the answer, unless all slots are those of shadows. */
  private slots(change: (charge: Charge) => boolean): boolean {
    const taken = this.parts.filter(
      ({ policy, charge }) => policy.algorithm === 'concurrency' && charge.units > 0,
    );
    const ends = taken.map(({ policy, charge }) => ({ isReal: !policy.shadow, held: change(charge) }));
    const real = ends.filter(({ isReal }) => isReal);
    return ends.length > 0 && (real.length > 0 ? real : ends).every(({ held }) => held);
  }
}
