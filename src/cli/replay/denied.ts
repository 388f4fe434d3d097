import type { Entry } from './entry.js';

/** How often each of many names occurred. */
export interface Tally {
  readonly rows: readonly (readonly [name: string, times: number])[];
  /** The sum of all names that are not among the rows. */
  readonly others: number;
}

/** How many different names are counted separately. */
const MOST = 10_000;

class Counter {
  readonly #times = new Map<string, number>();
  #others = 0;

  add(name: string): void {
    const times = this.#times.get(name);
    if (times !== undefined) this.#times.set(name, times + 1);
    else if (this.#times.size === MOST) this.#others += 1;
    // Copy the name: a part of a text keeps the whole text in memory.
    else this.#times.set(Buffer.from(name).toString(), 1);
  }

  tally(top: number): Tally {
    const sorted = [...this.#times].sort(([, a], [, b]) => b - a);
    const rest = sorted.slice(top).reduce((sum, [, times]) => sum + times, 0);
    return { rows: sorted.slice(0, top), others: this.#others + rest };
  }
}

/** The requests that a replay denies: their paths, and their original statuses in the log. */
export class DeniedRequests {
  readonly #paths = new Counter();
  readonly #statuses = new Counter();

  add({ path, status }: Entry): void {
    this.#paths.add(path ?? '(no path)');
    this.#statuses.add(status === undefined ? '(no status)' : String(status));
  }

  paths(top: number): Tally {
    return this.#paths.tally(top);
  }

  statuses(top: number): Tally {
    return this.#statuses.tally(top);
  }
}
