import { entryInForce, parseRecord, recordDimensions } from '../contract/overrides.js';
import type { CompiledPolicy } from '../contract/policy.js';
import { malformedReply, type UsageReply } from '../contract/reply.js';
import { isReply, perSet, type PolicySet, type Query, type Store, type Subject } from '../contract/store.js';
import { sharedOf, visiblePolicies } from '../contract/shares.js';
import { countedKey, fullQuotaOf } from '../contract/thresholds.js';
import { remainingOf, resetOf } from '../contract/verdicts.js';
import { overrideOf, type Override } from './overrides/override.js';

/** The quota of a key by one policy. */
export interface PolicyUsage {
  /** The policy's name. */
  readonly name: string;
  /** The key whose quota the policy counts: the request's key, or its key of the policy's dimension (`by`). */
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

/** Asks a store about a key. @throws HeadgateError `HEADGATE_MALFORMED_REPLY`, or the store's error */
export async function askUsage(store: Store, subject: Subject): Promise<UsageReply> {
  const reply = await (store.usage ? store.usage(subject) : lookedUp(store, subject));
  if (reply.ban < 0 || !isReply({ ...reply, ban: 0 }, subject.set)) throw malformedReply(reply);
  return reply;
}

const withoutBan = perSet((set): PolicySet => ({ ...set, ban: undefined }));

/** The usage by a store without the method: a store around a store may only have the five methods that every store has. */
async function lookedUp(store: Store, subject: Subject): Promise<UsageReply> {
  const query: Query = { ...subject, cost: 0, peek: true, lease: '' };
  const reply = await store.decide(query);
  const { ban } = reply;
  const looked = ban > 0 ? await store.decide({ ...query, set: withoutBan(subject.set) }) : reply;
  const names = subject.set.overrides ? recordDimensions(subject.set) : [];
  const read = async (by: string) => [by, (await store.overrides!.read({ subject, by }))[0]] as const;
  return { ...looked, ban, records: Object.fromEntries(await Promise.all(names.map(read))) };
}

/** The usage in a store's answer. */
export function usageOf(subject: Subject, { now, ban, verdicts, records }: UsageReply): Usage {
  const { set } = subject;
  const all = set.overrides?.all ?? '';
  const shared = sharedOf(set);
  const policies = visiblePolicies(set.policies).map((configured, i): PolicyUsage => {
    const policy = overridden(configured, `${records[configured.by] ?? ''}\n${all}`, now);
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
  // Stores read the records in different orders.
  const entries = recordDimensions(set).map((by) => entryInForce(records[by] ?? '', now));
  const entry = entries.find((each) => each !== undefined);
  return {
    policies,
    bannedUntil: ban > 0 ? now + ban : undefined,
    override: entry && overrideOf(entry),
  };
}

function overridden(policy: CompiledPolicy, record: string, now: number): CompiledPolicy {
  const parsed = parseRecord(record);
  return parsed.policies([policy], parsed.entries([policy], now))[0]!;
}
