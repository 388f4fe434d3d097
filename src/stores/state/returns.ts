import { areNumbers, type Saved } from '../../algorithms/algorithm.js';

/** Up to this many histories are kept even if they are out of date. Of more than `MOST`, the oldest give way. */
const FEW = 1000;
const MOST = 100_000;

/** The most shifts kept per key. With more, the two oldest are merged. */
const SHIFTS = 64;

/** A charge that was given back to a bucket. It moves forward all charges between these two steps. */
export interface Shift {
  /** The step of the charge that was given back, and the step of the give-back. */
  readonly from: number;
  readonly to: number;
  /** The amount in ticks of the bucket. */
  readonly amount: number;
}

/** What happened to a policy's charges to a key. */
export class History {
  /** The step of the last reset. */
  #reset = 0;
  readonly #shifts: Shift[] = [];
  /** When the history no longer matters. */
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

  /** @param step the store's step, at least that of any earlier charge */
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

  /** The history in the form of a saved state. */
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
 * What must be known of a key to give a charge back, per policy and as long as a charge counts. Charges from before a reset are gone. A
 * bucket drains a charge earlier if one before it was given back. On Redis, the keys are those of `KeyMaker.policies`.
 */
export interface Histories {
  find(policy: string, key: string): History | undefined;
  /** The history to write to now. @param life how long a charge counts, ms */
  open(policy: string, key: string, now: number, life: number): History;
}

/** The histories of all keys of a memory store's table. */
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

/** NUL separates the parts: it cannot occur in a policy's id, because names are printable. */
function idOf(policy: string, key: string): string {
  return `${policy}\0${key}`;
}
