/**
 * Fair shares of one limit: see docs/fair-shares.md. A shared policy has two states beside its own: the pool, of all tenants of one limit,
 * and the tenant. Both count by the segments of the shared policy. A tenant is light as long as it asks for less than its share; of the
 * light tenants only sums are known. A heavy tenant adds its weight to the pool, and is bounded by its share.
 */
export type SharesParams = {
  readonly limit: number;
  /** The length of a segment, ms. */
  readonly segment: number;
  /** The counted segments, including the one that has partly expired. */
  readonly segments: number;
  readonly weight: number;
};

/** The standard deviations of the light tenants' demand in a segment that are kept for them. */
const MARGIN = 3;
/** The deviations of several segments of a window add up, so twice the margin is kept if that is at most this part of the limit. */
const WIDE_MARGIN = 1 / 32;
/** The segments after which a tenant's weight no longer counts. In the last one, the tenant becomes light if it asks for less than its share. */
const HEAVY_SEGMENTS = 3;
/** The largest number of a ring. The sum of a ring is then an exact integer. */
const MAX_SUM = 2 ** 45;

/** The state of a pool or of a tenant. Each ring has a number per segment, newest first. */
export interface SharesState {
  start: number;
  /** The step at which the pool was created. A tenant's state from another pool is void. */
  born: number;
  /** The start of the segment in which the tenant was over its share most recently, and the weight that it then added. */
  mark: number;
  weight: number;
  /** Units that light tenants asked for, admitted or not, and the sum of the squares of their costs. A tenant has its own part of both. */
  readonly light: number[];
  readonly squares: number[];
  /** A pool's weights of heavy tenants, or the units that the tenant used. */
  readonly used: number[];
  /** The units that the tenant asked for, unless they are part of `light`. */
  readonly asked: number[];
}

function empty({ segments }: SharesParams, start: number, born: number): SharesState {
  const ring = (): number[] => new Array<number>(segments).fill(0);
  return { start, born, mark: 0, weight: 0, light: ring(), squares: ring(), used: ring(), asked: ring() };
}

function sum(ring: readonly number[], passed: number, count = ring.length): number {
  let units = 0;
  for (let i = 0; i < count - passed; i++) units += ring[i]!;
  return units;
}

/** The segments that have begun since a state's newest. If the clock went back, no segment begins in the future. */
function passedAt(state: SharesState, { segment }: SharesParams, start: number): number {
  return Math.max(0, Math.floor((start - state.start) / segment));
}

/** The state in the segment that begins at `start`, as a copy. Its own segments may begin up to one segment earlier. */
function advanced(state: SharesState | undefined, p: SharesParams, start: number, born: number): SharesState {
  const passed = state ? passedAt(state, p, start) : p.segments;
  if (!state || passed >= p.segments) return empty(p, start, born);
  const { light, squares, used, asked, mark, weight } = state;
  return {
    start: state.start + passed * p.segment,
    born: state.born,
    mark: Math.min(start, mark),
    weight,
    light: shifted(light, passed),
    squares: shifted(squares, passed),
    used: shifted(used, passed),
    asked: shifted(asked, passed),
  };
}

/** A copy of a ring, with segments that have begun since. */
function shifted(ring: readonly number[], passed: number): number[] {
  // Within a segment, as nearly always, a whole copy is much faster.
  if (passed === 0) return ring.slice();
  return ring.map((_, i) => (i < passed ? 0 : ring[i - passed]!));
}

/**
 * The time until the segment of a pool ends, for a change that has left the limit without units and so without segments. Charges are found
 * by the segments that they were made in.
 */
export function resetOfPool({ segment }: SharesParams, pool: SharesState | undefined, now: number): number {
  return pool && pool.start <= now ? segment - ((now - pool.start) % segment) : 0;
}

/** The part of a tenant's state that operators see. */
export type TenantState = Readonly<Pick<SharesState, 'start' | 'mark' | 'weight'>> & {
  /** The units that the tenant used in each segment, the newest first. */
  readonly used: readonly number[];
};

/** The units that a tenant used, and whether it is heavy, if it does not ask now. */
export function useOf(
  { start, mark, weight, used }: TenantState,
  { segment, segments }: SharesParams,
  now: number,
): { readonly used: number; readonly isHeavy: boolean } {
  const passed = Math.max(0, Math.floor((now - start) / segment));
  const since = (start + passed * segment - mark) / segment;
  const isHeavy = weight > 0 && since < Math.min(HEAVY_SEGMENTS, segments) && passed < segments;
  return { used: passed < segments ? sum(used, passed) : 0, isHeavy };
}

export interface SharingRequest {
  readonly limit: number;
  readonly weight: number;
  readonly pool: SharesState | undefined;
  readonly tenant: SharesState | undefined;
  readonly now: number;
  /** The time until the shared policy is back at its full quota, from which its segments follow. */
  readonly reset: number;
  readonly step: number;
}

