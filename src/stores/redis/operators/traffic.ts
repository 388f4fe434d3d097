import { randomBytes } from 'node:crypto';
import type { Decision } from '../../../common/decision.js';
import { integer, type OptionTable } from '../../../common/options.js';
import { Aside } from './aside.js';
import type { Commands } from '../clients/commands.js';
import type { KeyText } from '../../keys.js';
import { clearTimeout, setTimeout } from '../../../common/real-time.js';

/** Counts of decisions, for `headgate top`. */
export interface TopOptions {
  /**
   * The key of one in this many decisions is counted, with this weight: 1 to 10,000. Limiters and policies are counted exactly.
   * @default 16
   */
  sample?: number;
}

/** The rows of `TopOptions`. */
export const TOP_TABLE = { sample: integer(1, 10_000, 16) } satisfies OptionTable<TopOptions>;

/** The counts of one limiter in one instance and second. A pair is the admitted and the denied decisions. */
export interface CountedLimiter {
  readonly name: string;
  readonly counts: readonly [number, number];
  /** The denials by each policy, by name. Includes the denials that a shadow would have made. */
  readonly policies: Readonly<Record<string, number>>;
  /** The denials by anything other than a policy, by `decision.reason`. */
  readonly reasons: Readonly<Record<string, number>>;
  /** The most frequent keys, as written in Redis keys. With sampling the counts are estimates. */
  readonly keys: Readonly<Record<string, readonly [number, number]>>;
}

export interface Counted {
  readonly id: string;
  readonly sample: number;
  readonly limiters: readonly CountedLimiter[];
}

/** Limits of the counts in this process and in a message. */
const MAX_LIMITERS = 100;
const MAX_POLICIES = 32;
const MAX_KEYS = 1000;
const MAX_SENT_KEYS = 20;

/** The time between two messages, ms. */
const SEND_INTERVAL_MS = 1000;

/** The most entries of the stream. With 100 instances these are the last 20 seconds. */
const MAX_STREAM_ENTRIES = 2000;
const STREAM_LIFE_MS = 60_000;

/** The Redis key of the stream. Without a colon between the braces, it is never a limiter's. */
export const topKey = (prefix: string): string => `${prefix}:{top}`;

interface Counts {
  admitted: number;
  denied: number;
  readonly policies: Map<string, number>;
  readonly reasons: Map<string, number>;
  readonly keys: Map<string, [number, number]>;
  /** The decisions with a sampled key, including keys for which there was no room. */
  readonly sampled: [admitted: number, denied: number];
}

/** Counts decisions in this process, and sends the counts to Redis once a second. Each decision calls it, so it must be cheap. */
export class Traffic {
  readonly #aside: Aside;
  readonly #key: string;
  readonly #sample: number;
  readonly #text: KeyText;
  readonly #id = randomBytes(6).toString('base64url');
  readonly #limiters = new Map<string, Counts>();
  /** The decisions to skip until the next key is sampled. */
  #skip = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(commands: Commands, prefix: string, sample: number, text: KeyText) {
    this.#text = text;
    this.#aside = new Aside(commands, 'count');
    this.#key = topKey(prefix);
    this.#sample = sample;
  }

  count(name: string, { allowed, key, policies, reason }: Decision): void {
    const counts = this.#limiters.get(name) ?? this.#add(name);
    if (!counts) return;
    if (allowed) counts.admitted += 1;
    else counts.denied += 1;
    let byPolicy = false;
    for (let i = 0; i < policies.length; i++) {
      const policy = policies[i]!;
      if (policy.allowed) continue;
      byPolicy = true;
      const denied = counts.policies.get(policy.name);
      if (denied !== undefined || counts.policies.size < MAX_POLICIES)
        counts.policies.set(policy.name, (denied ?? 0) + 1);
    }
    // These counts need no limit, because there are few reasons.
    if (!allowed && !byPolicy && reason !== undefined)
      counts.reasons.set(reason, (counts.reasons.get(reason) ?? 0) + 1);
    if (--this.#skip <= 0) this.#take(counts, key, allowed);
  }

  #add(name: string): Counts | undefined {
    if (this.#limiters.size >= MAX_LIMITERS || !this.#aside.isPermitted) return undefined;
    const counts: Counts = {
      admitted: 0,
      denied: 0,
      policies: new Map(),
      reasons: new Map(),
      keys: new Map(),
      sampled: [0, 0],
    };
    this.#limiters.set(name, counts);
    this.#timer ??= setTimeout(() => this.#flush(), SEND_INTERVAL_MS).unref();
    return counts;
  }

  /** Samples one of `sample` decisions, at random, because traffic may be periodic. */
  #take({ keys, sampled }: Counts, key: string, allowed: boolean): void {
    this.#skip = this.#sample === 1 ? 1 : 1 + Math.floor(Math.random() * (2 * this.#sample - 1));
    const which = allowed ? 0 : 1;
    sampled[which] += 1;
    let counts = keys.get(key);
    if (!counts) {
      if (keys.size >= MAX_KEYS) return;
      keys.set(key, (counts = [0, 0]));
    }
    counts[which] += 1;
  }

  #flush(): void {
    this.#timer = undefined;
    const limiters = [...this.#limiters].map(([name, counts]) => counted(name, counts, this.#text));
    this.#limiters.clear();
    const message: Counted = { id: this.#id, sample: this.#sample, limiters };
    this.#aside.send(
      [this.#key],
      [JSON.stringify(message), String(MAX_STREAM_ENTRIES), String(STREAM_LIFE_MS)],
    );
  }

  /** Stops sending. */
  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#limiters.clear();
  }
}

function counted(name: string, counts: Counts, text: KeyText): CountedLimiter {
  const { admitted, denied, policies, reasons, keys, sampled } = counts;
  const shareOf = ([a, d]: readonly [number, number]): [number, number] => [
    share(a, sampled[0], admitted),
    share(d, sampled[1], denied),
  ];
  const most = [...keys]
    .sort(([, a], [, b]) => b[0] + b[1] - a[0] - a[1])
    .slice(0, MAX_SENT_KEYS)
    .map(([key, pair]) => [text(key), shareOf(pair)] as const);
  return {
    name,
    counts: [admitted, denied],
    policies: Object.fromEntries(policies),
    reasons: Object.fromEntries(reasons),
    keys: Object.fromEntries(most),
  };
}

/** Scales a sampled count up, such that the keys never have more than their limiter. */
const share = (count: number, looked: number, all: number): number =>
  looked === 0 ? 0 : Math.floor((count * all) / looked);
