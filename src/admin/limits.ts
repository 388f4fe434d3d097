import { checkShape } from '../common/validate.js';
import { INLINE_FIELDS, LIMITER_OPTIONS, type LimiterOptions } from '../limiter/options.js';
import { validPolicies } from '../contract/compile-policies.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import type { Policies, Policy } from '../contract/policy.js';
import { wrongArgument } from './typed-keys.js';

/** Options, or the text of a single policy. */
export interface Limits {
  /** Empty if each request has a tier. */
  readonly policies: readonly Policy[];
  /** Whether `policies` is empty because the chosen tier has no limit. */
  readonly isUnlimited?: boolean | undefined;
  /** The policies of each tier. */
  readonly tiers: ReadonlyMap<string, readonly Policy[]>;
  /** Whether the limiter is a shadow, which never denies. */
  readonly shadow: boolean;
  /** Whether the limiter supports overrides. */
  readonly overrides?: boolean | undefined;
}

/** Limits that an operator passes, for limiters that do not publish theirs. */
export interface GivenLimits {
  /** The policies of the limiter, as in its options. @default the published policies */
  policies?: Policies | undefined;
  /** The policies of each tier of the limiter. */
  tiers?: Readonly<Record<string, Policies>> | undefined;
  /** Whether the limiter is a shadow, which never denies. @default false */
  shadow?: boolean | undefined;
}

export const LIMIT_FIELDS: readonly (keyof GivenLimits)[] = ['policies', 'tiers', 'shadow'];

/**
 * The limits in a limiter's policies or options, as in a file. Other options are ignored.
 *
 * @param where the place of the value, for messages
 * @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION`
 */
export function parseLimits(where: string, value: unknown): Limits {
  if (Array.isArray(value) || typeof value === 'string') return checked(where, value as Policies, false);
  checkShape(where, value, [...LIMITER_OPTIONS, ...INLINE_FIELDS]);
  const { policies, tiers, shadow = false, ...rest } = value as LimiterOptions & { policies?: Policies };
  const inline = Object.entries(rest).filter(([field]) => INLINE_FIELDS.includes(field));
  const sole = inline.length > 0 || tiers === undefined ? [Object.fromEntries(inline) as never] : undefined;
  return checked(where, policies ?? sole, shadow, tiers);
}

function checked(
  where: string,
  policies: Policies | undefined,
  shadow: boolean,
  tiers: Readonly<Record<string, Policies>> = {},
): Limits {
  const named = Object.entries(tiers).map(
    ([tier, own]) => [tier, validPolicies(`${where}: ${tier}`, own)] as const,
  );
  return {
    policies: policies === undefined ? [] : validPolicies(where, policies),
    tiers: new Map(named),
    shadow,
    // Overrides in the state are in force, whether or not the operator knows them.
    overrides: true,
  };
}

/** Checks passed limits. @returns undefined if there are none @throws HeadgateError `HEADGATE_INVALID_OPTION` */
export function limitsOf({ policies, tiers = {}, shadow = false }: GivenLimits): Limits | undefined {
  if (policies === undefined && Object.keys(tiers).length === 0) return undefined;
  return checked('policies', policies, shadow, tiers);
}

/** The limits with a tier's policies, or without a tier, with the policies for requests without one. @throws HeadgateError */
export function ofTier(limits: Limits, name: string, tier: string | undefined): Limits {
  const policies = tier === undefined ? limits.policies : limits.tiers.get(tier);
  const isPlan = tier !== undefined || limits.tiers.size === 0;
  if (policies && (policies.length > 0 || isPlan))
    return { ...limits, policies, isUnlimited: policies.length === 0 };
  const known = [...limits.tiers.keys()].map((each) => JSON.stringify(each)).join(', ');
  const which = known === '' ? 'has no tiers' : `has the tiers ${known}`;
  const problem = tier === undefined ? 'missing' : `there is no tier ${JSON.stringify(tier)}`;
  throw wrongArgument(`tier: ${problem}. The limiter ${JSON.stringify(name)} ${which}.`);
}

/** The policies of requests without a tier and of all tiers. */
export const policiesOf = ({ policies, tiers }: Limits): Policy[] => [
  ...policies,
  ...[...tiers.values()].flat(),
];

/** The policies for requests without a tier, and of each tier. */
export const setsOf = ({ policies, tiers }: Limits) =>
  [[undefined, policies] as const, ...tiers].filter(([, some]) => some.length > 0);

/** The policies that count a key of this dimension. @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` if there are none */
export function policiesBy(dimension: string, policies: readonly Policy[]): Policy[] {
  const some = policies.filter(({ by = DEFAULT_DIMENSION }) => by === dimension);
  if (some.length > 0 || policies.length === 0) return some;
  const known = [...new Set(policies.map(({ by = DEFAULT_DIMENSION }) => by))].join(', ');
  throw wrongArgument(`dimension: no policy of this limiter is by '${dimension}'. Pass one of: ${known}.`);
}

/** The limits with other policies in each tier. */
export function mapped(limits: Limits, change: (policies: readonly Policy[]) => readonly Policy[]): Limits {
  const tiers = [...limits.tiers].map(([tier, policies]) => [tier, change(policies)] as const);
  return { ...limits, policies: change(limits.policies), tiers: new Map(tiers) };
}

/** The limits of one dimension. @throws HeadgateError `HEADGATE_INVALID_ARGUMENT` if no policy counts this dimension */
export function ofDimension(limits: Limits, dimension: string): Limits {
  policiesBy(dimension, limits.policies);
  const narrowed = mapped(limits, (all) => all.filter(({ by = DEFAULT_DIMENSION }) => by === dimension));
  return { ...narrowed, tiers: new Map([...narrowed.tiers].filter(([, policies]) => policies.length > 0)) };
}
