import { malformedReply, type UsageReply } from '../contract/reply.js';
import { isReply, type Store, type Subject } from '../contract/store.js';
import { sharedOf, visiblePolicies } from '../features/shares/contract/shares.js';
import { countedKey, fullQuotaOf } from '../features/thresholds/crossing-reports.js';
import { remainingOf, resetOf } from '../contract/verdicts.js';
import { lookPastBan } from '../features/bans/ban-waits.js';
import type { Override } from './overrides/override.js';
import { overrideBy, policyBy, readRecords } from './overrides/read-records.js';

/** The quota of a key by one policy. */
export interface PolicyUsage {
  /** The policy's name. */
  readonly name: string;
  /** The counted key: the request's, or that of the policy's dimension (`by`). */
  readonly key: string;
  /** Units per window, or slots, as the key's override sets them. */
  readonly limit: number;
  /** The part of a shared limit that the tenant may have now. Absent unless the policy has `share`. */
  readonly share?: number;
  /**
   * Units that are charged now; of a bucket, the units of the burst, and of a shared limit the units of the share, that cannot be spent now.
   * At most `limit`, or the burst.
   */
  readonly used: number;
  /** Whole units that could be spent now. */
  readonly remaining: number;
  /** The counted unit: the policy's `unit`, by default `'requests'`, or `'concurrent-requests'` of a concurrency policy. */
  readonly unit: string;
  /** The time at which the quota is full again, ms since 1970 by the store's clock. Of a calendar policy, the end of the period. */
  readonly resetsAt: number;
}

/** The quotas of a key: see `Limiter.usage`. */
export interface Usage {
  /** A quota for each policy, in the order of the policies. */
  readonly policies: readonly PolicyUsage[];
  /** The end of the key's ban, ms since 1970, or `undefined` if the key is not banned. */
  readonly bannedUntil: number | undefined;
  /** The override of the key itself, or of the first of several keys with an override. */
  readonly override: Override | undefined;
}

/** The usage if neither a policy nor a ban applies. */
export const NO_USAGE: Usage = { policies: [], bannedUntil: undefined, override: undefined };

/**
 * Asks a store about a key. A store around a store may have only the five methods that every store has.
 *
 * @throws HeadgateError `HEADGATE_MALFORMED_REPLY`, or the store's error
 */
export async function askUsage(store: Store, subject: Subject): Promise<UsageReply> {
  const reply = store.usage
    ? await store.usage(subject)
    : { ...(await lookPastBan(store, subject)), records: await readRecords(store, subject) };
  if (reply.ban < 0 || !isReply({ ...reply, ban: 0 }, subject.set)) throw malformedReply(reply);
  return reply;
}

/** The usage in a store's answer. @param dimensions those of the key's overrides, in the limiter's order. Empty without overrides */
export function usageOf(
  subject: Subject,
  { now, ban, verdicts, records }: UsageReply,
  dimensions: readonly string[] = [],
): Usage {
  const { set } = subject;
  const shared = sharedOf(set);
  const policies = visiblePolicies(set.policies).map((configured, i): PolicyUsage => {
    const policy = policyBy(records, configured, set, now);
    const { name, limit, traits } = policy;
    const pool = shared.find((each) => each.policy === i)?.pool;
    const share = pool === undefined ? undefined : remainingOf(verdicts, pool);
    return {
      ...{ name, key: countedKey(subject, policy), limit, remaining: remainingOf(verdicts, i) },
      ...(share !== undefined && { share }),
      used: Math.max(0, (share ?? fullQuotaOf(policy, now)) - remainingOf(verdicts, i)),
      unit: traits.unit ?? 'requests',
      resetsAt: traits.periodEnd?.(now) ?? now + resetOf(verdicts, i),
    };
  });
  return {
    policies,
    bannedUntil: ban > 0 ? now + ban : undefined,
    override: overrideBy(records, dimensions, now),
  };
}
