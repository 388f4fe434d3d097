import type { Turns } from './turns.js';
import type { HasLeft } from './visitors.js';

const MAX_ANSWERS = 100;

interface Kept<T> {
  readonly answer: Promise<T>;
  readonly visitors: HasLeft[];
  /** The end of the time in which the answer serves other visitors, too, ms. Infinity until there is an answer. */
  until: number;
}

/** Answers to questions of visitors, one at a time. Equal questions within a moment are asked once. */
export class Answers<T> {
  readonly #lifeMs: number;
  readonly #turns: Turns;
  readonly #kept = new Map<string, Kept<T>>();

  constructor(lifeMs: number, turns: Turns) {
    this.#lifeMs = lifeMs;
    this.#turns = turns;
  }

  /** The answer to a question. A question is dropped at its turn if all its visitors have left. */
  get(id: string, ask: () => Promise<T>, visitor: HasLeft): Promise<T> {
    const last = this.#kept.get(id);
    if (last && Date.now() < last.until) {
      last.visitors.push(visitor);
      return last.answer;
    }
    if (this.#kept.size >= MAX_ANSWERS) this.#kept.clear();
    const visitors = [visitor];
    const answer = this.#turns.run(ask, () => visitors.some((hasLeft) => !hasLeft()));
    const kept = { answer, visitors, until: Infinity };
    this.#kept.set(id, kept);
    answer.then(
      () => (kept.until = Date.now() + this.#lifeMs),
      () => (kept.until = 0),
    );
    return answer;
  }

  /** Makes the next calls ask again, even while a question is under way. */
  expire(): void {
    this.#kept.clear();
  }
}
