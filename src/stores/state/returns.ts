import { areNumbers, type Saved } from '../../algorithms/algorithm.js';

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

/** What happened to a policy's charges to a key. */
export class History {
  /** The step of the last reset. */
  #reset = 0;
  readonly #shifts: Shift[] = [];
  /** From when on it does not matter any more. */
  until = 0;

  /** Whether the key was reset since a charge of this step. */
  isReset(step: number): boolean {
    return this.#reset >= step;
  }

  /** By how many ticks a charge of this step has moved forward. */
  shift(step: number): number {
    let sum = 0;
    for (const { from, to, amount } of this.#shifts) if (from <= step && step <= to) sum += amount;
    return sum;
  }

  /** @param step of the store, no less than that of any charge before it */
  reset(step: number): void {
    this.#reset = step;
    this.#shifts.length = 0;
  }

  note(shift: Shift): void {
    const shifts = this.#shifts;
    shifts.push(shift);
    if (shifts.length <= SHIFTS) return;
    const [one, two] = shifts.splice(0, 2) as [Shift, Shift];
    shifts.unshift({ from: Math.min(one.from, two.from), to: two.to, amount: one.amount + two.amount });
  }

  /** As of columns. */
  save(): Saved {
    return [this.#reset, ...this.#shifts.flatMap(({ from, to, amount }) => [from, to, amount])];
  }

  load(saved: Saved): void {
    if (saved.length % 3 !== 1 || !areNumbers(saved)) return;
    this.#reset = saved[0]!;
    for (let i = 1; i < saved.length; i += 3)
      this.#shifts.push({ from: saved[i]!, to: saved[i + 1]!, amount: saved[i + 2]! });
  }
}

/**
 * What whoever gives a charge back must know of its key, per policy, for as long as a charge counts: charges from before a reset are gone,
 * and a bucket drains a charge earlier if one before it was given back. The keys on Redis are those of `KeyMaker.policies`.
 */
export interface Histories {
  find(policy: string, key: string): History | undefined;
  /** The history of what is to be noted now. @param life how long a charge counts, ms */
  open(policy: string, key: string, now: number, life: number): History;
}

/** Those of all keys of a memory store's table. */
export class Returns implements Histories {
  readonly #histories = new Map<string, History>();

  find(policy: string, key: string): History | undefined {
    return this.#histories.size === 0 ? undefined : this.#histories.get(idOf(policy, key));
  }

  open(policy: string, key: string, now: number, life: number): History {
    const id = idOf(policy, key);
    const history = this.#histories.get(id) ?? new History();
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
