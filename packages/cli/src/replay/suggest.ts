import { policyText, type Policy } from 'headgate';
import { firstWhere } from './bisect.js';
import { excludable, MAX_POLICIES, type Measure, type Measured } from './measure.js';
import { outliersOf } from './outliers.js';
import { Replay } from './replay.js';

/** Limits, and the clients and requests that they would have denied. */
interface Denying {
  readonly deniedClients: number;
  /** The requests that would be denied, or `undefined` if the log could not be read again. */
  deniedRequests: number | undefined;
}

/** A limit that never denies a certain share of the clients. */
export interface Alternative extends Denying {
  readonly keep: number;
  readonly policy: Policy;
}

export interface Suggestions {
  readonly keep: number;
  /** The keys of all clients that any alternative would deny. */
  readonly affected: ReadonlySet<string>;
  /** For each window: the policy for several shares of clients. */
  readonly each: readonly { readonly window: number; readonly alternatives: readonly Alternative[] }[];
  /** Policies to use together. All of them together keep the share. */
  readonly together: Denying & { readonly policies: readonly Policy[] };
  /** Clients that use many times as much as the others, where the share keeps every client, and policies that deny only them. */
  readonly outliers:
    { readonly clients: ReadonlySet<string>; readonly policies: readonly Policy[] } | undefined;
}

const SHARES = [99, 99.9, 100];

interface Found extends Measured {
  readonly units: number;
}

/**
 * Finds the limits under which `keep` percent of the clients are never denied.
 *
 * @param longest the longest window, ms, as a log shows little about windows longer than itself
 */
export function suggest(measure: Measure, keep: number, longest: number = Infinity): Suggestions {
  const { clients, names } = measure;
  const excluded = excludable(clients, keep);
  const chosen = onePerGroup(measure.measured(), excluded).filter(({ shape }) => shape.window <= longest);
  const keeps = [...new Set([...SHARES, keep])].sort((a, b) => a - b);
  const each = chosen.map(({ shape, peaks }) => {
    const alternatives = keeps.map((share) => {
      const units = peaks.limitFor(excludable(clients, share));
      const deniedClients = peaks.exceeding(units);
      const deniedRequests = deniedClients === 0 ? 0 : undefined;
      return { keep: share, policy: shape.of(units), deniedClients, deniedRequests };
    });
    return { window: shape.window, alternatives };
  });
  const needed = withoutRedundant(jointLimits(chosen, excluded));
  const outliers = outliersOf(chosen, clients, keep);
  const usual = chosen.map((each) => ({ ...each, units: limitWithout(outliers, each) }));
  return {
    keep,
    affected: new Set(names.filter(exceedsAny(limitsFor(chosen, excludable(clients, keeps[0]!))))),
    each,
    together: {
      policies: policiesOf(needed),
      deniedClients: exceedingAny(needed),
      deniedRequests: undefined,
    },
    outliers:
      outliers.size === 0
        ? undefined
        : {
            clients: new Set(names.filter((_, client) => outliers.has(client))),
            policies: policiesOf(withoutRedundant(usual)),
          },
  };
}

/** For each window of buckets: the lowest rate that needs no more burst than the units of one window, otherwise the highest. */
function onePerGroup(all: readonly Measured[], excluded: number): readonly Measured[] {
  const groups = new Map<string, Measured[]>();
  all.forEach((each, i) => {
    const { rate, group } = each.shape;
    const key = rate === undefined ? `${i}` : group;
    groups.set(key, [...(groups.get(key) ?? []), each]);
  });
  return [...groups.values()].map((candidates) => {
    const isEnough = ({ shape: { rate = Infinity }, peaks }: Measured) => peaks.limitFor(excluded) <= rate;
    return candidates.find(isEnough) ?? candidates.at(-1)!;
  });
}

const limitsFor = (all: readonly Measured[], excluded: number): Found[] =>
  all.map((each) => ({ ...each, units: each.peaks.limitFor(excluded) }));

const exceedsAny =
  (found: readonly Found[]) =>
  (_: unknown, client: number): boolean =>
    found.some(({ peaks, units }) => peaks.values[client]! > units);

function exceedingAny(found: readonly Found[]): number {
  const exceeds = exceedsAny(found);
  return found[0]?.peaks.values.reduce((sum, _, client) => sum + Number(exceeds(_, client)), 0) ?? 0;
}

/**
 * Limits for several policies together. Each excludes the same share of clients; the limits are the tightest under which at most `excluded`
 * clients exceed any of them.
 */
const jointLimits = (all: readonly Measured[], excluded: number): Found[] =>
  limitsFor(
    all,
    firstWhere(0, excluded, (k) => exceedingAny(limitsFor(all, k + 1)) > excluded),
  );

/** The smallest limit that none of the other clients exceeds. */
const limitWithout = (outliers: ReadonlySet<number>, { peaks: { values } }: Measured): number =>
  values.reduce((limit, units, client) => (outliers.has(client) ? limit : Math.max(limit, units)), 1);

/**
 * Leaves out policies that another one of the same kind implies: a shorter window with no lower limit, and a longer window with no lower
 * rate.
 */
function withoutRedundant(all: readonly Found[]): readonly Found[] {
  const implies = (one: Found, { shape: { window }, units }: Found): boolean => {
    if (one.shape.rate !== undefined || one.shape.window === window) return false;
    return one.units * Math.max(1, Math.ceil(window / one.shape.window)) <= units;
  };
  return all.filter((each) => each.shape.rate !== undefined || !all.some((one) => implies(one, each)));
}

/** The policies with their names. A policy without a name is named after its window, with a number if that is not unique. */
function policiesOf(found: readonly Found[]): Policy[] {
  const all = found.map(({ shape, units }) => ({ window: shape.window, policy: shape.of(units) }));
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
    for (let i = 0; i < open.length; i += MAX_POLICIES) {
      const alternatives = open.slice(i, i + MAX_POLICIES);
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
