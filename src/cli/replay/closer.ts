import type { Policy } from '../../contract/policy.js';
import { Engine } from './engine.js';
import { Timeline } from './timeline.js';

/** What some clients sent over time. */
export interface ClientTimes {
  /** ms */
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
 * A second look at a log, for a few of its clients: who is worth it is known at its end. Clients do not concern each other, so that
 * they are decided as the first time.
 */
export class CloserLook {
  readonly #engine: Engine;
  readonly #numbers: ReadonlyMap<string, number>;
  readonly #timeline: Timeline;

  constructor(policies: readonly Policy[], keys: readonly string[]) {
    this.#engine = new Engine(policies);
    this.#numbers = new Map(keys.map((key, i) => [key, i]));
    this.#timeline = new Timeline(2 * keys.length);
  }

  add(key: string, time: number): void {
    // Of all requests, so that the intervals are the same.
    const counts = this.#timeline.at(time);
    const number = this.#numbers.get(key);
    if (number === undefined) return;
    const { allowed } = this.#engine.decide(key, time);
    counts[2 * number + (allowed ? 0 : 1)]! += 1;
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
