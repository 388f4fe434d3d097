import type { Policy } from '../../policy.js';
import { excludable, exceedingAny, jointLimits, type Measure, type Peaks } from './measure.js';
import { Replay } from './replay.js';
import type { Shape } from './shapes.js';

/** A limit that keeps a share of the clients. */
export interface Alternative {
  readonly keep: number;
  readonly policy: Policy;
  /** Clients that would be denied at least once. */
  readonly deniedClients: number;
  /** Requests that would be denied; undefined if the log could not be read again. */
  deniedRequests: number | undefined;
}

/** What was found for one shape: the same policy by what share of the clients it keeps. */
export interface Suggestion {
  readonly window: number;
  readonly keep: number;
  readonly chosen: Alternative;
  readonly alternatives: readonly Alternative[];
}

export interface Suggestions {
  readonly keep: number;
  /** The keys of all clients that any alternative would deny. */
  readonly affected: ReadonlySet<string>;
  readonly each: readonly Suggestion[];
  /** Policies to be used together: all of them keep the share. */
  readonly together: {
    readonly policies: readonly Policy[];
    readonly deniedClients: number;
    deniedRequests: number | undefined;
  };
}

const ALWAYS = [99, 99.9, 100];

/** Finds the limits under which `keep` percent of the clients are never denied. */
export function suggest(measure: Measure, shapes: readonly Shape[], keep: number): Suggestions {
  const excluded = excludable(measure.clients, keep);
  const all = measure.peaks();
  const chosen = onePerGroup(shapes, all, excluded);
  const keeps = [...new Set([...ALWAYS, keep])].sort((a, b) => a - b);
  const each = chosen.map((i) => {
    const alternatives = keeps.map((share) => {
      const units = all[i]!.limitFor(excludable(measure.clients, share));
      return {
        keep: share,
        policy: shapes[i]!.of(units),
        deniedClients: all[i]!.exceeding(units),
        deniedRequests: share === 100 ? 0 : undefined,
      };
    });
    return {
      window: shapes[i]!.window,
      keep,
      chosen: alternatives.find((alternative) => alternative.keep === keep)!,
      alternatives,
    };
  });
  const tightest = chosen.map((i) => all[i]!.limitFor(excludable(measure.clients, keeps[0]!)));
  const affected = measure.namesOf((client) => chosen.some((i, j) => all[i]!.values[client]! > tightest[j]!));
  return { keep, affected, each, together: together(chosen, shapes, all, excluded) };
}

/** Of the rates tried for a window, the lowest that needs no more burst than one window's units; else the highest. */
function onePerGroup(shapes: readonly Shape[], peaks: readonly Peaks[], excluded: number): number[] {
  const groups = new Map<string, number[]>();
  shapes.forEach(({ group, rate }, i) => {
    const key = rate === undefined ? `${group} ${i}` : group;
    groups.set(key, [...(groups.get(key) ?? []), i]);
  });
  return [...groups.values()].map(
    (candidates) =>
      candidates.find((i) => {
        const { rate } = shapes[i]!;
        return rate === undefined || peaks[i]!.limitFor(excluded) <= rate;
      }) ?? candidates[candidates.length - 1]!,
  );
}

function together(
  chosen: readonly number[],
  shapes: readonly Shape[],
  all: readonly Peaks[],
  excluded: number,
): Suggestions['together'] {
  const peaks = chosen.map((i) => all[i]!);
  const limits = jointLimits(peaks, excluded);
  const found = chosen.map((i, j) => ({ shape: shapes[i]!, peaks: peaks[j]!, units: limits[j]! }));
  const needed = withoutRedundant(found);
  return {
    policies: needed.map(({ shape, units }) => ({ name: nameOf(shape.window), ...shape.of(units) })),
    deniedClients: exceedingAny(
      needed.map((each) => each.peaks),
      needed.map(({ units }) => units),
    ),
    deniedRequests: undefined,
  };
}

/** Leaves out what another policy of the same kind implies: a shorter window with no lower limit, a longer one at no lower rate. */
function withoutRedundant<T extends { shape: Shape; units: number }>(all: readonly T[]): readonly T[] {
  return all.filter(({ shape, units }, i) => {
    if (shape.rate !== undefined) return true;
    return !all.some((other, j) => {
      if (j === i || other.shape.rate !== undefined) return false;
      const longer = other.shape.window > shape.window;
      if (longer) return other.units <= units;
      return (
        shape.window > other.shape.window &&
        units >= other.units * Math.ceil(shape.window / other.shape.window)
      );
    });
  });
}

const UNITS: readonly (readonly [ms: number, unit: string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
  [1000, 's'],
  [1, 'ms'],
];

/** `60000` as `1m`. */
export function nameOf(ms: number): string {
  const [size, unit] = UNITS.find(([size]) => ms % size === 0)!;
  return `${ms / size}${unit}`;
}

/** Replays the log under what was found, and counts what would be denied: of the clients that are, the others' is known. */
export class Check {
  readonly #suggestions: Suggestions;
  /** Shadows, so that each is on its own. */
  readonly #alone: Replay;
  readonly #alternatives: readonly Alternative[];
  readonly #together: Replay;

  constructor(suggestions: Suggestions) {
    this.#suggestions = suggestions;
    this.#alternatives = suggestions.each
      .flatMap(({ alternatives }) => alternatives)
      .filter(({ keep }) => keep !== 100)
      .slice(0, 32);
    const shadows = this.#alternatives.map(({ policy }, i) => ({ ...policy, name: `${i}`, shadow: true }));
    this.#alone = new Replay(shadows);
    this.#together = new Replay(suggestions.together.policies);
  }

  add(key: string, time: number): void {
    if (!this.#suggestions.affected.has(key)) return;
    this.#alone.add(key, time);
    this.#together.add(key, time);
  }

  /** Writes down how many requests each would have denied. */
  finish(): void {
    this.#alone.result(0).policies.forEach(({ denied }, i) => {
      this.#alternatives[i]!.deniedRequests = denied;
    });
    this.#suggestions.together.deniedRequests = this.#together.result(0).denied;
  }
}
