import { MAX_COUNTED_UNITS, PairColumn, type Adjustment, type Compiled } from './algorithm.js';

/** A counter whose units become free together, at the end of its window or period. A row's pair: the end, and the units used. */
export abstract class CounterColumn<P extends { readonly limit: number }> extends PairColumn<P> {
  /** The end of a counter that begins now. If the clock went back, a later stored end is shortened to this end. */
  protected abstract endAt(p: P, now: number): number;

  /** The counter's end, or 0 if there is none. */
  #read(row: number, p: P, now: number): number {
    const stop = this.state[2 * row]!;
    this.isStale = false;
    if (stop <= now) return 0;
    const end = this.endAt(p, now);
    this.isStale = stop > end;
    return this.isStale ? end : stop;
  }

  look(row: number, p: P, cost: number, now: number): void {
    const stop = this.#read(row, p, now);
    const used = stop === 0 ? 0 : this.state[2 * row + 1]!;
    this.wait = cost === 0 || used + cost <= p.limit ? 0 : cost > p.limit ? -1 : stop - now;
    this.remaining = Math.max(0, p.limit - used);
    this.reset = stop === 0 ? 0 : stop - now;
  }

  override refresh(row: number, _p: P, now: number): void {
    this.state[2 * row] = now + this.reset;
  }

  commit(row: number, p: P, cost: number, now: number): void {
    if (this.reset === 0) {
      const stop = this.endAt(p, now);
      this.state[2 * row + 1] = cost;
      this.state[2 * row] = stop;
      this.reset = stop - now;
    } else {
      this.state[2 * row + 1]! += cost;
    }
    this.remaining -= cost;
  }

  adjust(row: number, p: P, { units, now, of }: Adjustment): number {
    let stop = this.#read(row, p, now);
    let used = stop === 0 ? 0 : this.state[2 * row + 1]!;
    const charged = Math.max(0, Math.min(units, MAX_COUNTED_UNITS - used));
    if (charged > 0) {
      if (stop === 0) stop = this.endAt(p, now);
      used += charged;
    } else if (stop !== 0 && (!of || of.mark >= stop)) {
      // If the clock went back, the counter ends earlier than at the charge.
      used = Math.max(0, used + units);
    }
    if (stop !== 0) {
      if (used === 0) stop = 0;
      this.state[2 * row + 1] = used;
      this.state[2 * row] = stop;
    }
    this.wait = 0;
    this.remaining = Math.max(0, p.limit - used);
    this.reset = stop === 0 ? 0 : stop - now;
    return charged;
  }
}

/** The traits of a policy whose units all become free at once. */
export function counterTraits(limit: number): Compiled['traits'] {
  return {
    capacity: limit,
    paceMs: undefined,
    slices: { endsIn: (resetMs) => resetMs, lostPerMs: 0 },
    unit: undefined,
    nextUnitMs: (_remaining, resetMs) => resetMs,
    endsAtOnce: true,
  };
}
