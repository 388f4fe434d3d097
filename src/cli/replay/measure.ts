import { remainingOf, waitOf } from '../../stores.js';
import { firstWhere } from './bisect.js';
import { Engine } from './engine.js';
import { Keys, type Column } from './keys.js';
import type { Shape } from './shapes.js';

/** A limiter has at most this many policies. */
export const MOST_POLICIES = 32;

/** Replays a log under limits that are never reached, and keeps the most that each client used of each shape, in 4 bytes. */
export class Measure {
  readonly #groups: { engine: Engine; capacities: readonly number[]; peaks: readonly Column[] }[] = [];
  readonly #keys = new Keys();
  readonly #sent = this.#keys.column('count');
  requests = 0;
  first = 0;
  last = 0;

  constructor(shapes: readonly Shape[]) {
    for (let i = 0; i < shapes.length; i += MOST_POLICIES) {
      const probes = shapes
        .slice(i, i + MOST_POLICIES)
        .map(({ probe }, j) => ({ ...probe, name: `${i + j}` }));
      const engine = new Engine(probes);
      this.#groups.push({
        engine,
        capacities: engine.policies.map(({ traits }) => traits.capacity),
        peaks: probes.map(() => this.#keys.column('count')),
      });
    }
  }

  get clients(): number {
    return this.#keys.size;
  }

  add(key: string, time: number): void {
    const client = this.#keys.numberOf(key);
    if (this.requests === 0) this.first = time;
    this.last = time;
    this.requests += 1;
    this.#sent.values[client]! += 1;
    for (const { engine, capacities, peaks } of this.#groups) {
      const verdicts = engine.verdicts(key, time);
      for (let i = 0; i < capacities.length; i++) {
        // Denials are not expected. A denied client wants more than can be measured.
        const used = capacities[i]! - remainingOf(verdicts, i) + (waitOf(verdicts, i) === 0 ? 0 : 1);
        const { values } = peaks[i]!;
        if (used > values[client]!) values[client] = used;
      }
    }
  }

  /** The keys of the wanted clients. */
  namesOf(wanted: (client: number) => boolean): Set<string> {
    return new Set(this.#keys.namesOf(wanted).values());
  }

  /** The client with the most requests. */
  get busiest(): { key: string; value: number } {
    return this.#keys.largest(this.#sent);
  }

  /** The most that each client used of each shape, in the order of the shapes. */
  peaks(): Peaks[] {
    const { size } = this.#keys;
    return this.#groups.flatMap(({ capacities, peaks }) =>
      peaks.map(({ values }, i) => new Peaks(values.slice(0, size), capacities[i]!)),
    );
  }
}

/** The most that each client used, by the client's number. */
export class Peaks {
  readonly values: Uint32Array | Float64Array;
  readonly #sorted: Uint32Array | Float64Array;
  readonly #most: number;

  /** @param most the largest limit that can be suggested */
  constructor(values: Uint32Array | Float64Array, most: number) {
    this.values = values;
    this.#most = most;
    this.#sorted = values.slice().sort();
  }

  /** The smallest limit that at most `excluded` clients would exceed, up to the largest possible one. */
  limitFor(excluded: number): number {
    return Math.min(this.#most, Math.max(1, this.#sorted[this.#sorted.length - 1 - excluded] ?? 1));
  }

  /** The number of clients that use more than a limit. */
  exceeding(limit: number): number {
    const { length } = this.#sorted;
    return length - firstWhere(0, length, (i) => this.#sorted[i]! > limit);
  }
}

/** The number of `clients` that may be excluded if `keep` percent must stay. */
export function excludable(clients: number, keep: number): number {
  // With 99.9 %, one of 1000 may be excluded, even if 0.1 is not exact in floating point.
  return Math.max(0, Math.min(clients - 1, Math.floor((clients * (100 - keep)) / 100 + 1e-9)));
}

/**
 * Limits for several policies together. Each excludes the same share of clients; the limits are the tightest under which at most `excluded`
 * clients exceed any of them.
 */
export function jointLimits(peaks: readonly Peaks[], excluded: number): number[] {
  const limitsAt = (k: number) => peaks.map((each) => each.limitFor(k));
  return limitsAt(firstWhere(0, excluded, (k) => exceedingAny(peaks, limitsAt(k + 1)) > excluded));
}

export function exceedingAny(peaks: readonly Peaks[], limits: readonly number[]): number {
  const clients = peaks[0]?.values.length ?? 0;
  let count = 0;
  for (let client = 0; client < clients; client++) {
    if (peaks.some(({ values }, i) => values[client]! > limits[i]!)) count += 1;
  }
  return count;
}
