import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { integer, type OptionTable } from '../../../common/options.js';
import { Aside } from './aside.js';
import { HISTORY_LIFE_MS, STREAM_LIFE_MS, topKey } from './count-keys.js';
import { History, MAX_HISTORIES } from './history.js';
import type { Commands } from '../clients/commands.js';
import type { Announcement, CountedDecision } from '../../../contract/announcement.js';
import { openLimiters, type Gauged } from '../../../contract/gauges.js';
import { LimiterCounts, type CountedLimiter } from '../../counts.js';
import type { KeyText } from '../../keys.js';
import { clearTimeout, performance, setTimeout } from '../../../common/real-time.js';

/** Counts of decisions, for `headgate top`. */
export interface TopOptions {
  /**
   * Counts the key of one in this many decisions, with this weight, beyond 500 decisions of a second: 1 to 10,000.
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
  /** The name of the host and the number of the process. Absent in earlier versions, as are the health. */
  readonly host?: string;
  readonly pid?: number;
  /** The health of the store, unless it is up without failures. */
  readonly health?: StoreHealth;
}

/** The health of a store, as the limiter with the worst one sees it. */
export interface StoreHealth {
  /** `'down'`: requests no longer wait for the store. `'slow'`: the store is up, but answers later than `timeout`. */
  readonly state: 'up' | 'slow' | 'down';
  /** The failures since the store last answered in time. */
  readonly failures: number;
  /** The calls whose answers the process was too busy to read in time, since its start. */
  readonly late: number;
}

/** The most limiters that are counted. */
const MAX_LIMITERS = 100;

/** The decisions of a second whose keys are all counted. Beyond them keys are sampled. */
const MAX_COUNTED_KEYS = 500;

/** The time between two messages, ms. */
const SEND_INTERVAL_MS = 1000;

/** The time between two additions to the history, ms, because each field costs the server as much as a message. */
const HISTORY_INTERVAL_MS = 5000;

/** The most entries of the stream. With 100 instances these are the last 20 seconds. */
const MAX_STREAM_ENTRIES = 2000;

/** The store's settings that counting needs. */
interface Settings {
  readonly prefix: string;
  readonly sample: number;
  readonly text: KeyText;
}

/** Counts decisions in this process, and sends the counts to Redis once a second. Each decision calls it, so it must be cheap. */
export class Traffic {
  readonly #aside: Aside;
  readonly #settings: Settings;
  readonly #announced: ReadonlySet<Announcement>;
  readonly #id = randomBytes(6).toString('base64url');
  readonly #limiters = new Map<string, LimiterCounts>();
  readonly #history: History;
  /** The decisions since the last message. */
  #decisions = 0;
  /** The decisions to skip until the next key is sampled. */
  #skip: number;
  #timer: NodeJS.Timeout | undefined;
  /** The time at which the current counts began, and the time of the last addition to the history, by `performance.now()`. */
  #since = 0;
  #historySince = -Infinity;
  /** The time by which the server is ahead of this process, ms, as far as known. */
  #ahead = 0;

  /** @param announced all limiters of the store */
  constructor(commands: Commands, settings: Settings, announced: ReadonlySet<Announcement>) {
    this.#aside = new Aside(commands, 'count');
    this.#settings = settings;
    this.#announced = announced;
    this.#history = new History(settings.prefix);
    this.#skip = this.#randomSkip();
  }

  /** Begins to send, after a limiter was announced. Waiting requests and slots are sent without decisions, too. */
  begin(): void {
    if (this.#timer || !this.#aside.isPermitted) return;
    this.#since = performance.now();
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.flush();
      if (this.#announced.size > 0) this.begin();
    }, SEND_INTERVAL_MS).unref();
  }

