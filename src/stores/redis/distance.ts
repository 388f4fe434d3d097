/** A store is nearby if a round trip takes less than this, ms, and this much more for each decision under way. */
const NEARBY = 0.3;
const PER_DECISION = 0.01;

/** How many calls are judged together. A busy machine delays some of them, but not all. */
const CALLS = 32;

/** Judges by the round trips of calls whether most of their time goes by on the way, or in the store and this process. */
export class Distance {
  #isFar = false;
  #calls = 0;
  #oneWasQuick = false;

  get isFar(): boolean {
    return this.#isFar;
  }

  /** Must be called for each reply. @param ms since its call was sent @param decisions that were under way then */
  took(ms: number, decisions: number): void {
    this.#oneWasQuick ||= ms < NEARBY + PER_DECISION * decisions;
    if (++this.#calls < CALLS) return;
    this.#isFar = !this.#oneWasQuick;
    this.#calls = 0;
    this.#oneWasQuick = false;
  }
}
