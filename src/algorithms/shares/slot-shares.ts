import { checkInteger } from '../../common/validate.js';
import { MemoryColumn, type Adjustment, type AlgorithmDefinition, type Saved } from '../algorithm.js';
import { concurrency } from '../concurrency.js';
import { FIELD_TABLE } from '../fields.js';

/**
 * Fair shares of the slots of one limit: see docs/fair-shares.md. The slots that a tenant holds follow from the leases, because the name of a
 * lease ends with the tag of its tenant. The pool has the weights of tenants, and the tenants that lately did not get a slot.
 */
export type SlotSharesParams = {
  /** The lease of the slots, ms. */
  readonly lease: number;
  readonly weight: number;
};

/** The time for which a tenant counts as waiting after a denial, ms. */
const WANTS_MS = 2000;
/** The most tenants without slots that a pool keeps. The tenant whose request was least recent is dropped. */
const MAX_WITHOUT_SLOTS = 64;
/** The most slots of a shared limit, because a decision reads the leases. */
const MAX_SLOTS = 1000;

/** A tenant, in the order of their latest requests. */
export type Tenant = readonly [
  tag: string,
  weight: number,
  /** The time of the last admission, ms. */
  served: number,
  /** The time of the last denial, ms, or 0; and the slots that the tenant wants since. */
  asked: number,
  wanted: number,
];

interface Demand {
  readonly tag: string;
  readonly weight: number;
  readonly served: number;
  readonly slots: number;
}

export interface SlotRequest {
  readonly limit: number;
  readonly weight: number;
  readonly tag: string;
  readonly tenants: readonly Tenant[];
  readonly leases: Saved;
  readonly now: number;
}

export class SlotSharing {
  readonly #p: SlotSharesParams;
  readonly #limit: number;
  readonly #weight: number;
  readonly #tag: string;
  readonly #tenants: readonly Tenant[];
  /** The tag, the units and the end of each lease. */
  readonly #leases: readonly (readonly [tag: string, units: number, stop: number])[];
  readonly #now: number;
  #served: number;
  /** The slots that the tenant may hold. */
  share = 0;
  #held = 0;

