import { performance } from '../../../common/real-time.js';
import type { PolicySet } from '../../../contract/store.js';
import { factOf } from '../../../contract/variant.js';
import { admits, remainingOf, resetOf, waitOf, type Verdicts } from '../../../contract/verdicts.js';
import { lifeOf, lostPerMs } from './slice.js';
import type { Slicing } from './slice-options.js';

/** A slice must be expected to save at least this many decisions per call. */
const MIN_DECISIONS_PER_SLICE = 3;

/** The largest part of the key's lowest limit in a slice. */
const MAX_LIMIT_SHARE = 1 / 10;

/** The largest part of the remaining units in a slice, before multiplication by this process' share of the charges. */
const MAX_REST_SHARE = 1 / 8;

/** The part of the demand within `hold` that a slice covers, so that most slices are spent before their end. */
const DEMAND_SHARE = 3 / 4;

/** The part of the charged units that still counts after the next reply. */
const FADING_FACTOR = 0.9;

/** The lowest capacity of a set's policies, and the units of a slice that are lost per ms. */
const boundsOf = factOf((set) => ({
  lowest: Math.min(...set.policies.map(({ traits }) => traits.capacity)),
  lostPerMs: lostPerMs(set),
}));

/** The size of a key's next slice, by the demand of this process, the remaining units, and the charges of other processes. */
export class SliceSize {
  readonly #slicing: Slicing;
  /** The demand in units during the last `hold`, as of `#askedAt`, which fades. */
  #demand = 0;
  #askedAt = 0;
  /** The remaining units in the store's last reply. Undefined until there is one. */
  #remaining: number | undefined;
  /** The time at which the units charged last can no longer be spent, as far as their window or segment shows. */
  #endsAt = 0;
  /** The units charged lately by this process, and by all others. Both numbers fade. */
  #mine = 1;
  #others = 0;

  constructor(slicing: Slicing) {
    this.#slicing = slicing;
  }

  /** Records a request for units. A cost too large for any slice is not demand for slices. */
  ask(set: PolicySet, cost: number, now: number): void {
    if (MIN_DECISIONS_PER_SLICE * cost > Math.min(this.#slicing.size, boundsOf(set).lowest * MAX_LIMIT_SHARE))
      return;
    this.#demand = this.#demandAt(now) + cost;
    this.#askedAt = now;
  }

  #demandAt(now: number): number {
    const { hold } = this.#slicing;
    return (this.#demand * hold) / (hold + now - this.#askedAt);
  }

  /** Whether the demand for the key makes its replies worth parsing. Most keys are never asked for again. */
  isWanted(cost: number): boolean {
    return this.#demand >= 2 * cost;
  }

  isCold(now: number): boolean {
    return this.#demandAt(now) < 1;
  }

  /** The time since the last request, and the usual time between two requests, ms. */
  idle(now: number): readonly [idle: number, gap: number] {
    return [now - this.#askedAt, this.#slicing.hold / Math.max(1, this.#demand)];
  }

  /** The units of the next slice. 0 if a slice is not worth a call. @param held the units left in this process */
  next(set: PolicySet, cost: number, held: number, now: number): number {
    const { size, hold } = this.#slicing;
    const share = this.#mine / (this.#mine + this.#others);
    const rest = (this.#remaining ?? Infinity) * share * MAX_REST_SHARE;
    const { lowest, lostPerMs: rate } = boundsOf(set);
    const most = Math.floor(Math.min(size, lowest * MAX_LIMIT_SHARE, rest)) - held;
    const life = now < this.#endsAt ? Math.min(hold, this.#endsAt - now) : hold;
    const wanted = (this.#demand * life) / hold;
    const units = Math.min(most, Math.ceil(wanted * DEMAND_SHARE) + Math.ceil(rate * life));
    // Units that drain are spent only as far as the demand is faster than the drain.
    const spends = rate === 0 ? units : units / (1 + (rate * hold) / this.#demand);
    return Math.min(wanted, spends) >= MIN_DECISIONS_PER_SLICE * cost ? units : 0;
  }

  /** Whether the store would certainly grant a slice. */
  isCertain(units: number): boolean {
    return this.#remaining !== undefined && this.#remaining >= 2 * units;
  }

  /**
   * Learns the remaining units, and the speed at which other processes spend units.
   *
   * @param verdicts the store's verdicts on a question for so many units
   * @param at the positions of the set's policies in the verdicts; by default the verdicts are about these policies only
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
    // If units have returned, or none were charged, the reply does not show the shares of the processes.
    if (spent >= 0 && charged + spent > 0) {
      this.#mine = this.#mine * FADING_FACTOR + charged;
      this.#others = this.#others * FADING_FACTOR + spent;
    }
    return isAdmitted;
  }

  gaveBack(units: number): void {
    if (this.#remaining !== undefined) this.#remaining += units;
  }
}
