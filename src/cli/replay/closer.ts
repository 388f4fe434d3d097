import type { Key } from '../../contract/key.js';
import type { Policy } from '../../contract/policy.js';
import { shownKeys } from './dimensions.js';
import { Engine } from './engine.js';
import { Timeline } from './timeline.js';

/** The requests of some clients over time. */
export interface ClientTimes {
  /** The length of an interval, ms. */
  readonly width: number;
  /** When each interval begins, ms since the epoch. */
  readonly starts: readonly number[];
  readonly clients: readonly {
    readonly key: string;
    readonly admitted: readonly number[];
    readonly denied: readonly number[];
  }[];
}

/**
 * A second reading of a log, for a few of its clients, because only its end shows which clients are of interest. With a single key, clients
 * do not affect each other, so the others need not be decided again.
 */
export class CloserLook {
  readonly #engine: Engine;
  readonly #numbers: ReadonlyMap<string, number>;
  readonly #timeline: Timeline;

  constructor(policies: readonly Policy[], keys: readonly string[], several: boolean) {
    this.#engine = new Engine(policies, several);
    this.#numbers = new Map(keys.map((key, i) => [key, i]));
    this.#timeline = new Timeline(2 * keys.length);
  }

  add(key: Key, time: number): void {
    // The intervals include all requests, so that they are the same as before.
    const counts = this.#timeline.at(time);
    if (typeof key === 'string' && !this.#numbers.has(key)) return;
    const isDenied = this.#engine.decide(key, time)?.allowed === false;
    for (const shown of shownKeys(key)) {
      const number = this.#numbers.get(shown);
      if (number !== undefined) counts[2 * number + Number(isDenied)]! += 1;
    }
  }

  result(): ClientTimes {
    const intervals = [...this.#timeline.intervals()];
    return {
      width: this.#timeline.width,
      starts: intervals.map(([start]) => start),
      clients: [...this.#numbers].map(([key, i]) => ({
        key,
        admitted: intervals.map(([, counts]) => counts[2 * i]!),
        denied: intervals.map(([, counts]) => counts[2 * i + 1]!),
      })),
    };
  }
}
