/** A round trip to a store nearby takes less, ms: this, and for each decision under way so much more. */
const NEARBY = 0.3;
const PER_DECISION = 0.01;

/** So many calls are judged together: a busy machine makes some late, but not all. */
const CALLS = 32;

/** Tells from the round trips of calls whether most of their time goes by on the way, or in the store and this process. */
export class Distance {
  #isFar = false;
  #calls = 0;
  #oneWasQuick = false;

  get isFar(): boolean {
    return this.#isFar;
  }

  /** To be called for each reply. @param ms since its call was sent @param decisions that were under way then */
  took(ms: number, decisions: number): void {
    this.#oneWasQuick ||= ms < NEARBY + PER_DECISION * decisions;
    if (++this.#calls < CALLS) return;
    this.#isFar = !this.#oneWasQuick;
    this.#calls = 0;
    this.#oneWasQuick = false;
  }
}
