import type { CountedDecision } from '../../contract/announcement.js';
import { DEFAULT_DIMENSION } from '../../contract/key.js';
import { tenantDimension } from '../../features/shares/contract/shares.js';
import { partTextOf, type KeyText } from '../keys.js';
import { causeOf } from './denials.js';
import { UseHistogram, type UsedKeys } from './use-histogram.js';

/** The most policies of a limiter that are counted in a second, and the most keys: as many that decide, and as many of other dimensions. */
const MAX_POLICIES = 32;
const MAX_KEYS = 1000;

/** The keys in a message: those with most denials, and of the rest those with most requests. */
const MAX_DENIED_KEYS = 20;
const MAX_BUSY_KEYS = 20;

/**
 * The counts of a key: admitted and denied decisions, and the policy of the last denial, or the reason of one by no policy. If the key has only
 * denials because of the key of another dimension, that dimension follows. Earlier versions count a decision for one key, and write none.
 */
export type CountedKey = [
  admitted: number,
  denied: number,
  policy?: string | null,
  reason?: string | null,
  deniedFor?: string,
];

/** The waiting requests and the slots of a key, with the longest time of each, ms. */
export type CountedQueue = readonly [waiting: number, waitedMs: number, slots: number, heldMs: number];

/** A key with its dimension, as `partTextOf` takes them. */
type CountedPlace = readonly [dimension: string, key: string];

type CountedSet = CountedDecision['set'];

interface KeyCounts {
  readonly counts: CountedKey;
  /** The denials because of the key itself. */
  ownDenials: number;
  causes?: Map<string, number>;
  /** The causes of denials because of the key of another dimension. */
  otherCauses?: Map<string, number>;
}

/** The decisions while a store was down: it could not be reached, or failed; or its answers did not come in time. */
export interface Downs {
  unreachable: number;
  unanswered: number;
}

/** The counts of one limiter in one process and second. A pair is the admitted and the denied decisions. */
export interface CountedLimiter {
  readonly name: string;
  readonly counts: readonly [number, number];
  /** The decisions of `onStoreError`. Absent without such decisions. */
  readonly degraded?: number;
  /** Those of `degraded` while the store was down, by its cause. Absent without any, and in earlier versions. */
  readonly down?: Downs;
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
  readonly #down: Downs = { unreachable: 0, unanswered: 0 };
  readonly use: UseHistogram;
  readonly #policies = new Map<string, number>();
  readonly #reasons = new Map<string, number>();
  /** By dimension, then by key. */
  readonly #keys = new Map<string, Map<string, KeyCounts>>();
  #keyCount = 0;
  /** The keys that were first counted for a decision of another dimension. */
  #otherKeyCount = 0;
  /** The decisions whose key was counted, including keys for which there was no room. */
  readonly #counted: [admitted: number, denied: number] = [0, 0];

  /** @param used the windows of keys, which outlast these counts */
  constructor(name: string, used: UsedKeys) {
    this.use = new UseHistogram(name, used);
  }

