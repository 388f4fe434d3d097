import type { CountedDecision } from '../contract/announcement.js';
import { DEFAULT_DIMENSION } from '../contract/key.js';
import { keyTextOf, type KeyText } from './keys.js';
import { UseCounts } from './use.js';

/** The most policies and keys of a limiter that are counted in a second. */
const MAX_POLICIES = 32;
const MAX_KEYS = 1000;

/** The keys in a message: those with most denials, and of the rest those with most requests. */
const MAX_DENIED_KEYS = 20;
const MAX_BUSY_KEYS = 20;

/** The counts of a key: admitted and denied decisions, and the policy of the last denial. */
export type CountedKey = [admitted: number, denied: number, policy?: string];

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
}

/** The counts of a limiter until the next message. */
export class LimiterCounts {
  #admitted = 0;
  #denied = 0;
  #degraded = 0;
  readonly use = new UseCounts();
  readonly #policies = new Map<string, number>();
  readonly #reasons = new Map<string, number>();
  /** By dimension, then by key. */
  readonly #keys = new Map<string, Map<string, CountedKey>>();
  #keyCount = 0;
  /** The weights of all decisions whose key was counted, including keys for which there was no room. */
  readonly #weights: [admitted: number, denied: number] = [0, 0];

  /** Counts a decision. */
  add(decision: CountedDecision): void {
    const { allowed, policies, reason, degraded } = decision;
    if (allowed) this.#admitted++;
    else this.#denied++;
    if (degraded) this.#degraded++;
    else if (allowed && reason === undefined && !decision.isLook) this.use.add(decision);
    let isOfPolicy = false;
    for (let i = 0; i < policies.length && !gaveUp(reason); i++) {
      const { name, allowed: admits } = policies[i]!;
      if (admits) continue;
      isOfPolicy = true;
      if (this.#policies.size < MAX_POLICIES || this.#policies.has(name)) increment(this.#policies, name);
    }
    // These counts need no limit, because there are few reasons.
    if (!allowed && !isOfPolicy && reason !== undefined) increment(this.#reasons, reason);
  }

  /** Counts the key by which a decision was made. @param weight the number of decisions that this one represents */
  addKey(decision: CountedDecision, weight: number): void {
    const { allowed, policy, reason } = decision;
    const which = allowed ? 0 : 1;
    this.#weights[which] += weight;
    const [dimension, key] = decidingKey(decision);
    let ofDimension = this.#keys.get(dimension);
    if (!ofDimension) this.#keys.set(dimension, (ofDimension = new Map<string, CountedKey>()));
    let counts = ofDimension.get(key);
    if (!counts) {
      if (this.#keyCount >= MAX_KEYS) return;
      this.#keyCount++;
      ofDimension.set(key, (counts = [0, 0]));
    }
    counts[which] += weight;
    if (!allowed && policy !== undefined && !gaveUp(reason)) counts[2] = policy;
  }

  /** The counts for a message. */
  summary(name: string, text: KeyText): CountedLimiter {
    const all = [...this.#keys].flatMap(([dimension, keys]) =>
      [...keys].map(([key, counts]) => ({ dimension, key, counts: this.#scaled(counts) })),
    );
    all.sort((a, b) => b.counts[1] - a.counts[1] || b.counts[0] - a.counts[0]);
    const busy = all.splice(MAX_DENIED_KEYS).sort((a, b) => total(b.counts) - total(a.counts));
    const keys = [...all, ...busy.slice(0, MAX_BUSY_KEYS)].map(
      ({ dimension, key, counts }) => [keyTextOf(dimension, key, text), counts] as const,
    );
    return {
      name,
      counts: [this.#admitted, this.#denied],
      ...(this.#degraded > 0 && { degraded: this.#degraded }),
      policies: Object.fromEntries(this.#policies),
      reasons: Object.fromEntries(this.#reasons),
      keys: Object.fromEntries(keys),
    };
  }

  /** Scales weights, such that the keys never have more than their limiter. */
  #scaled([admitted, denied, policy]: CountedKey): CountedKey {
    const counts = [
      share(admitted, this.#weights[0], this.#admitted),
      share(denied, this.#weights[1], this.#denied),
    ] as const;
    return policy === undefined ? [...counts] : [...counts, policy];
  }
}

const total = ([admitted, denied]: CountedKey): number => admitted + denied;

const share = (count: number, weights: number, all: number): number =>
  weights === 0 ? 0 : Math.floor((count * all) / weights);

function increment(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

/** Whether the end of a wait is the reason. The policies of such a decision may admit the request. */
function gaveUp(reason: CountedDecision['reason']): boolean {
  return reason === 'wait-timeout' || reason === 'queue-full' || reason === 'aborted';
}

/** The key of the deciding policy or of the ban, and its dimension. */
function decidingKey({
  policy,
  policies,
  reason,
  key,
  set,
  subject,
}: CountedDecision): readonly [dimension: string, key: string] {
  if (policy !== undefined) {
    const at = policies.findIndex(({ name }) => name === policy);
    return [set.policies[at]!.by, policies[at]!.key];
  }
  const { names = [DEFAULT_DIMENSION], banBy = DEFAULT_DIMENSION } = set.dimensions ?? {};
  const at = reason === 'banned' ? Math.max(0, names.indexOf(banBy)) : 0;
  return [names[at] ?? DEFAULT_DIMENSION, typeof subject.key === 'string' ? key : (subject.key[at] ?? key)];
}
