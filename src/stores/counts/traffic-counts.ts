import type { CountedDecision } from '../../contract/announcement.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { tenantDimension } from '../../contract/shares.js';
import { partTextOf, type KeyText } from '../keys.js';
import { causeOf } from './denials.js';
import { UseHistogram, type UsedKeys } from './use-histogram.js';

/** The most policies and keys of a limiter that are counted in a second. */
const MAX_POLICIES = 32;
const MAX_KEYS = 1000;

/** The keys in a message: those with most denials, and of the rest those with most requests. */
const MAX_DENIED_KEYS = 20;
const MAX_BUSY_KEYS = 20;

/** The counts of a key: admitted and denied decisions, and the policy of the last denial, or the reason of one by no policy. */
export type CountedKey = [admitted: number, denied: number, policy?: string | null, reason?: string];

/** The waiting requests and the slots of a key, with the longest time of each, ms. */
export type CountedQueue = readonly [waiting: number, waitedMs: number, slots: number, heldMs: number];

interface KeyCounts {
  readonly counts: CountedKey;
  causes?: Map<string, number>;
}

/** The counts of one limiter in one process and second. A pair is the admitted and the denied decisions. */
export interface CountedLimiter {
  readonly name: string;
  readonly counts: readonly [number, number];
  /** The decisions of `onStoreError`. Absent without such decisions. */
  readonly degraded?: number;
  /** The denials by each policy, by name. Includes the denials that a shadow would have made. */
  readonly policies: Readonly<Record<string, number>>;
  /** The denials by anything other than a policy, by `decision.reason`. */
  readonly reasons: Readonly<Record<string, number>>;
  /** The keys with most denials and most requests, in the notation of owner texts. With sampling the counts are estimates. */
  readonly keys: Readonly<Record<string, Readonly<CountedKey>>>;
  /** The waiting and held requests, the most of each (`maxWaiting`), and the slots in use. Absent without any. */
  readonly now?: readonly [waiting: number, held: number, maxWaiting: number, slots: number];
  /** The keys with most of them, in the notation of owner texts. Absent without any, and in earlier versions. */
  readonly queues?: Readonly<Record<string, CountedQueue>>;
}

export class LimiterCounts {
  #admitted = 0;
  #denied = 0;
  #degraded = 0;
  readonly use: UseHistogram;
  readonly #policies = new Map<string, number>();
  readonly #reasons = new Map<string, number>();
  /** By dimension, then by key. */
  readonly #keys = new Map<string, Map<string, KeyCounts>>();
  #keyCount = 0;
  /** The decisions whose key was counted, including keys for which there was no room. */
  readonly #counted: [admitted: number, denied: number] = [0, 0];

  /** @param used the windows of keys, which outlast these counts */
  constructor(name: string, used: UsedKeys) {
    this.use = new UseHistogram(name, used);
  }