  /**
   * Counts a decision.
   *
   * @param times the number of decisions that it represents for its key, or 0 if its key is not counted
   * @param down the cause of an outage of the store, of a degraded decision
   */
  add(decision: CountedDecision, times: number, down?: keyof Downs): void {
    const { allowed, policies, reason, degraded, set, subject } = decision;
    if (allowed) this.#admitted++;
    else this.#denied++;
    if (degraded) this.#degraded++;
    if (down) this.#down[down]++;
    const isWait = ENDS_OF_WAITS.has(reason);
    if (!degraded && !isWait && (reason === undefined || decision.policy !== undefined))
      this.use.add(decision, set, subject, times > 0);
    let isOfPolicy = false;
    for (let i = 0; i < policies.length && !isWait; i++) {
      const { name, allowed: admits } = policies[i]!;
      if (admits) continue;
      isOfPolicy = true;
      if (this.#policies.size < MAX_POLICIES || this.#policies.has(name)) increment(this.#policies, name);
    }
    // These counts need no limit, because there are few reasons.
    if (!allowed && !isOfPolicy && reason !== undefined) increment(this.#reasons, reason);
    if (times === 0) return;
    this.#counted[allowed ? 0 : 1] += times;
    const deciding = decidingKey(decision, set, subject);
    this.#addKey(decision, times, deciding);
    if (typeof subject.key === 'string') return;
    for (const place of otherKeys(set, subject.key, deciding)) this.#addKey(decision, times, place, deciding);
  }

  /** Counts a decision for a key. @param deciding the key that decided, if it is another one */
  #addKey(
    { allowed, reason, policy }: CountedDecision,
    times: number,
    [dimension, key]: CountedPlace,
    deciding?: CountedPlace,
  ): void {
    let ofDimension = this.#keys.get(dimension);
    if (!ofDimension) this.#keys.set(dimension, (ofDimension = new Map<string, KeyCounts>()));
    let own = ofDimension.get(key);
    if (!own) {
      // Keys that decide always have room, however many keys of other dimensions a client sends.
      if ((deciding ? this.#otherKeyCount : this.#keyCount) >= MAX_KEYS) return;
      if (deciding) this.#otherKeyCount++;
      else this.#keyCount++;
      ofDimension.set(key, (own = { counts: [0, 0], ownDenials: 0 }));
    }
    own.counts[allowed ? 0 : 1] += times;
    if (allowed) return;
    const denying = ENDS_OF_WAITS.has(reason) ? undefined : policy;
    const cause = causeOf(denying, reason);
    if (deciding === undefined) {
      own.ownDenials += times;
      if (denying !== undefined) own.counts.splice(2, 3, denying);
      else if (reason !== undefined) own.counts.splice(2, 3, null, reason);
    } else if (own.ownDenials === 0) {
      const of = denying === undefined ? ([null, reason ?? null] as const) : ([denying, null] as const);
      own.counts.splice(2, 3, ...of, ownDimension(deciding[0]));
    }
    const causes = deciding
      ? (own.otherCauses ??= new Map<string, number>())
      : (own.causes ??= new Map<string, number>());
    causes.set(cause, (causes.get(cause) ?? 0) + times);
  }

  summary(name: string, text: KeyText): CountedLimiter {
    const all = [...this.#keys].flatMap(([dimension, keys]) =>
      [...keys].map(([key, { counts, ownDenials }]) => ({
        key: partTextOf(dimension, key, text),
        counts: this.#scaled(counts),
        ownDenials,
      })),
    );
    // A client with one denied key may send any number of other keys, which must not displace keys that are denied themselves.
    all.sort((a, b) => b.ownDenials - a.ownDenials || b.counts[1] - a.counts[1] || b.counts[0] - a.counts[0]);
    const busy = all.splice(MAX_DENIED_KEYS).sort((a, b) => total(b.counts) - total(a.counts));
    const keys = [...all, ...busy.slice(0, MAX_BUSY_KEYS)].map(({ key, counts }) => [key, counts] as const);
    return {
      name,
      counts: [this.#admitted, this.#denied],
      ...(this.#degraded > 0 && { degraded: this.#degraded }),
      ...(this.#down.unreachable + this.#down.unanswered > 0 && { down: this.#down }),
      policies: Object.fromEntries(this.#policies),
      reasons: Object.fromEntries(this.#reasons),
      keys: Object.fromEntries(keys),
    };
  }

  /**
   * The denials of each key by cause, with the keys in the notation of owner texts.
   *
   * @param because of which keys: the denied keys themselves, or those of another dimension
   */
  *denials(
    text: KeyText,
    because: 'own' | 'other' = 'own',
  ): Generator<readonly [key: string, cause: string, count: number]> {
    for (const [dimension, keys] of this.#keys)
      for (const [key, { causes, otherCauses }] of keys)
        for (const [cause, times] of (because === 'own' ? causes : otherCauses) ?? []) {
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

/** The key of the deciding policy or of the ban, and its dimension. Of a shared policy, it is the tenant's. */
function decidingKey(
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
function otherKeys(set: CountedSet, keys: readonly string[], [deciding]: CountedPlace): CountedPlace[] {
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
const ownDimension = (dimension: string): string => dimension.slice(dimension.indexOf('/') + 1);

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

/** The reasons for the end of a wait without an admission. The policies may admit such a request. */
const ENDS_OF_WAITS: ReadonlySet<CountedDecision['reason']> = new Set([
  'wait-timeout',
  'queue-full',
  'aborted',
]);

const total = ([admitted, denied]: CountedKey): number => admitted + denied;

const share = (count: number, counted: number, all: number): number =>
  counted === 0 ? 0 : Math.floor((count * all) / counted);

function increment(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}
