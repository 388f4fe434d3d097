import { remainingOf, waitOf } from 'headgate/stores';
import { firstWhere } from './bisect.js';
import { Engine } from './engine.js';
import { Keys } from './keys.js';
import type { Shape } from './shapes.js';

export const MAX_POLICIES = 32;

export interface Measured {
  readonly shape: Shape;
  readonly peaks: Peaks;
}

/** Replays a log under limits that are never reached, and keeps the most that each client used of each shape. */
export class Measure {
  readonly #shapes: readonly Shape[];
  readonly #groups: { engine: Engine; capacities: readonly number[]; peaks: readonly Uint32Array[] }[] = [];
  readonly #keys = new Keys();
  readonly #sent = this.#keys.column(Uint32Array);
  requests = 0;
  first = 0;
  last = 0;

  constructor(shapes: readonly Shape[]) {
    this.#shapes = shapes;
    for (let i = 0; i < shapes.length; i += MAX_POLICIES) {
      const probes = shapes
        .slice(i, i + MAX_POLICIES)
        .map(({ probe }, j) => ({ ...probe, name: `${i + j}` }));
      const engine = new Engine(probes);
      this.#groups.push({
        engine,
        capacities: engine.policies.map(({ traits }) => traits.capacity),
        peaks: probes.map(() => this.#keys.column(Uint32Array)),
      });
    }
  }

  get clients(): number {
    return this.#keys.names.length;
  }

  /** The keys of the clients by their numbers. */
  get names(): readonly string[] {
    return this.#keys.names;
  }

  get busiest(): { key: string; value: number } {
    return this.#keys.largest(this.#sent);
  }

  add(key: string, time: number): void {
    const client = this.#keys.numberOf(key);
    if (this.requests === 0) this.first = time;
    this.last = time;
    this.requests += 1;
    this.#sent[client]! += 1;
    for (const { engine, capacities, peaks } of this.#groups) {
      const verdicts = engine.verdicts(key, time);
      for (let i = 0; i < capacities.length; i++) {
        // Denials are not expected. A denied client wants more than can be measured.
        const used = capacities[i]! - remainingOf(verdicts, i) + (waitOf(verdicts, i) === 0 ? 0 : 1);
        const values = peaks[i]!;
        if (used > values[client]!) values[client] = used;
      }
    }
  }

  /** The shapes in their order, with the use of the clients. */
  measured(): Measured[] {
    const peaks = this.#groups.flatMap(({ capacities, peaks: columns }) =>
      columns.map((values, i) => new Peaks(values.slice(0, this.clients), capacities[i]!)),
    );
    return this.#shapes.map((shape, i) => ({ shape, peaks: peaks[i]! }));
  }
}

/** The most that each client used, by the client's number. */
export class Peaks {
  readonly values: Uint32Array;
  readonly #sorted: Uint32Array;
  readonly #capacity: number;

  /** @param capacity the largest limit that can be suggested */
  constructor(values: Uint32Array, capacity: number) {
    this.values = values;
    this.#capacity = capacity;
    this.#sorted = values.slice().sort();
  }

  /** The smallest limit that at most `excluded` clients would exceed, up to the largest possible one. */
  limitFor(excluded: number): number {
    return Math.min(this.#capacity, Math.max(1, this.#sorted[this.#sorted.length - 1 - excluded] ?? 1));
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
