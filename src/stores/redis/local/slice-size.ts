import { performance } from '../../../common/real-time.js';
import { perSet, type PolicySet } from '../../../contract/store.js';
import { admits, remainingOf, resetOf, waitOf, type Verdicts } from '../../../contract/verdicts.js';
import { lifeOf, lostPerMs } from './slice.js';
import type { Slicing } from './slice-options.js';

/** A slice must be expected to save at least so many decisions a call. */
const WORTH = 3;

/** A slice is never more than this part of the key's lowest limit, */
const OF_LIMIT = 1 / 10;

/** nor than this part of what is left of it, times this process' share of what is charged. */
const OF_REST = 1 / 8;

/** The part of what is asked for in `hold`: so most slices are spent before they end. */
const SPENT = 3 / 4;

/** How much of what was charged still counts after the next reply. */
const FADES = 0.9;

const rateOf = perSet(lostPerMs);

const lowestOf = perSet(({ policies }) => Math.min(...policies.map(({ traits }) => traits.capacity)));

/** How large a key's next slice should be: by what this process asks for, what is left, and who else charges it. */
export class SliceSize {
  readonly #slicing: Slicing;
  /** The units asked for in the last `hold`, as of `#askedAt`. They fade. */
  #demand = 0;
  #askedAt = 0;
  /** The units that the store last said are left. Undefined: not known. */
  #remaining: number | undefined;
  /** When units charged last stop being spendable, as far as their window or segment tells. */
  #endsAt = 0;
  /** The units that this process, and all others, charged lately. They fade. */
  #mine = 1;
  #others = 0;

  constructor(slicing: Slicing) {
    this.#slicing = slicing;
  }

  /** Notes that units are asked for. What no slice could pay for is no demand for slices. */
  ask(set: PolicySet, cost: number, now: number): void {
    if (WORTH * cost > Math.min(this.#slicing.size, lowestOf(set) * OF_LIMIT)) return;
    this.#demand = this.#demandAt(now) + cost;
    this.#askedAt = now;
  }

  #demandAt(now: number): number {
    const { hold } = this.#slicing;
    return (this.#demand * hold) / (hold + now - this.#askedAt);
  }

  /** Whether the key is asked for so often that its replies are worth reading. Most keys are never asked for again. */
  isWanted(cost: number): boolean {
    return this.#demand >= 2 * cost;
  }

  /** Whether nothing is worth remembering of the key. */
  isCold(now: number): boolean {
    return this.#demandAt(now) < 1;
  }

  /** How long nothing was asked for, and the usual time between two questions, ms. */
  idle(now: number): readonly [idle: number, gap: number] {
    return [now - this.#askedAt, this.#slicing.hold / Math.max(1, this.#demand)];
  }

  /** The units of the next slice. 0: none is worth a call. @param held what this process still has */
  next(set: PolicySet, cost: number, held: number, now: number): number {
    const { size, hold } = this.#slicing;
    const share = this.#mine / (this.#mine + this.#others);
    const rest = (this.#remaining ?? Infinity) * share * OF_REST;
    const most = Math.floor(Math.min(size, lowestOf(set) * OF_LIMIT, rest)) - held;
    const rate = rateOf(set);
    const life = now < this.#endsAt ? Math.min(hold, this.#endsAt - now) : hold;
    const wanted = (this.#demand * life) / hold;
    const units = Math.min(most, Math.ceil(wanted * SPENT) + Math.ceil(rate * life));
    // Units that drain are spent only as far as they are asked for faster than that.
    const spends = rate === 0 ? units : units / (1 + (rate * hold) / this.#demand);
    return Math.min(wanted, spends) >= WORTH * cost ? units : 0;
  }

  /** Whether the store would grant a slice for certain. */
  isCertain(units: number): boolean {
    return this.#remaining !== undefined && this.#remaining >= 2 * units;
  }

  /**
   * Learns what is left, and how fast others spend it.
   *
   * @param verdicts what the store said to a question for so many units
   * @param at the places of the set's policies in them; default: they are of no other policies
   * @returns whether the store has charged the units
   */
  learn(set: PolicySet, verdicts: Verdicts, units: number, at?: readonly number[]): boolean {
    let remaining = Infinity;
    let isAdmitted = true;
    const place = (i: number): number => at?.[i] ?? i;
    for (let i = 0; i < set.policies.length; i++) {
      remaining = Math.min(remaining, remainingOf(verdicts, place(i)));
      isAdmitted &&= admits(waitOf(verdicts, place(i)));
    }
    const charged = isAdmitted ? units : 0;
    if (isAdmitted) {
      this.#endsAt = performance.now() + lifeOf(set, (i) => resetOf(verdicts, place(i)));
    }
    const spent = this.#remaining === undefined ? 0 : this.#remaining - charged - remaining;
    this.#remaining = remaining;
    // When units have come back, or none were charged, nothing is learned of who charges.
    if (spent >= 0 && charged + spent > 0) {
      this.#mine = this.#mine * FADES + charged;
      this.#others = this.#others * FADES + spent;
    }
    return isAdmitted;
  }

  /** This process gives units back. */
  gaveBack(units: number): void {
    if (this.#remaining !== undefined) this.#remaining += units;
  }
}
