import { HeadgateError } from '../../common/errors.js';
import { compilePolicies } from '../../contract/compile-policies.js';
import { lacksLimits } from '../../features/overrides/key-limits.js';
import { entryInForce, type AppliedOverrides } from '../../features/overrides/contract/records.js';
import { visiblePolicies } from '../../features/shares/contract/shares.js';
import type { LiveLimiter } from '../../features/overrides/redis-check.js';
import type { Limiter } from '../../limiter/limiter.js';
import { overrideOf, type Override, type OverrideChange } from '../../limiter/overrides/override.js';
import { ALL_KEYS, escapeName } from '../../stores/keys.js';
import type { KeyPart, PartAnswer } from '../key-part.js';
import { limiterOn, withLimiter } from '../limiters.js';
import { type Limits, setsOf } from '../limits.js';
import type { Configuration, Published } from '../published.js';
import type { AdminWarning } from '../scope.js';
import type { State } from '../state.js';

/** The override that applies to a key: the key's own, or that of all keys. */
export type AppliedOverride = Override & {
  /** Whether it is the override of all keys. */
  readonly all: boolean;
};

const UNFIT: AdminWarning = {
  code: 'UNFIT_OVERRIDE',
  message:
    'the override does not fit all policies of the limiter any more, and those that it does not fit keep their limits. Remove or replace it.',
};

/** The override of a key in a limiter. */
export interface KeyOverride {
  /** The override that applies: the key's own, or that of all keys. */
  readonly override: AppliedOverride | null;
}

/** The part of overrides in the views of keys. */
export const overridePart: KeyPart<KeyOverride> = {
  absent: { override: null },
  of: ({ limits, limiter, place }) =>
    limits?.overrides ? overrideFor(limiter!, place) : Promise.resolve({ fields: overridePart.absent }),
};

/** The override that applies to a key, and a warning if it does not fit. */
async function overrideFor(
  limiter: Limiter,
  place: Record<string, string>,
): Promise<PartAnswer<KeyOverride>> {
  const own = await limiter.overrideOf(place);
  const found = own ?? (await limiter.overrideOf());
  if (!found) return { fields: overridePart.absent };
  const fields = { override: { ...found, all: !own } };
  try {
    limiter.overrides.check(own && place, found.change, {});
    return { fields };
  } catch (error) {
    if (!(error instanceof HeadgateError)) throw error;
    return { fields, doubt: UNFIT };
  }
}

/** Uses a limiter of a scope, and closes it. The limiter has read the override of all keys, if that is possible: earlier decisions would ignore it. */
export function decidingBy<T>(
  state: State,
  name: string,
  limits: Limits,
  use: (limiter: Limiter) => Promise<T>,
): Promise<T> {
  const isLive = limits.overrides ?? false;
  return withLimiter(limiterOn(state, name, limits, { isLive }), async (limiter) => {
    if (isLive) await limiter.overrideOf().catch(() => undefined);
    return use(limiter);
  });
}

/** The overrides of a limiter. */
export interface OverrideCounts {
  /** The number of keys with their own limits. */
  readonly keys: number;
  /** The override of all keys, or `null`. */
  readonly all: OverrideChange | null;
}

/** Counts the overrides of the limiters that support them. The index contains every overridden key. */
export async function countOverrides(
  state: State,
  scopes: readonly (readonly [name: string, configurations: readonly Configuration[]])[],
): Promise<ReadonlyMap<string, OverrideCounts>> {
  const live = scopes.filter(([, configurations]) => configurations.some(({ overrides }) => overrides));
  const names = live.map(([name]) => name);
  const owners = names.length > 0 ? await state.overrides.owners() : [];
  const now = await state.now();
  const counts = names.map(async (name) => {
    const head = `${escapeName(name)}:`;
    const keys = owners.filter((owner) => owner.startsWith(head) && owner !== head + ALL_KEYS).length;
    const entry = entryInForce(await state.overrides.recordOfAll(name), now);
    return [name, { keys, all: (entry && overrideOf(entry)?.change) ?? null }] as const;
  });
  return new Map(await Promise.all(counts));
}

/** The limiters with overrides, and the policies of each configuration. */
export function liveLimiters(published: Published | undefined): LiveLimiter[] {
  return [...(published?.scopes ?? [])].flatMap(([name, configurations]) => {
    const configured = configurations.flatMap((configuration) => {
      const limits = configuration.overrides ? published!.limitsIn(name, configuration) : undefined;
      return limits ? [new Map(compiledSets(limits))] : [];
    });
    return configured.length > 0 ? [{ name, configured }] : [];
  });
}

const compiledSets = (limits: Limits) =>
  setsOf(limits).map(([tier = '', some]) => [tier, compilePolicies(tier, some)] as const);

/** The override of all keys of a limiter, for looks at its keys. */
export interface OverrideOfAll {
  /** For the set by which the state is looked at. Undefined if the limiter has no overrides. */
  readonly applied: AppliedOverrides | undefined;
  /** Whether the override in force at a time is one that only a limiter can apply, such as another window or tier. */
  isOfOtherKind(now: number): boolean;
}

export async function overrideOfAll(state: State, name: string, limits: Limits): Promise<OverrideOfAll> {
  const record = limits.overrides && (await state.overrides.recordOfAll(name));
  const isOfOtherKind = (now: number): boolean => {
    const entry = entryInForce(record, now);
    if (!entry || entry.revision !== '') return entry !== undefined;
    const policies = compiledSets(limits).flatMap(([, some]) => visiblePolicies(some));
    return !entry.isDamaged && lacksLimits(entry, policies);
  };
  return {
    applied: limits.overrides ? { revisions: {}, all: typeof record === 'string' ? record : '' } : undefined,
    isOfOtherKind,
  };
}

/** The weight of a tenant in a policy by its override. Undefined if the override does not name one. */
export async function overriddenWeight(
  limiter: Limiter,
  place: Readonly<Record<string, string>>,
  policy: string,
): Promise<number | undefined> {
  return weightOfChange((await limiter.overrideOf(place))?.change, policy);
}

/** The weight in a change of a policy. Undefined if the change does not name one. Only a change by fields may. */
function weightOfChange(change: OverrideChange | undefined, policy: string): number | undefined {
  if (typeof change !== 'object') return undefined;
  const { weight, [policy]: own } = change as Record<string, unknown>;
  return typeof weight === 'number' ? weight : weightOfChange(own as OverrideChange | undefined, policy);
}
