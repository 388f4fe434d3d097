/** So few keys are kept even when they matter no more; of more than `MOST` the oldest give way. */
const FEW = 1000;
const MOST = 100_000;

/** Shifts that are kept of a key; then the two oldest become one. */
const SHIFTS = 64;

/** What was given back of a bucket moves forward all that was charged between these steps. */
export interface Shift {
  /** The step of the charge that was given back, and the step by which it was. */
  readonly from: number;
  readonly to: number;
  /** In ticks of the bucket. */
  readonly amount: number;
}

/** What happened to a key since it was charged. */
interface History {
  /** The step of the last reset. */
  reset: number;
  readonly shifts: Shift[];
  until: number;
}

/**
 * What whoever gives a charge back must know of its key, per policy, for as long as a charge counts: charges from before a reset are gone,
 * and a bucket drains a charge earlier if one before it was given back. The keys on Redis are those of `KeyMaker.returns`.
 */
export class Returns {
  readonly #histories = new Map<string, History>();

  /** @param step of the store, no less than that of any charge before it @param life how long a charge counts, ms */
  reset(policy: string, key: string, step: number, now: number, life: number): void {
    const history = this.#open(policy, key, now, life);
    history.reset = step;
    history.shifts.length = 0;
  }

  note(policy: string, key: string, shift: Shift, now: number, life: number): void {
    const { shifts } = this.#open(policy, key, now, life);
    shifts.push(shift);
    if (shifts.length <= SHIFTS) return;
    const [one, two] = shifts.splice(0, 2) as [Shift, Shift];
    shifts.unshift({ from: Math.min(one.from, two.from), to: two.to, amount: one.amount + two.amount });
  }

  /** Whether a key was reset since a charge of this step. */
  isReset(policy: string, key: string, step: number): boolean {
    return (this.#find(policy, key)?.reset ?? 0) >= step;
  }

  /** By how many ticks a charge of this step has moved forward. */
  shift(policy: string, key: string, step: number): number {
    let sum = 0;
    for (const { from, to, amount } of this.#find(policy, key)?.shifts ?? [])
      if (from <= step && step <= to) sum += amount;
    return sum;
  }

  #find(policy: string, key: string): History | undefined {
    return this.#histories.size === 0 ? undefined : this.#histories.get(idOf(policy, key));
  }

  #open(policy: string, key: string, now: number, life: number): History {
    const id = idOf(policy, key);
    const known = this.#histories.get(id);
    const history = known ?? { reset: 0, shifts: [], until: 0 };
    history.until = now + life;
    this.#histories.delete(id);
    this.#histories.set(id, history);
    for (const [oldest, { until }] of this.#histories) {
      if (this.#histories.size <= (until > now ? MOST : FEW)) break;
      this.#histories.delete(oldest);
    }
    return history;
  }
}

/** Policies' names are printable. */
function idOf(policy: string, key: string): string {
  return `${policy}\0${key}`;
}
