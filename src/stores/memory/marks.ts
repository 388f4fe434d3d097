import type { Crossing } from '../../contract/crossing.js';
import { idOf } from '../state/returns.js';
import type { Mark, Marks } from '../state/place.js';

/** The thresholds that were reported in a memory store. Beyond a number of keys and policies, the oldest marks are forgotten. */
export class AllMarks {
  readonly crossings: Crossing[] = [];
  readonly #most: number;
  readonly #marks = new Map<string, Mark>();

  constructor(most: number) {
    this.#most = most;
  }

  /** @param scope the name of a limiter and a dimension */
  of(scope: string, key: string, now: number): Marks {
    const name = (policy: string): string => idOf(`${scope} ${policy}`, key);
    return {
      crossings: this.crossings,
      read: (policy) => this.#marks.get(name(policy)),
      write: (policy, mark) => {
        // A renewed mark is the newest again.
        this.#marks.delete(name(policy));
        if (mark[0] > 0) this.#marks.set(name(policy), mark);
        this.#sweep(now);
      },
    };
  }

  #sweep(now: number): void {
    for (const [oldest, [until]] of this.#marks) {
      if (until > now && this.#marks.size <= this.#most) break;
      this.#marks.delete(oldest);
    }
  }

  clear(): void {
    this.#marks.clear();
  }
}
