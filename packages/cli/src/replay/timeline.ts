const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Interval lengths that read well. Each divides the next. */
const WIDTHS = [
  ...[SECOND, 5 * SECOND, 15 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, DAY],
  ...[10 * DAY, 100 * DAY, 1000 * DAY, 10_000 * DAY, 100_000 * DAY],
];

/** With more intervals than this, neighbours are merged. */
const MOST = 1000;

/** Counts over time, in a bounded number of intervals. As time goes on, the intervals become longer. */
export class Timeline {
  readonly #series: number;
  #step = 0;
  /** The number of the first interval since the epoch. */
  #first = 0;
  /** For each interval: an array of `series` counts. */
  #counts: number[][] = [];

  /** @param series how many counts an interval has */
  constructor(series: number) {
    this.#series = series;
  }

  /** The length of an interval, ms. */
  get width(): number {
    return WIDTHS[this.#step]!;
  }

  /** The counts of the interval of a moment. The caller adds to them. */
  at(time: number): number[] {
    if (this.#counts.length === 0) this.#first = Math.floor(time / this.width);
    let interval = Math.floor(time / this.width) - this.#first;
    while (interval >= MOST) {
      this.#widen();
      interval = Math.floor(time / this.width) - this.#first;
    }
    while (this.#counts.length <= interval) this.#counts.push(new Array<number>(this.#series).fill(0));
    return this.#counts[interval]!;
  }

  *intervals(): Generator<readonly [start: number, counts: readonly number[]]> {
    for (const [i, counts] of this.#counts.entries()) yield [(this.#first + i) * this.width, counts];
  }

  #widen(): void {
    const old = { width: this.width, first: this.#first, counts: this.#counts };
    this.#step += 1;
    this.#first = Math.floor((old.first * old.width) / this.width);
    this.#counts = [];
    for (const [i, counts] of old.counts.entries()) {
      const sum = this.at((old.first + i) * old.width);
      for (let j = 0; j < this.#series; j++) sum[j]! += counts[j]!;
    }
  }
}
