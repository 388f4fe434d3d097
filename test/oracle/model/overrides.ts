// Overrides of a key, of a dimension's key, or of all keys: another limit, window or tier, or without a policy.
import type { Keys, LimiterDef, Policy } from './types.js';

export type PolicyChange = false | { readonly limit: number; readonly window?: number };

/** A change in the form of the model, beside the form in which the program passes it. */
export interface Change {
  readonly given: unknown;
  readonly tier?: string;
  readonly policies: Readonly<Record<string, PolicyChange>>;
}

export interface Override {
  readonly change: Change;
  readonly since: number;
  readonly until: number | undefined;
  readonly by: string | undefined;
  readonly reason: string | undefined;
}

/** A policy in force for a request. `base` is the one whose count it shares: the configured one, or the policy itself if it has a new count. */
export interface InForce {
  readonly policy: Policy;
  readonly base: Policy;
  readonly isNew: boolean;
  readonly key: string;
}

const ALL = '*';
const placeOf = (by: string, key: string) => `${by}=${key}`;

export class Overrides {
  private readonly records = new Map<string, Override>();

  set(place: readonly [by: string, key: string] | undefined, override: Override | undefined): void {
    const name = place ? placeOf(...place) : ALL;
    if (override) this.records.set(name, override);
    else this.records.delete(name);
  }

  of(place: readonly [by: string, key: string] | undefined, now: number): Override | undefined {
    const override = this.records.get(place ? placeOf(...place) : ALL);
    return override && (override.until === undefined || now < override.until) ? override : undefined;
  }

  /** The ends of overrides up to a time. */
  ends(now: number): number[] {
    return [...this.records.values()].flatMap(({ until }) =>
      until !== undefined && until <= now ? [until] : [],
    );
  }

  /** The ends to come of overrides that concern a request. */
  endsAfter(keys: Keys, now: number): number[] {
    const names = new Set([ALL, ...Object.entries(keys).map(([by, key]) => placeOf(by, key))]);
    const ends = [...this.records].flatMap(([name, { until = 0 }]) =>
      names.has(name) && until > now ? [until] : [],
    );
    return [...new Set(ends)].sort((a, b) => a - b);
  }

  /** The policies that decide a request. */
  inForce(def: LimiterDef, tier: string | undefined, keys: Keys, now: number): InForce[] {
    const all = this.of(undefined, now)?.change;
    const dimensions = [...new Set(def.policies.map(({ by }) => by))];
    const ofKeys = dimensions.flatMap((by) => {
      const change = keys[by] === undefined ? undefined : this.of([by, keys[by]], now)?.change;
      return change ? [{ by, change }] : [];
    });
    const tiered = ofKeys.findLast(({ change }) => change.tier !== undefined);
    const given = tiered?.change.tier ?? all?.tier ?? tier;
    const policies = given === undefined ? def.policies : def.tiers[given]!;
    return policies.flatMap((base) => {
      const key = keys[base.by];
      if (key === undefined) return [];
      const own = ofKeys.find(({ by }) => by === base.by)?.change;
      const change =
        own?.tier === undefined ? (own?.policies[base.name] ?? all?.policies[base.name]) : undefined;
      const policy = applied(base, change);
      const isNew = hasNewCount(base, change);
      return policy ? [{ policy, base: isNew ? policy : base, isNew, key }] : [];
    });
  }
}

export function applied(base: Policy, change: PolicyChange | undefined): Policy | undefined {
  if (change === undefined) return base;
  if (change === false) return undefined;
  const { limit, window = base.window } = change;
  const burst =
    base.burst === undefined ? {} : { burst: Math.max(1, Math.round((base.burst * limit) / base.limit)) };
  return { ...base, limit, window, ...burst };
}

/** Whether a change starts a new count of a policy. */
export const hasNewCount = (base: Policy, change: PolicyChange | undefined): boolean =>
  Boolean(change) && ((change as Policy).window ?? base.window) !== base.window;

export const isBucket = ({ algorithm }: Pick<Policy, 'algorithm'>): boolean =>
  ['token-bucket', 'leaky-bucket', 'gcra'].includes(algorithm);