  constructor(p: SlotSharesParams, { limit, weight, tag, tenants, leases, now }: SlotRequest) {
    this.#p = p;
    this.#limit = limit;
    this.#weight = weight;
    this.#tag = tag;
    this.#now = now;
    // If the clock went back, nothing is in the future.
    const read = tenants.map((each): Tenant => {
      const [tag, weight, served, asked, wanted] = each;
      return [tag, weight, Math.min(served, now), asked > now ? 0 : asked, wanted];
    });
    this.#tenants = lifeOf(read, p) > now ? read : [];
    this.#leases = Array.from({ length: leases.length / 3 }, (_, i) => {
      const [id, units, stop] = leases.slice(3 * i, 3 * i + 3) as [string, number, number];
      return [id.slice(id.lastIndexOf('.') + 1), units, Math.min(stop, now + p.lease)] as const;
    });
    const own = this.#own;
    this.#served = own && isKept(own, p, this.#heldAt(now).get(tag) ?? 0, now) ? own[2] : 0;
  }

  get #own(): Tenant | undefined {
    return this.#tenants.find(([tag]) => tag === this.#tag);
  }

  #heldAt(time: number): Map<string, number> {
    const held = new Map<string, number>();
    for (const [tag, units, stop] of this.#leases)
      if (stop > time) held.set(tag, (held.get(tag) ?? 0) + units);
    return held;
  }

  /** Computes the share at a time. The share never falls as time passes. */
  #estimate(time: number): void {
    const held = this.#heldAt(time);
    this.#held = held.get(this.#tag) ?? 0;
    held.delete(this.#tag);
    const demands: Demand[] = [];
    for (const tenant of this.#tenants) {
      const [tag, weight, served] = tenant;
      const own = held.get(tag) ?? 0;
      const slots = Math.max(own, wantedBy(tenant, own, time));
      if (tag !== this.#tag && slots > 0) demands.push({ tag, weight, served, slots });
      held.delete(tag);
    }
    for (const [tag, slots] of held) demands.push({ tag, weight: this.#p.weight, served: 0, slots });
    const [tag, weight] = [this.#tag, this.#weight];
    const isKnown = isKept([tag, 0, this.#served, this.#own?.[3] ?? 0, 0], this.#p, this.#held, time);
    this.share = shareOf(this.#limit, { tag, weight, served: isKnown ? this.#served : 0 }, demands);
  }

  look(cost: number): boolean {
    this.#estimate(this.#now);
    return cost === 0 || this.#held + cost <= this.share;
  }

  /** The slots that the tenant could take at once. @param remaining the free slots of the limit */
  remaining(remaining: number): number {
    return Math.max(0, Math.min(this.share - this.#held, remaining));
  }

  /** The time until a cost is admitted if no tenant asks. @param from a time before which the limit itself denies, ms from now */
  wait(cost: number, from: number): number {
    let low = this.#now + from;
    let high = this.#leases.reduce(
      (last, [, , stop]) => Math.max(last, stop),
      Math.max(low, this.#now + WANTS_MS),
    );
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      this.#estimate(middle);
      if (this.#held + cost <= this.share) high = middle;
      else low = middle + 1;
    }
    this.#estimate(this.#now);
    return low - this.#now;
  }

  /**
   * Records a request, after `look`. A denied tenant wants the denied slots, too, but only within its share, because no more can be kept. So
   * does an admitted tenant of which further requests wait.
   *
   * @returns the tenants, or undefined if they are unchanged
   */
  note(cost: number, isCharged: boolean, waits: boolean): readonly Tenant[] | undefined {
    const own = this.#own;
    const slots = this.#held + cost;
    const before = own ? wantedBy(own, this.#held, this.#now) : 0;
    if (!isCharged) {
      const wanted = Math.max(before, slots <= this.share ? slots : this.#held);
      return wanted === 0 ? undefined : this.#with(this.#now, wanted);
    }
    this.#served = this.#now;
    const wanted = Math.max(before, slots + cost <= this.share ? slots + cost : slots);
    // A demand at the time of the admission is one for further slots.
    const tenants = waits
      ? this.#with(this.#now, wanted)
      : this.#with(Math.min(own?.[3] ?? 0, this.#now - 1), own?.[4] ?? 0);
    this.#estimate(this.#now);
    this.#held = slots;
    return tenants;
  }

  /** Forgets the demand of a tenant whose request another policy denies. */
  withdraw(): readonly Tenant[] | undefined {
    return this.#own?.[3] ? this.#with(0, 0) : undefined;
  }

  #with(asked: number, wanted: number): Tenant[] {
    const held = this.#heldAt(this.#now);
    const others = this.#tenants.filter(
      (each) => each[0] !== this.#tag && isKept(each, this.#p, held.get(each[0]) ?? 0, this.#now),
    );
    let spare = others.filter(([tag]) => !held.has(tag)).length - MAX_WITHOUT_SLOTS;
    const kept = others.filter(([tag]) => held.has(tag) || spare-- <= 0);
    return [...kept, [this.#tag, this.#weight, this.#served, asked, wanted]];
  }
}

/** Whether the turns of a tenant still count, so that tenants are not served twice before others. */
function isKept(
  [, , served, asked]: Tenant,
  { lease }: SlotSharesParams,
  held: number,
  time: number,
): boolean {
  return held > 0 || Math.max(served, asked) + lease + WANTS_MS > time;
}

/** The slots that a tenant wants since a denial. The demand ends early if the tenant got the last slot since, and holds none any more. */
function wantedBy([, , served, asked, wanted]: Tenant, held: number, time: number): number {
  return asked + WANTS_MS > time && (asked >= served || held > 0) ? wanted : 0;
}

/**
 * The slots that a tenant may hold: its part if the slots are given out singly, each to the tenant with the fewest slots by weight, and of
 * several such tenants to the tenant that was served least recently.
 */
function shareOf(limit: number, own: Omit<Demand, 'slots'>, demands: readonly Demand[]): number {
  let share = 0;
  let above = limit + 1;
  while (above - share > 1) {
    const middle = Math.floor((share + above) / 2);
    if (middle + before(middle, own, demands) <= limit) share = middle;
    else above = middle;
  }
  return share;
}

/** The slots that other tenants get before a tenant has so many slots. */
function before(count: number, own: Omit<Demand, 'slots'>, demands: readonly Demand[]): number {
  let units = 0;
  for (const { tag, weight, served, slots } of demands) {
    const isFirst = served < own.served || (served === own.served && tag < own.tag);
    units += Math.min(slots, Math.floor((count * weight - (isFirst ? 0 : 1)) / own.weight));
  }
  return units;
}

/** The time at which the state of a pool ends. */
function lifeOf(tenants: readonly Tenant[], { lease }: SlotSharesParams): number {
  let last = 0;
  for (const [, , served, asked] of tenants) last = Math.max(last, served, asked);
  return last === 0 ? 0 : last + lease + WANTS_MS;
}

/** Keeps the tenants of pools. `features/shares/place-shares.ts` makes the decision. A tenant has no state of its own, only a weight. */
export class SlotSharesColumn extends MemoryColumn<SlotSharesParams> {
  readonly #pools: (readonly Tenant[] | undefined)[];
  readonly #p: SlotSharesParams;

  constructor(rows: number, p: SlotSharesParams) {
    super();
    this.#p = p;
    this.#pools = new Array<readonly Tenant[] | undefined>(rows + 1).fill(undefined);
  }

  tenants(row: number): readonly Tenant[] {
    return this.#pools[row] ?? [];
  }

  write(row: number, tenants: readonly Tenant[]): void {
    this.#pools[row] = tenants;
  }

  look(row: number, _p: SlotSharesParams, _cost: number, now: number): void {
    this.wait = 0;
    this.remaining = 1;
    this.reset = Math.max(0, this.until(row) - now);
  }

  commit(): void {}

  adjust(row: number, p: SlotSharesParams, { now }: Adjustment): number {
    this.look(row, p, 0, now);
    return 0;
  }

  until(row: number): number {
    return lifeOf(this.tenants(row), this.#p);
  }

  clear(row: number): void {
    this.#pools[row] = undefined;
  }

  sibling(rows: number): SlotSharesColumn {
    return new SlotSharesColumn(rows, this.#p);
  }

  take(from: SlotSharesColumn, theirs: number, ours: number): void {
    this.#pools[ours] = from.#pools[theirs];
  }

  save(row: number): Saved {
    return this.tenants(row).flat();
  }

  load(row: number, saved: Saved): void {
    const tenants = Array.from({ length: Math.ceil(saved.length / 5) }, (_, i) =>
      saved.slice(5 * i, 5 * i + 5),
    );
    const isTenant = ([tag, ...numbers]: Saved): boolean =>
      typeof tag === 'string' && numbers.length === 4 && numbers.every((each) => typeof each === 'number');
    if (tenants.every(isTenant)) this.#pools[row] = tenants as unknown as Tenant[];
  }
}

/** The algorithm of the hidden policies of a shared concurrency policy. No policy names it. */
export const slotShares: AlgorithmDefinition<SlotSharesParams> = {
  tag: 'h1',
  names: {},
  luaParams: { lease: 5, weight: 2 },
  compile(what, given) {
    checkInteger(`${what}.limit`, given.limit, 1, MAX_SLOTS);
    const { params, ...compiled } = concurrency.compile(what, given);
    const weight = FIELD_TABLE.weight.read(`${what}.weight`, given['weight']);
    return { ...compiled, params: { lease: params.lease, weight } };
  },
  createColumn: (rows, p) => new SlotSharesColumn(rows, p),
};