  /** Counts a decision. @param times the number of decisions that it represents for its key, or 0 if its key is not counted */
  add(decision: CountedDecision, times: number): void {
    const { allowed, policies, reason, degraded } = decision;
    if (allowed) this.#admitted++;
    else this.#denied++;
    if (degraded) this.#degraded++;
    // The policies of a wait that ended without an admission may admit the request.
    const isOfWait = reason === 'wait-timeout' || reason === 'queue-full' || reason === 'aborted';
    if (!degraded && !isOfWait && (reason === undefined || decision.policy !== undefined))
      this.use.add(decision, times > 0);
    let isOfPolicy = false;
    for (let i = 0; i < policies.length && !isOfWait; i++) {
      const { name, allowed: admits } = policies[i]!;
      if (admits) continue;
      isOfPolicy = true;
      if (this.#policies.size < MAX_POLICIES || this.#policies.has(name)) increment(this.#policies, name);
    }
    // These counts need no limit, because there are few reasons.
    if (!allowed && !isOfPolicy && reason !== undefined) increment(this.#reasons, reason);
    if (times === 0) return;
    const which = allowed ? 0 : 1;
    this.#counted[which] += times;
    const [dimension, key] = decidingKey(decision);
    let ofDimension = this.#keys.get(dimension);
    if (!ofDimension) this.#keys.set(dimension, (ofDimension = new Map<string, KeyCounts>()));
    let own = ofDimension.get(key);
    if (!own) {
      if (this.#keyCount >= MAX_KEYS) return;
      this.#keyCount++;
      ofDimension.set(key, (own = { counts: [0, 0] }));
    }
    own.counts[which] += times;
    if (allowed) return;
    const denying = isOfWait ? undefined : decision.policy;
    if (denying !== undefined) own.counts.splice(2, 2, denying);
    else if (reason !== undefined) own.counts.splice(2, 2, null, reason);
    const causes = (own.causes ??= new Map<string, number>());
    const cause = causeOf(denying, reason);
    causes.set(cause, (causes.get(cause) ?? 0) + times);
  }

  summary(name: string, text: KeyText): CountedLimiter {
    const all = [...this.#keys].flatMap(([dimension, keys]) =>
      [...keys].map(([key, { counts }]) => ({
        key: partTextOf(dimension, key, text),
        counts: this.#scaled(counts),
      })),
    );
    all.sort((a, b) => b.counts[1] - a.counts[1] || b.counts[0] - a.counts[0]);
    const busy = all.splice(MAX_DENIED_KEYS).sort((a, b) => total(b.counts) - total(a.counts));
    const keys = [...all, ...busy.slice(0, MAX_BUSY_KEYS)].map(({ key, counts }) => [key, counts] as const);
    return {
      name,
      counts: [this.#admitted, this.#denied],
      ...(this.#degraded > 0 && { degraded: this.#degraded }),
      policies: Object.fromEntries(this.#policies),
      reasons: Object.fromEntries(this.#reasons),
      keys: Object.fromEntries(keys),
    };
  }

  /** The denials of each key by cause, with the keys in the notation of owner texts. */
  *denials(text: KeyText): Generator<readonly [key: string, cause: string, count: number]> {
    for (const [dimension, keys] of this.#keys)
      for (const [key, { causes = [] }] of keys)
        for (const [cause, times] of causes) {
          const count = share(times, this.#counted[1], this.#denied);
          if (count > 0) yield [partTextOf(dimension, key, text), cause, count];
        }
  }

  /** Scales counts, such that the keys never have more than their limiter. */
  #scaled([admitted, denied, ...cause]: CountedKey): CountedKey {
    const counts = [
      share(admitted, this.#counted[0], this.#admitted),
      share(denied, this.#counted[1], this.#denied),
    ] as const;
    return [...counts, ...cause];
  }
}

const total = ([admitted, denied]: CountedKey): number => admitted + denied;

const share = (count: number, counted: number, all: number): number =>
  counted === 0 ? 0 : Math.floor((count * all) / counted);

function increment(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
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

/** The key of the deciding policy or of the ban, and its dimension. Of a shared policy, it is the tenant's. */
function decidingKey(decision: CountedDecision): readonly [dimension: string, key: string] {
  const { policy, policies, reason, key, set, subject } = decision;
  if (policy !== undefined) {
    // Usually the first policy decides.
    const at = policies[0]!.name === policy ? 0 : policies.findIndex(({ name }) => name === policy);
    const [own, limitKey] = [set.policies[at]!, policies[at]!.key];
    if (own.share === undefined) return [own.by, limitKey];
    const dimension = tenantDimension(own.by, own.share);
    const tenant = tenantOf(decision, dimension, limitKey);
    return tenant ? [dimension, tenant] : [own.by, limitKey];
  }
  const { names = [DEFAULT_DIMENSION], banBy = DEFAULT_DIMENSION } = set.dimensions ?? {};
  const at = reason === 'banned' ? Math.max(0, names.indexOf(banBy)) : 0;
  return [names[at] ?? DEFAULT_DIMENSION, typeof subject.key === 'string' ? key : (subject.key[at] ?? key)];
}
