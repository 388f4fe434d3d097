import type { Decision } from '../../common/decision.js';
import { realTiming } from '../../common/timing.js';
import type { LimiterDecision } from '../decision.js';
import { TurnClock } from './turn-clock.js';

/** The turns that a store gave to admitted requests ahead of time, by `performance.now()`. */
export class ReservedTurns {
  readonly #clock = new TurnClock();
  readonly #turns = new WeakMap<Decision, number>();

  /**
   * Records the turn of a request.
   *
   * @param storeMs the store's time of the decision, or of the first one with the same id. Undefined if this process has decided just now
   */
  note(decision: LimiterDecision, storeMs: number | undefined): void {
    const now = realTiming.now();
    const { sinceFirst = 0 } = decision.reply;
    const decidedAt = storeMs === undefined ? now : this.#clock.decidedAt(storeMs + sinceFirst, now);
    this.#turns.set(decision, decidedAt + decision.delayMs);
  }

  move(decision: Decision, at: number): void {
    this.#turns.set(decision, at);
  }

  /** The time of a request's turn. For a turn that was not recorded, `delayMs` counts from now. */
  of(decision: Decision): number {
    return this.#turns.get(decision) ?? realTiming.now() + decision.delayMs;
  }
}
