import { THRESHOLD_TAG } from './crossings.js';
import { fullQuotaOf } from './crossing-reports.js';
import type { Place } from '../feature.js';

/** The thresholds that were reported: the end of their window, then each in thousandths with the highest limit at which it was reported. */
type Mark = readonly [until: number, ...levels: number[]];

const NO_MARK: Mark = [0];

export function forget(place: Place): void {
  const { part } = place;
  const marks = place.kept(THRESHOLD_TAG);
  for (const { id, thresholds } of part.set.policies) if (thresholds) marks.write(id, NO_MARK);
}

/**
 * Reports the thresholds that a charge has crossed, and marks them. The function `cross` of `thresholds.lua` does the same.
 *
 * @param i the policy, whose column has the verdict after the charge
 * @param before the remaining units before the charge
 */
export function cross(place: Place, i: number, before: number, now: number): void {
  const { part, policies, columns } = place;
  const policy = policies[i]!;
  if (!policy.thresholds) return;
  const { remaining, reset } = columns[i]!;
  const isConfigured = policies === part.set.policies;
  const limit = isConfigured ? policy.traits.capacity : fullQuotaOf(policy, now);
  const isReached = (level: number, left: number): boolean => (limit - left) * 1000 >= level * limit;
  const reached = policy.thresholds.filter((level) => isReached(level, remaining));
  if (reached.length === 0) return;
  const marks = place.kept(THRESHOLD_TAG);
  const stored = (marks.read(policy.id) as Mark | undefined) ?? NO_MARK;
  const [, ...levels] = stored[0] > now ? stored : NO_MARK;
  const limits = new Map<number, number>();
  for (let at = 0; at < levels.length; at += 2) limits.set(levels[at]!, levels[at + 1]!);
  const fresh = reached.filter((level) => {
    const last = limits.get(level);
    return last === undefined || (limit > last && !isReached(level, before));
  });
  if (fresh.length === 0) return;
  for (const level of fresh) {
    limits.set(level, limit);
    const used = limit - remaining;
    place.events.push({ at: part.at[i]!, level, used, limit, resetAfterMs: reset });
  }
  marks.write(policy.id, [now + reset, ...[...limits].flat()]);
}
