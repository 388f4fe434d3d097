import { randomBytes } from 'node:crypto';
import { integer, type OptionTable } from '../../../common/options.js';
import { Aside } from './aside.js';
import type { Commands } from '../clients/commands.js';
import type { CountedDecision } from '../../../contract/announcement.js';
import { LimiterCounts, type CountedLimiter } from '../../counts.js';
import type { KeyText } from '../../keys.js';
import { clearTimeout, performance, setTimeout } from '../../../common/real-time.js';

/** Counts of decisions, for `headgate top`. */
export interface TopOptions {
  /**
   * Beyond 500 decisions of a second in this process, the key of one in this many decisions is counted, with this weight: 1 to 10,000.
   * Limiters and policies are counted exactly.
   * @default 16
   */
  sample?: number;
}

/** The rows of `TopOptions`. */
export const TOP_TABLE = { sample: integer(1, 10_000, 16) } satisfies OptionTable<TopOptions>;

/** The counts of one process and second. */
export interface Counted {
  readonly id: string;
  /** The number of decisions that a sampled key represents, or 1 if all keys were counted. */
  readonly sample: number;
  /** The time in which the decisions were counted, ms. Absent in earlier versions. */
  readonly ms?: number;
  readonly limiters: readonly CountedLimiter[];
}

/** The most limiters that are counted. */
const MAX_LIMITERS = 100;

/** The decisions of a second whose keys are all counted. Beyond them keys are sampled. */
const MAX_COUNTED_KEYS = 500;

/** The time between two messages, ms. */
const SEND_INTERVAL_MS = 1000;

/** The most entries of the stream. With 100 instances these are the last 20 seconds. */
const MAX_STREAM_ENTRIES = 2000;
export const STREAM_LIFE_MS = 60_000;

/** The Redis key of the stream. Without a colon between the braces, it is never a limiter's. */
export const topKey = (prefix: string): string => `${prefix}:{top}`;

/** Counts decisions in this process, and sends the counts to Redis once a second. Each decision calls it, so it must be cheap. */
export class Traffic {
  readonly #aside: Aside;
  readonly #key: string;
  readonly #sample: number;
  readonly #text: KeyText;
  readonly #id = randomBytes(6).toString('base64url');
  readonly #limiters = new Map<string, LimiterCounts>();
  /** The decisions since the last message. */
  #decisions = 0;
  /** The decisions to skip until the next key is sampled. */
  #skip: number;
  #timer: NodeJS.Timeout | undefined;
  /** The time at which the current counts began, by `performance.now()`. */
  #since = 0;

  constructor(commands: Commands, prefix: string, sample: number, text: KeyText) {
    this.#text = text;
    this.#aside = new Aside(commands, 'count');
    this.#key = topKey(prefix);
    this.#sample = sample;
    this.#skip = this.#randomSkip();
  }

  count(name: string, decision: CountedDecision): void {
    const counts = this.#limiters.get(name) ?? this.#add(name);
    if (!counts) return;
    counts.add(decision);
    if (++this.#decisions <= MAX_COUNTED_KEYS) return counts.addKey(decision, 1);
    if (--this.#skip > 0) return;
    this.#skip = this.#randomSkip();
    counts.addKey(decision, this.#sample);
  }

  #add(name: string): LimiterCounts | undefined {
    if (this.#limiters.size >= MAX_LIMITERS || !this.#aside.isPermitted) return undefined;
    const counts = new LimiterCounts();
    this.#limiters.set(name, counts);
    if (!this.#timer) {
      this.#since = performance.now();
      this.#timer = setTimeout(() => this.flush(), SEND_INTERVAL_MS).unref();
    }
    return counts;
  }

  /** Keys are sampled at random, because traffic may be periodic. On average every `sample`th decision. */
  #randomSkip(): number {
    return this.#sample === 1 ? 1 : 1 + Math.floor(Math.random() * (2 * this.#sample - 1));
  }

  /** Sends the counts. */
  flush(): void {
    this.#timer = undefined;
    const message: Counted = {
      id: this.#id,
      sample: this.#decisions > MAX_COUNTED_KEYS ? this.#sample : 1,
      ms: Math.round(performance.now() - this.#since),
      limiters: [...this.#limiters].map(([name, counts]) => counts.summary(name, this.#text)),
    };
    this.#limiters.clear();
    this.#decisions = 0;
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
