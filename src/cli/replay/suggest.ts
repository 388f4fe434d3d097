import { policyText, type Policy } from '../../index.js';
import { excludable, exceedingAny, jointLimits, type Measure, type Peaks, MOST_POLICIES } from './measure.js';
import { limitWithout, outliersOf } from './outliers.js';
import { Replay } from './replay.js';
import type { Shape } from './shapes.js';

/** A limit that never denies a certain share of the clients. */
export interface Alternative {
  readonly keep: number;
  readonly policy: Policy;
  /** The clients that would be denied at least once. */
  readonly deniedClients: number;
  /** The requests that would be denied, or `undefined` if the log could not be read again. */
  deniedRequests: number | undefined;
}

/** The result for one shape: the policy for several shares of clients. */
export interface Suggestion {
  readonly window: number;
  readonly alternatives: readonly Alternative[];
}

export interface Suggestions {
  readonly keep: number;
  /** The keys of all clients that any alternative would deny. */
  readonly affected: ReadonlySet<string>;
  readonly each: readonly Suggestion[];
  /** Policies to use together. All of them together keep the share. */
  readonly together: {
    readonly policies: readonly Policy[];
    readonly deniedClients: number;
    deniedRequests: number | undefined;
  };
  /** Clients that use many times as much as the others, where the share keeps every client, and policies that deny only them. */
  readonly outliers:
    { readonly clients: ReadonlySet<string>; readonly policies: readonly Policy[] } | undefined;
}

const ALWAYS = [99, 99.9, 100];

/**
 * Finds the limits under which `keep` percent of the clients are never denied.
 *
 * @param shapes the shapes that were measured
 * @param longest the longest window, ms, as a log shows little about windows longer than itself
 */
export function suggest(
  measure: Measure,
  shapes: readonly Shape[],
  keep: number,
  longest: number = Infinity,
): Suggestions {
  const excluded = excludable(measure.clients, keep);
  const all = measure.peaks();
  const chosen = onePerGroup(shapes, all, excluded).filter((i) => shapes[i]!.window <= longest);
  const keeps = [...new Set([...ALWAYS, keep])].sort((a, b) => a - b);
  const each = chosen.map((i) => {
    const alternatives = keeps.map((share) => {
      const units = all[i]!.limitFor(excludable(measure.clients, share));
      const deniedClients = all[i]!.exceeding(units);
      return {
        keep: share,
        policy: shapes[i]!.of(units),
        deniedClients,
        deniedRequests: deniedClients === 0 ? 0 : undefined,
      };
    });
    return { window: shapes[i]!.window, alternatives };
  });
  const tightest = chosen.map((i) => all[i]!.limitFor(excludable(measure.clients, keeps[0]!)));
  const affected = measure.namesOf((client) => chosen.some((i, j) => all[i]!.values[client]! > tightest[j]!));
  const outliers = withoutOutliers(chosen, shapes, all, keep);
  return {
    ...{ keep, affected, each, together: together(chosen, shapes, all, excluded) },
    outliers: outliers && {
      clients: measure.namesOf((client) => outliers.clients.has(client)),
      policies: outliers.policies,
    },
  };
}

/** The outliers by their numbers, and the smallest limits that none of the other clients exceeds. Undefined without outliers. */
function withoutOutliers(
  chosen: readonly number[],
  shapes: readonly Shape[],
  all: readonly Peaks[],
  keep: number,
): { clients: ReadonlySet<number>; policies: readonly Policy[] } | undefined {
  const clients = outliersOf(
    chosen.map((i) => all[i]!),
    keep,
  );
  if (clients.size === 0) return undefined;
  const found = chosen.map((i) => ({ shape: shapes[i]!, units: limitWithout(clients, all[i]!) }));
  return { clients, policies: policiesOf(withoutRedundant(found)) };
}

function policiesOf(found: readonly { shape: Shape; units: number }[]): Policy[] {
  return named(found.map(({ shape, units }) => ({ window: shape.window, policy: shape.of(units) })));
}

/**
 * For each window: of the rates that were tried, the lowest one that needs no more burst than the units of one window; otherwise the
 * highest.
 */
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
    policies: policiesOf(needed),
    deniedClients: exceedingAny(
      needed.map((each) => each.peaks),
      needed.map(({ units }) => units),
    ),
    deniedRequests: undefined,
  };
}

/**
 * Leaves out policies that another one of the same kind implies: a shorter window with no lower limit, and a longer window with no lower
 * rate.
 */
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

/** Names the policies without a name after their window, and adds more if that is not unique. */
function named(all: readonly { window: number; policy: Policy }[]): Policy[] {
  const names = new Set(all.map(({ policy }) => policy.name));
  return all.map(({ window, policy }) => {
    if (policy.name !== undefined) return policy;
    // The text of a window, `1m`, as in `1/1m`.
    const plain = policyText({ limit: 1, window }).slice('1/'.length);
    let name = plain;
    for (let n = 2; names.has(name); n++) name = `${plain}-${n}`;
    names.add(name);
    return { name, ...policy };
  });
}

/** Replays the log under the suggestions, and counts the requests that would be denied. Only clients that would be denied are replayed. */
export class Check {
  readonly #suggestions: Suggestions;
  /** Each suggestion is a shadow, so that they do not affect each other. */
  readonly #alone: { replay: Replay; alternatives: readonly Alternative[] }[] = [];
  readonly #together: Replay;

  constructor(suggestions: Suggestions) {
    this.#suggestions = suggestions;
    const open = suggestions.each
      .flatMap(({ alternatives }) => alternatives)
      .filter(({ deniedClients }) => deniedClients > 0);
    for (let i = 0; i < open.length; i += MOST_POLICIES) {
      const alternatives = open.slice(i, i + MOST_POLICIES);
      const shadows = alternatives.map(({ policy }, j) => ({ ...policy, name: `${j}`, shadow: true }));
      this.#alone.push({ replay: new Replay(shadows), alternatives });
    }
    this.#together = new Replay(suggestions.together.policies);
  }

  add(key: string, time: number): void {
    if (!this.#suggestions.affected.has(key)) return;
    for (const { replay } of this.#alone) replay.add(key, time);
    this.#together.add(key, time);
  }

  /** Stores how many requests each suggestion would have denied. */
  finish(): void {
    for (const { replay, alternatives } of this.#alone) {
      replay.result(0).policies.forEach(({ denied }, i) => {
        alternatives[i]!.deniedRequests = denied;
      });
    }
    this.#suggestions.together.deniedRequests = this.#together.result(0).denied;
  }
}
