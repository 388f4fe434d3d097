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
  /** The default weight of a tenant. */
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
  /** The start of the newest segment. */
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

/** The state in the segment that begins at `start`, as a copy. */
function advanced(state: SharesState | undefined, p: SharesParams, start: number, born: number): SharesState {
  const made = empty(p, start, born);
  if (!state) return made;
  // If the clock went back, no segment begins in the future.
  const passed = Math.max(0, Math.floor((start - state.start) / p.segment));
  if (passed >= p.segments) return made;
  for (let i = passed; i < p.segments; i++) {
    made.light[i] = state.light[i - passed]!;
    made.squares[i] = state.squares[i - passed]!;
    made.used[i] = state.used[i - passed]!;
    made.asked[i] = state.asked[i - passed]!;
  }
  made.born = state.born;
  made.mark = Math.min(start, state.mark);
  made.weight = state.weight;
  return made;
}

/**
 * The time until the segment of a pool ends, for a change that has left the limit without units and so without segments. Charges are found
 * by the segments that they were made in.
 */
export function resetOfPool({ segment }: SharesParams, pool: SharesState | undefined, now: number): number {
  return pool && pool.start <= now ? segment - ((now - pool.start) % segment) : 0;
}

/** The decision for one request of a tenant. It changes copies of both states. */
export class Sharing {
  readonly #p: SharesParams;
  readonly #weight: number;
  /** The limit in force. */
  readonly #limit: number;
  readonly #now: number;
  readonly #heavySegments: number;
  /** The start of the current segment. */
  readonly #start: number;
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

  /** @param reset the time until the shared policy is back at its full quota, from which its segments follow */
  constructor(
    p: SharesParams,
    limit: number,
    weight: number,
    pool: SharesState | undefined,
    tenant: SharesState | undefined,
    now: number,
    reset: number,
    step: number,
  ) {
    this.#p = p;
    this.#heavySegments = Math.min(HEAVY_SEGMENTS, p.segments);
    this.#limit = limit;
    this.#weight = weight;
    this.#now = now;
    this.#start = now + (reset === 0 ? p.segment : ((reset - 1) % p.segment) + 1) - p.segment;
    this.pool = advanced(pool, p, this.#start, step);
    const { born } = this.pool;
    this.tenant = advanced(tenant?.born === born ? tenant : undefined, p, this.#start, born);
  }

  /** The time until the current segment ends. */
  get left(): number {
    return this.#start + this.#p.segment - this.#now;
  }

  /** Estimates the shares after `passed` further segments have begun, `left` ms before the end of the current one. */
  #estimate(passed: number, left: number): void {
    const { segment, segments } = this.#p;
    const { pool, tenant } = this;
    const span = segments * segment;
    const light = (Math.max(0, sum(pool.light, passed) - sum(tenant.light, passed)) * span) / (span - left);
    const variance = Math.max(0, sum(pool.squares, passed) - sum(tenant.squares, passed)) / segments;
    let weights = sum(pool.used, passed, this.#heavySegments);
    this.#since = (this.#start - tenant.mark) / segment + passed;
    this.#isMarked = tenant.weight > 0 && this.#since < this.#heavySegments;
    if (this.#isMarked) weights -= tenant.weight;
    weights = Math.max(0, weights) + this.#weight;
    const margin = MARGIN * Math.sqrt(variance);
    const kept = Math.max(margin, Math.min(2 * margin, this.#limit * WIDE_MARGIN));
    this.share = (Math.max(0, this.#limit - light - kept) * this.#weight) / weights;
    this.#room = (light / segments) * (left / segment) + MARGIN * Math.sqrt(variance * (left / segment));
    this.#used = sum(tenant.used, passed);
    this.#asked = sum(tenant.asked, passed) + sum(tenant.light, passed);
  }

  /** Whether the tenant may have a cost, by the last estimate. @param remaining the units that the limit has left */
  #admits(cost: number, remaining: number): boolean {
    if (!this.#isMarked && this.#asked + cost <= this.share) return cost <= remaining;
    return this.#used + cost <= this.share && cost + this.#room <= remaining;
  }

  look(cost: number, remaining: number): boolean {
    this.#estimate(0, this.left);
    return cost === 0 || this.#admits(cost, remaining);
  }

  /** The units that the tenant could spend at once. */
  remaining(remaining: number): number {
    this.#estimate(0, this.left);
    const light = this.#isMarked ? 0 : Math.min(this.share - this.#asked, remaining);
    const heavy = Math.min(this.share - this.#used, remaining - this.#room);
    return Math.max(0, Math.floor(Math.max(light, heavy)));
  }

  /**
   * The time until a cost is admitted if no tenant asks. Within a segment the share only grows, and the room only shrinks.
   *
   * @param from a time before which the limit itself denies, ms from now
   * @param remainingAt the units that the limit has left at a time
   */
  wait(cost: number, from: number, remainingAt: (time: number) => number): number {
    const { segment, segments } = this.#p;
    for (let passed = 0; passed <= segments; passed++) {
      const last = this.#start + (passed + 1) * segment - 1;
      if (last < this.#now + from) continue;
      let low = passed === 0 ? this.#now : this.#start + passed * segment;
      const remaining = remainingAt(low);
      this.#estimate(passed, 1);
      if (!this.#admits(cost, remaining)) continue;
      let high = last;
      while (low < high) {
        const middle = Math.floor((low + high) / 2);
        this.#estimate(passed, last + 1 - middle);
        if (this.#admits(cost, remaining)) high = middle;
        else low = middle + 1;
      }
      return low - this.#now;
    }
    return (segments + 1) * segment;
  }

  /** Records a request, after `look`. */
  note(cost: number, isCharged: boolean): void {
    const { pool, tenant } = this;
    const isOver = this.#asked + cost > this.share;
    if (isOver) this.#mark();
    else if (tenant.weight > 0 && this.#since >= this.#heavySegments - 1) this.#becomeLight(cost);
    if (!isOver && !this.#isMarked) this.#addLight(0, cost, cost);
    else tenant.asked[0] = Math.min(MAX_SUM, tenant.asked[0]! + cost);
    if (isCharged) tenant.used[0] = Math.min(MAX_SUM, tenant.used[0]! + cost);
    pool.start = tenant.start = this.#start;
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
    this.#estimate(0, this.left);
    if (units > 0) {
      tenant.used[0] = Math.min(MAX_SUM, tenant.used[0]! + units);
      if (this.#isMarked) tenant.asked[0] = Math.min(MAX_SUM, tenant.asked[0]! + units);
      else this.#addLight(0, units, units);
      return;
    }
    let left = -units;
    const stop = this.#start + segments * segment;
    for (let i = segments - 1; i >= 0; i--) {
      if (mark !== undefined && mark !== stop - i * segment) continue;
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
