import type { Decision } from '../../common/decision.js';
import { realTiming } from '../../common/timing.js';
import { TurnClock } from './turn-clock.js';

/** The turns that a store gave to admitted requests ahead of time, by `performance.now()`. */
export class ReservedTurns {
  readonly #clock = new TurnClock();
  readonly #turns = new WeakMap<Decision, number>();

  /** Records the turn of a request. @param storeMs the store's time of the decision */
  note(decision: Decision, storeMs: number): void {
    const decidedAt = this.#clock.decidedAt(storeMs, realTiming.now());
    this.#turns.set(decision, decidedAt + decision.delayMs);
  }

  /** The time of a request's turn. For a turn that was not recorded, `delayMs` counts from now. */
  of(decision: Decision): number {
    return this.#turns.get(decision) ?? realTiming.now() + decision.delayMs;
  }
}
