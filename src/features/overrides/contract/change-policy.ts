import type { PolicySet } from '../../../contract/store.js';
import { variant } from '../../../contract/variant.js';
import { exactMilliseconds, type Duration } from '../../../common/duration.js';
import { invalidOption } from '../../../common/errors.js';
import {
  compilePolicies,
  parsePolicy,
  POLICY_FIELDS,
  policyWith,
} from '../../../contract/compile-policies.js';
import type { CompiledPolicy, Policy } from '../../../contract/policy.js';

/** Some fields of a policy; the others stay as configured. A configured `burst` changes in proportion to the limit. */
export interface PolicyChange {
  /** Units per window: a whole number of at least 1. */
  limit?: number | undefined;
  /** The length of the window: ms, or `'1h'`, up to 366 days. */
  window?: Duration | undefined;
  /** Buckets: the most units that can be spent at once. */
  burst?: number | undefined;
  /** Another algorithm. Fields unknown to the new algorithm are dropped. */
  algorithm?: NonNullable<Policy['algorithm']> | undefined;
  /** sliding-window: the number of sub-windows. */
  segments?: number | undefined;
  /** leaky-bucket: the longest time to hold a request for its turn. */
  maxDelay?: Duration | undefined;
  /** concurrency: the time after which a slot that was not given back is free again. */
  lease?: Duration | undefined;
  /** The weight of a tenant, if the key names a tenant of a shared limit: 1 to 1,000. */
  weight?: number | undefined;
}

const isChangeable = (field: string): boolean => field === 'weight' || CHANGEABLE.includes(field);

export const CHANGEABLE = POLICY_FIELDS.filter(
  (field) => !['name', 'by', 'shadow', 'count', 'unit', 'share', 'weight', 'thresholds'].includes(field),
);

/** Applies a change to a policy. @throws HeadgateError `HEADGATE_INVALID_OPTION`, `HEADGATE_UNKNOWN_OPTION` */
export function changedPolicy(policy: CompiledPolicy, change: string | PolicyChange): CompiledPolicy {
  const { source, algorithm, name } = policy;
  const given: PolicyChange & { name?: string } =
    typeof change === 'string' ? written(change, algorithm) : change;
  const fixed = Object.keys(given).find((field) => !isChangeable(field) && field !== 'name');
  if (fixed !== undefined) {
    const fix = `Omit ${fixed === 'count' ? 'attempts' : fixed}: an override cannot change it.`;
    throw invalidOption('override', change, fix);
  }
  const fields = Object.fromEntries(
    Object.entries(given).filter(([field, value]) => isChangeable(field) && value !== undefined),
  ) as PolicyChange;
  const isSame = fields.algorithm === undefined || fields.algorithm === algorithm;
  const kept = isSame
    ? source
    : Object.fromEntries(
        Object.entries(source).filter(
          ([field]) => !CHANGEABLE.includes(field) || ['limit', 'window'].includes(field),
        ),
      );
  const merged = { ...kept, ...fields, name } as Policy & { burst?: number };
  if (isSame && 'burst' in source && source.burst !== undefined && fields.burst === undefined)
    merged.burst = Math.max(1, Math.round((source.burst * merged.limit) / source.limit));
  return compilePolicies('override', [merged])[0]!;
}

/** Reads a change from text. Without an algorithm, the text has the algorithm of the changed policy. */
function written(text: string, algorithm: Policy['algorithm']): PolicyChange {
  const own = (): PolicyChange => parsePolicy(`${algorithm} ${text}`);
  let policy: PolicyChange;
  try {
    policy = parsePolicy(text);
  } catch (error) {
    try {
      return own();
    } catch {
      throw error;
    }
  }
  return policy.algorithm === undefined ? own() : policy;
}

/** The limits of a changed policy in an override's entry: the limit, then a bucket's params. Undefined if numbers cannot express it. */
export function limitsOf(policy: CompiledPolicy, to: CompiledPolicy): readonly number[] | undefined {
  const { kernel, id, window, traits } = policy;
  if (to.kernel !== kernel) return undefined;
  if (!traits.drains) return to.id === id ? [to.limit] : undefined;
  const isAlike = to.window === window && maxDelayOf(to) === maxDelayOf(policy);
  return isAlike ? [to.limit, ...Object.values(to.params)] : undefined;
}

/** The longest delay as configured: a policy by which a request waits may give turns further ahead. */
function maxDelayOf({ source }: CompiledPolicy): number {
  const { maxDelay = 0 } = source as PolicyChange;
  return exactMilliseconds('maxDelay', maxDelay, { least: 0 });
}

/** A set with the limits of an override, as a reply contains them. */
export const limitedSet = (set: PolicySet, limits: readonly number[]): PolicySet => {
  const change = () => ({ policies: set.policies.map((policy, i) => limitedTo(policy, limits[i]!)) });
  return variant(set, 'limits', change, limits.join(' '));
};

/** A policy with the limit of an override, for readers of a decision. */
function limitedTo(policy: CompiledPolicy, limit: number): CompiledPolicy {
  const { drains, aheadMs } = policy.traits;
  if (limit === policy.limit && !drains) return policy;
  const { traits } = changedPolicy(policy, { limit });
  if (!drains) return policyWith(policy, { limit, traits });
  // A waiting request gets a turn as far ahead as before.
  const ahead = aheadMs === undefined ? undefined : traits.reserving?.(aheadMs).traits;
  // An override may set another burst, which is not part of a reply. The time of a unit follows from the limit.
  const nextUnitMs = (_: number, resetMs: number): number => Math.min(resetMs, policy.window / limit);
  return policyWith(policy, { limit, traits: { ...traits, ...ahead, nextUnitMs } });
}
