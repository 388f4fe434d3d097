// The keys for which a decision is counted: that of the deciding policy, and one for each other dimension of its policies.
import type { CountedDecision } from '../../contract/announcement.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { tenantDimension } from '../../contract/shares.js';

/** A key with its dimension, as `partTextOf` takes them. */
export type CountedPlace = readonly [dimension: string, key: string];

/** The key of the deciding policy or of the ban, and its dimension. Of a shared policy, it is the tenant's. */
export function decidingKey(decision: CountedDecision): CountedPlace {
  const { policy, policies, reason, key, set, subject } = decision;
  if (policy !== undefined) {
    // Usually the first policy decides.
    const at = policies[0]!.name === policy ? 0 : policies.findIndex(({ name }) => name === policy);
    return keyOfPolicy(decision, at, policies[at]!.key);
  }
  const { names = [DEFAULT_DIMENSION], banBy = DEFAULT_DIMENSION } = set.dimensions ?? {};
  const at = reason === 'banned' ? Math.max(0, names.indexOf(banBy)) : 0;
  return [names[at] ?? DEFAULT_DIMENSION, typeof subject.key === 'string' ? key : (subject.key[at] ?? key)];
}

/** The keys of the other dimensions. A tenant has one key, however many policies count it, so that its requests add up. */
export function otherKeys(decision: CountedDecision, [deciding]: CountedPlace): CountedPlace[] {
  const { set, subject } = decision;
  if (typeof subject.key === 'string') return [];
  const counted = new Set([ownDimension(deciding)]);
  const places: CountedPlace[] = [];
  for (const [i, { by, isHidden }] of set.policies.entries()) {
    const key = subject.key[set.dimensions!.names.indexOf(by)];
    if (isHidden || key === undefined) continue;
    const place = keyOfPolicy(decision, i, key);
    const dimension = ownDimension(place[0]);
    if (counted.has(dimension)) continue;
    counted.add(dimension);
    places.push(place);
  }
  return places;
}

/** The dimension of a key itself: of a tenant, without that of the limit. */
export const ownDimension = (dimension: string): string => dimension.slice(dimension.indexOf('/') + 1);

/** @param limitKey the key by which the policy counts */
function keyOfPolicy(decision: CountedDecision, at: number, limitKey: string): CountedPlace {
  const { by, share } = decision.set.policies[at]!;
  if (share === undefined) return [by, limitKey];
  const dimension = tenantDimension(by, share);
  const tenant = tenantOf(decision, dimension, limitKey);
  return tenant ? [dimension, tenant] : [by, limitKey];
}

/** The tenant of a shared policy, with the key of the limit before it. Requests without a tenant are counted by the limit's key alone. */
function tenantOf(
  { set, subject }: CountedDecision,
  dimension: string,
  limitKey: string,
): string | undefined {
  const at = set.dimensions?.names.indexOf(dimension) ?? -1;
  const tenant = typeof subject.key === 'string' ? undefined : subject.key[at];
  return tenant ? `${limitKey.length}:${limitKey}${tenant}` : undefined;
}