/** The decision for one request of a tenant. It changes copies of both states. */
export class Sharing {
  readonly #p: SharesParams;
  readonly #weight: number;
  readonly #limit: number;
  readonly #now: number;
  readonly #heavySegments: number;
  readonly #start: number;
  /** The time from which the limit has no units, so that a segment begins at each request. */
  readonly #empties: number;
  /** The times at which the states of the pool and of the tenant expire, which can be within a segment of the limit. */
  #expires: number;
  #ownExpires: number;
  readonly pool: SharesState;
  readonly tenant: SharesState;
  /**
   * The results of `#estimate`: the tenant's share, the units kept for light tenants, the segments since the tenant was over its share, and the
   * tenant's own units.
   */
  share = 0;
  #room = 0;
  #since = 0;
  #isMarked = false;
  #used = 0;
  #asked = 0;

  constructor(p: SharesParams, { limit, weight, pool, tenant, now, reset, step }: SharingRequest) {
    this.#p = p;
    this.#heavySegments = Math.min(HEAVY_SEGMENTS, p.segments);
    this.#limit = limit;
    this.#weight = weight;
    this.#now = now;
    this.#empties = now + reset;
    this.#start = now + (reset === 0 ? p.segment : ((reset - 1) % p.segment) + 1) - p.segment;
    this.pool = advanced(pool, p, this.#start, step);
    const { born } = this.pool;
    const own = tenant?.born === born ? tenant : undefined;
    this.tenant = advanced(own, p, this.#start, born);
    const span = p.segments * p.segment;
    this.#expires = (pool ?? this.pool).start + span;
    this.#ownExpires = Math.min(this.#expires, (own ?? this.tenant).start + span);
  }

  #startAt(time: number): number {
    return time < this.#empties ? time - ((time - this.#start) % this.#p.segment) : time;
  }

  /** Estimates the shares at a time, if no tenant asks until then. */
  #estimate(time = this.#now): void {
    const { segment, segments } = this.#p;
    const { pool, tenant } = this;
    const span = segments * segment;
    const start = this.#startAt(time);
    const left = start + segment - time;
    const passed = time < this.#expires ? passedAt(pool, this.#p, start) : segments;
    const ownPassed = time < this.#ownExpires ? passedAt(tenant, this.#p, start) : segments;
    const light =
      (Math.max(0, sum(pool.light, passed) - sum(tenant.light, ownPassed)) * span) / (span - left);
    const variance = Math.max(0, sum(pool.squares, passed) - sum(tenant.squares, ownPassed)) / segments;
    let weights = sum(pool.used, passed, this.#heavySegments);
    this.#since = (start - tenant.mark) / segment;
    this.#isMarked = tenant.weight > 0 && this.#since < this.#heavySegments && ownPassed < segments;
    if (this.#isMarked) weights -= tenant.weight;
    weights = Math.max(0, weights) + this.#weight;
    const margin = MARGIN * Math.sqrt(variance);
    const kept = Math.max(margin, Math.min(2 * margin, this.#limit * WIDE_MARGIN));
    this.share = (Math.max(0, this.#limit - light - kept) * this.#weight) / weights;
    this.#room = (light / segments) * (left / segment) + MARGIN * Math.sqrt(variance * (left / segment));
    this.#used = sum(tenant.used, ownPassed);
    this.#asked = sum(tenant.asked, ownPassed) + sum(tenant.light, ownPassed);
  }

  /** Whether the tenant may have a cost, by the last estimate. @param remaining the units that the limit has left */
  #admits(cost: number, remaining: number): boolean {
    if (!this.#isMarked && this.#asked + cost <= this.share) return cost <= remaining;
    return this.#used + cost <= this.share && cost + this.#room <= remaining;
  }

  look(cost: number, remaining: number): boolean {
    this.#estimate();
    return cost === 0 || this.#admits(cost, remaining);
  }

  /** The units that the tenant could spend at once. */
  remaining(remaining: number): number {
    this.#estimate();
    const light = this.#isMarked ? 0 : Math.min(this.share - this.#asked, remaining);
    const heavy = Math.min(this.share - this.#used, remaining - this.#room);
    return Math.max(0, Math.floor(Math.max(light, heavy)));
  }

  /**
   * The time until a cost is admitted if no tenant asks. Between two changes of the states the share only grows, and the room only shrinks.
   *
   * @param from a time before which the limit itself, or another policy, denies, ms from now
   * @param remainingAt the units that the limit has left at a time
   */
  wait(cost: number, from: number, remainingAt: (time: number) => number): number {
    let time = this.#now + from;
    while (time < this.#expires) {
      const next = this.#nextChange(time);
      const remaining = remainingAt(time);
      let high = next - 1;
      this.#estimate(high);
      if (this.#admits(cost, remaining)) {
        while (time < high) {
          const middle = Math.floor((time + high) / 2);
          this.#estimate(middle);
          if (this.#admits(cost, remaining)) high = middle;
          else time = middle + 1;
        }
        break;
      }
      time = next;
    }
    return time - this.#now;
  }

  /** The first time after another at which units leave the pool, the tenant or the limit, or the tenant is not heavy any more. */
  #nextChange(time: number): number {
    const { segment } = this.#p;
    const { pool, tenant } = this;
    const after = (start: number): number => start + (Math.floor((time - start) / segment) + 1) * segment;
    const later = (change: number): number => (change > time ? change : Infinity);
    if (time < this.#empties) return Math.min(after(this.#start), later(this.#ownExpires), this.#expires);
    const light = tenant.mark + this.#heavySegments * segment;
    return Math.min(after(pool.start), after(tenant.start), later(light));
  }

  /** Records a request, after `look`. */
  note(cost: number, isCharged: boolean): void {
    const { tenant } = this;
    const isOver = this.#asked + cost > this.share;
    if (isOver) this.#mark();
    else if (tenant.weight > 0 && this.#since >= this.#heavySegments - 1) this.#becomeLight(cost);
    if (!isOver && !this.#isMarked) this.#addLight(0, cost, cost);
    else tenant.asked[0] = Math.min(MAX_SUM, tenant.asked[0]! + cost);
    if (isCharged) tenant.used[0] = Math.min(MAX_SUM, tenant.used[0]! + cost);
    this.#begin();
  }

  /** Lets the segments of both states begin with those of the limit. */
  #begin(): void {
    this.pool.start = this.tenant.start = this.#start;
    this.#expires = this.#ownExpires = this.#start + this.#p.segments * this.#p.segment;
  }

  /** Moves the tenant from the light ones to the heavy ones. */
  #mark(): void {
    const { pool, tenant } = this;
    for (let i = 0; i < this.#p.segments; i++) {
      pool.light[i] = Math.max(0, pool.light[i]! - tenant.light[i]!);
      pool.squares[i] = Math.max(0, pool.squares[i]! - tenant.squares[i]!);
      tenant.asked[i] = Math.min(MAX_SUM, tenant.asked[i]! + tenant.light[i]!);
      tenant.light[i] = tenant.squares[i] = 0;
    }
    this.#withdrawWeight();
    pool.used[0]! += this.#weight;
    tenant.mark = this.#start;
    tenant.weight = this.#weight;
  }

  /**
   * Moves the tenant back to the light ones in its last heavy segment, or at its first request after. Its demand moves, too: other tenants
   * would take the units as soon as its weight does not count. The costs are unknown: all are taken to be `cost`.
   */
  #becomeLight(cost: number): void {
    const { tenant } = this;
    for (let i = 0; i < this.#p.segments; i++) {
      this.#addLight(i, tenant.asked[i]!, cost);
      tenant.asked[i] = 0;
    }
    this.#withdrawWeight();
    tenant.weight = 0;
    this.#isMarked = false;
  }

  #withdrawWeight(): void {
    const { used } = this.pool;
    const at = Math.floor(this.#since);
    if (this.#isMarked) used[at] = Math.max(0, used[at]! - this.tenant.weight);
  }

  /** Adds units that a light tenant asked for by requests of one cost. */
  #addLight(i: number, units: number, cost: number): void {
    for (const { light, squares } of [this.pool, this.tenant]) {
      light[i] = Math.min(MAX_SUM, light[i]! + units);
      squares[i] = Math.min(MAX_SUM, squares[i]! + units * cost);
    }
  }

  /** Changes a charge. @param mark the time at which the charge ends by itself, or undefined for the oldest units */
  adjust(units: number, mark: number | undefined): void {
    const { pool, tenant } = this;
    const { segment, segments } = this.#p;
    this.#estimate();
    this.#begin();
    if (units > 0) {
      tenant.used[0] = Math.min(MAX_SUM, tenant.used[0]! + units);
      if (this.#isMarked) tenant.asked[0] = Math.min(MAX_SUM, tenant.asked[0]! + units);
      else this.#addLight(0, units, units);
      return;
    }
    let left = -units;
    const stop = this.#start + segments * segment;
    for (let i = segments - 1; i >= 0; i--) {
      if (mark !== undefined && Math.ceil((stop - mark) / segment) !== i) continue;
      const back = Math.min(left, tenant.used[i]!);
      const light = Math.min(back, tenant.light[i]!);
      const square = Math.min(light * light, tenant.squares[i]!);
      left -= back;
      tenant.used[i]! -= back;
      tenant.asked[i] = Math.max(0, tenant.asked[i]! - (back - light));
      tenant.light[i]! -= light;
      tenant.squares[i]! -= square;
      pool.light[i] = Math.max(0, pool.light[i]! - light);
      pool.squares[i] = Math.max(0, pool.squares[i]! - square);
    }
  }
}