  count(name: string, decision: CountedDecision): void {
    const counts = this.#limiters.get(name) ?? this.#add(name);
    if (!counts) return;
    counts.add(decision);
    if (++this.#decisions <= MAX_COUNTED_KEYS) return counts.addKey(decision, 1);
    if (--this.#skip > 0) return;
    this.#skip = this.#randomSkip();
    counts.addKey(decision, this.#settings.sample);
  }

  #add(name: string): LimiterCounts | undefined {
    if (this.#limiters.size >= MAX_LIMITERS || !this.#aside.isPermitted) return undefined;
    const counts = new LimiterCounts();
    this.#limiters.set(name, counts);
    this.begin();
    return counts;
  }

  /** Keys are sampled at random, because traffic may be periodic. On average every `sample`th decision. */
  #randomSkip(): number {
    const { sample } = this.#settings;
    return sample === 1 ? 1 : 1 + Math.floor(Math.random() * (2 * sample - 1));
  }

  /** Sends the counts. */
  flush(): void {
    const now = performance.now();
    const open = openLimitersOn(this.#announced);
    const limiters = this.#summaries(open);
    const isTime = now - this.#historySince >= HISTORY_INTERVAL_MS;
    const { keys, args } = isTime ? this.#history.take(Date.now() + this.#ahead) : { keys: [], args: [] };
    if (isTime) this.#historySince = now;
    if (limiters.length === 0 && keys.length === 0) return;
    const message: Counted = {
      id: this.#id,
      sample: this.#decisions > MAX_COUNTED_KEYS ? this.#settings.sample : 1,
      ms: Math.max(1, Math.round(now - this.#since)),
      limiters,
      ...{ host: hostname(), pid: process.pid, ...healthOf(open) },
    };
    this.#decisions = 0;
    const bounds = [MAX_STREAM_ENTRIES, STREAM_LIFE_MS, HISTORY_LIFE_MS, MAX_HISTORIES].map(String);
    this.#aside.send(
      [topKey(this.#settings.prefix), ...keys],
      [JSON.stringify(message), ...bounds, ...args],
      (_, serverTime) => {
        if (typeof serverTime === 'number') this.#ahead = serverTime - Date.now();
      },
    );
  }

  /** The counts of each limiter, which also become part of the history. The counts are then empty. */
  #summaries(open: readonly Gauged[]): CountedLimiter[] {
    const waits = waitsOf(open);
    const summaries = [...this.#limiters].map(([name, counts]) => {
      const summary = counts.summary(name, this.#settings.text);
      this.#history.add(summary, counts.use.levels);
      return summary;
    });
    this.#limiters.clear();
    for (const name of waits.keys())
      if (!summaries.some((each) => each.name === name))
        summaries.push(new LimiterCounts().summary(name, this.#settings.text));
    return summaries.map((summary) => {
      const now = waits.get(summary.name);
      return now ? { ...summary, now } : summary;
    });
  }

  /** Stops sending. */
  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#limiters.clear();
  }
}

/** The open limiters of this process that use a store. */
function openLimitersOn(announced: ReadonlySet<Announcement>): Gauged[] {
  const sources = new Set([...announced].map(({ source }) => source));
  return openLimiters().filter(({ source }) => sources.has(source));
}

/** The waiting requests and the slots of limiters that have any, by name. */
function waitsOf(open: readonly Gauged[]): Map<string, NonNullable<CountedLimiter['now']>> {
  const waits = new Map<string, NonNullable<CountedLimiter['now']>>();
  for (const { name, gauges } of open) {
    const { waiting, held, maxWaiting, slots } = gauges;
    if (waiting + held + slots === 0) continue;
    const [ofWaiting, ofHeld, ofMax, ofSlots] = waits.get(name) ?? [0, 0, 0, 0];
    waits.set(name, [ofWaiting + waiting, ofHeld + held, ofMax + maxWaiting, ofSlots + slots]);
  }
  return waits;
}

const STATES: readonly StoreHealth['state'][] = ['up', 'slow', 'down'];

/** The worst health of limiters. Empty if all are up without failures. */
function healthOf(open: readonly Gauged[]): { health?: StoreHealth } {
  let worst = { state: 0, failures: 0, late: 0 };
  for (const { health } of open) {
    const { failures, late } = health;
    const state = health.state === 'down' ? 2 : health.slow ? 1 : 0;
    worst = {
      state: Math.max(worst.state, state),
      failures: Math.max(worst.failures, failures),
      late: Math.max(worst.late, late),
    };
  }
  const isFine = worst.state + worst.failures + worst.late === 0;
  return isFine ? {} : { health: { ...worst, state: STATES[worst.state]! } };
}
