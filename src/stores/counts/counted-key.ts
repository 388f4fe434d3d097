// The keys for which a decision is counted: that of the deciding policy, and one for each other dimension of its policies.
import type { CountedDecision } from '../../contract/announcement.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { tenantDimension } from '../../contract/shares.js';

/** A key with its dimension, as `partTextOf` takes them. */
export type CountedPlace = readonly [dimension: string, key: string];

type CountedSet = CountedDecision['set'];

/** The key of the deciding policy or of the ban, and its dimension. Of a shared policy, it is the tenant's. */
export function decidingKey(
  { policy, policies, reason, key }: CountedDecision,
  set: CountedSet,
  subject: CountedDecision['subject'],
): CountedPlace {
  if (policy !== undefined) {
    // Usually the first policy decides.
    const at = policies[0]!.name === policy ? 0 : policies.findIndex(({ name }) => name === policy);
    const limitKey = policies[at]!.key;
    return typeof subject.key === 'string'
      ? [set.policies[at]!.by, limitKey]
      : keyOfPolicy(set, subject.key, at, limitKey);
  }
  const { names = [DEFAULT_DIMENSION], banBy = DEFAULT_DIMENSION } = set.dimensions ?? {};
  const at = reason === 'banned' ? Math.max(0, names.indexOf(banBy)) : 0;
  return [names[at] ?? DEFAULT_DIMENSION, typeof subject.key === 'string' ? key : (subject.key[at] ?? key)];
}

/** The keys of the other dimensions. A tenant has one key, however many policies count it, so that its requests add up. */
export function otherKeys(
  set: CountedSet,
  keys: readonly string[],
  [deciding]: CountedPlace,
): CountedPlace[] {
  const counted = new Set([ownDimension(deciding)]);
  const places: CountedPlace[] = [];
  for (const [i, { by, isHidden }] of set.policies.entries()) {
    const key = keys[set.dimensions!.names.indexOf(by)];
    if (isHidden || key === undefined) continue;
    const place = keyOfPolicy(set, keys, i, key);
    const dimension = ownDimension(place[0]);
    if (counted.has(dimension)) continue;
    counted.add(dimension);
    places.push(place);
  }
  return places;
}

/** The dimension of a key itself: of a tenant, without that of the limit. */
export const ownDimension = (dimension: string): string => dimension.slice(dimension.indexOf('/') + 1);

/**
 * The key of the tenant of a shared policy, with the key of the limit before it. Requests without a tenant are counted by the limit's key alone.
 *
 * @param limitKey the key by which the policy counts
 */
function keyOfPolicy(set: CountedSet, keys: readonly string[], at: number, limitKey: string): CountedPlace {
  const { by, share } = set.policies[at]!;
  if (share === undefined) return [by, limitKey];
  const dimension = tenantDimension(by, share);
  const tenant = keys[set.dimensions?.names.indexOf(dimension) ?? -1];
  return tenant ? [dimension, `${limitKey.length}:${limitKey}${tenant}`] : [by, limitKey];
}
