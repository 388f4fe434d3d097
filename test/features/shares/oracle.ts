// Fair shares by the definition in docs/fair-shares.md, from a list of every request. Independent of the code under test: nothing is summed
// ahead of time. The limit must not become empty while requests of the last window were denied.

interface Asked {
  /** The start of the segment. */
  readonly segment: number;
  readonly cost: number;
  readonly isUsed: boolean;
  isLight: boolean;
  /** The square of the cost, as it counts while the tenant is light. */
  square: number;
}

interface Tenant {
  asked: Asked[];
  mark: number;
  weight: number;
}

export class ShareOracle {
  readonly #limit: number;
  readonly #segment: number;
  readonly #span: number;
  readonly #count: number;
  readonly #tenants = new Map<string, Tenant>();
  /** A time at which a segment of the limit began. */
  #anchor = 0;

  constructor(limit: number, window: number, segments: number) {
    this.#limit = limit;
    this.#segment = window / segments;
    this.#count = segments + 1;
    this.#span = this.#count * this.#segment;
  }

  /** Decides a request. @returns whether it is admitted, and the tenant's share */
  decide(now: number, name: string, cost: number, weight: number): { allowed: boolean; share: number } {
    const start = this.#startAt(now);
    const own = this.#tenants.get(name) ?? { asked: [], mark: -Infinity, weight: 0 };
    this.#tenants.set(name, own);
    let [lights, squares, weights, used] = [0, 0, weight, 0];
    for (const tenant of this.#tenants.values()) {
      tenant.asked = tenant.asked.filter(({ segment }) => segment > start - this.#span);
      for (const each of tenant.asked) {
        if (each.isUsed) used += each.cost;
        if (tenant === own || !each.isLight) continue;
        lights += each.cost;
        squares += each.square;
      }
      if (tenant !== own && start - tenant.mark < 3 * this.#segment) weights += tenant.weight;
    }
    const left = start + this.#segment - now;
    const demand = (lights * this.#span) / (this.#span - left);
    const deviations = 3 * Math.sqrt(squares / this.#count);
    const margin = Math.max(deviations, Math.min(2 * deviations, this.#limit / 32));
    const share = (Math.max(0, this.#limit - demand - margin) * weight) / weights;
    const part = left / this.#segment;
    const room = (demand / this.#count) * part + 3 * Math.sqrt((squares / this.#count) * part);
    const isMarked = start - own.mark < 3 * this.#segment;
    const [ownAsked, ownUsed] = [
      own.asked.reduce((sum, each) => sum + each.cost, 0),
      own.asked.reduce((sum, each) => sum + (each.isUsed ? each.cost : 0), 0),
    ];
    const isOver = ownAsked + cost > share;
    const remaining = this.#limit - used;
    const allowed =
      !isMarked && !isOver ? cost <= remaining : ownUsed + cost <= share && cost + room <= remaining;
    if (isOver) {
      own.mark = start;
      own.weight = weight;
      for (const each of own.asked) each.isLight = false;
    }
    // In its last heavy segment, the tenant becomes light again, and its costs are taken to be those of this request.
    const isLight = !isOver && start - own.mark >= 2 * this.#segment;
    if (isLight) {
      own.mark = -Infinity;
      for (const each of own.asked) if (!each.isLight) [each.isLight, each.square] = [true, each.cost * cost];
    }
    own.asked.push({ segment: start, cost, isUsed: allowed, isLight, square: cost ** 2 });
    return { allowed, share: Math.floor(share) };
  }

  #startAt(now: number): number {
    const at = (): number => this.#anchor + Math.floor((now - this.#anchor) / this.#segment) * this.#segment;
    const isEmpty = [...this.#tenants.values()].every(({ asked }) =>
      asked.every(({ isUsed, segment }) => !isUsed || segment + this.#span <= now),
    );
    if (isEmpty) this.#anchor = now;
    return at();
  }
}
