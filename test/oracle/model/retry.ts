// The earliest time at which a request would be admitted if nobody else spends. Overrides that end until then change limits on the way.
import { Bucket } from './bucket.js';
import { costOf } from './costs.js';
import type { LimiterModel } from './limiter.js';
import { SharedCount } from './shares.js';
import { NEVER, type Cost, type Keys } from './types.js';

/** The time until all policies admit, and, of a sole policy, until it is full again. @param only the policy, if only one counts */
export function walk(
  limiter: LimiterModel,
  keys: Keys,
  tier: string | undefined,
  cost: Cost,
  now: number,
  only?: string,
) {
  const buckets = new Map<unknown, Bucket>();
  const changes = limiter.overrides.endsAfter(keys, now);
  let [wait, reset] = [-1, 0];
  for (const [i, time] of [now, ...changes].entries()) {
    const next = changes[i] ?? NEVER;
    const looks = limiter.overrides
      .inForce(limiter.def, tier, keys, time)
      .filter(({ policy }) => (only === undefined ? !policy.shadow : policy.name === only))
      .map((part) => {
        const { count } = limiter.counts.of(limiter.def.name, part);
        const units = costOf(cost, part.policy.name);
        if (count instanceof SharedCount) {
          const look = count.look(time, units, part.policy);
          return { ...look, wait: look.wait === NEVER ? NEVER : 0 };
        }
        if (!(count instanceof Bucket)) return count.look(time, units, part.policy);
        const bucket = buckets.get(count) ?? count.copy();
        buckets.set(count, bucket);
        bucket.drain(time, part.policy);
        return bucket.look(time, units, part.policy);
      });
    const longest = Math.max(0, ...looks.map((look) => look.wait));
    const fullest = Math.max(0, ...looks.map((look) => look.reset));
    if (wait < 0 && (longest === 0 || time + longest < next)) wait = time + longest - now;
    // The reset counts by the limits in force now.
    if (i === 0) reset = fullest;
  }
  return { wait: wait < 0 ? NEVER : wait, reset };
}
