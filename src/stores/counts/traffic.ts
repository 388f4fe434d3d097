import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { integer, type OptionTable } from '../../common/options.js';
import { VERSION } from '../../common/version.js';
import { clearTimeout, performance, setTimeout } from '../../common/real-time.js';
import type { Announcement, CountedDecision } from '../../contract/announcement.js';
import { bothQueues, openLimiters, type Gauged, type KeyQueue } from '../../contract/gauges.js';
import { placeOfId } from '../../contract/dimension-sets.js';
import { escapeName, partTextOf, type KeyText } from '../keys.js';
import { DenialBooks } from './denials.js';
import { History } from './history.js';
import { MINUTE_MS } from './times.js';
import { LatencyHistogram } from './latency-histogram.js';
import type { Counted, CountSink, StoreHealth } from './sink.js';
import { UsedKeys } from './use-histogram.js';
import { LimiterCounts, type CountedLimiter, type CountedQueue, type Downs } from './traffic-counts.js';

/** Counts of decisions, for operators. */
export interface CountOptions {
  /**
   * Counts the key of one in this many decisions beyond 500 a second: 1 to 10,000.
   * Limiters and policies are counted exactly.
   * @default 16
   */
  sample?: number | undefined;
}

export const COUNT_TABLE = { sample: integer(1, 10_000, 16) } satisfies OptionTable<CountOptions>;

const MAX_LIMITERS = 100;

/** The decisions of a second whose keys are all counted. Beyond them keys are sampled. */
const MAX_COUNTED_KEYS = 500;

/** The most keys of a limiter whose waiting requests and slots are written. */
export const MAX_QUEUES = 20;

const SEND_INTERVAL_MS = 1000;

/** The time between two additions to the history, ms, because each field costs the server as much as a message. */
const HISTORY_INTERVAL_MS = 5000;

/** The age of the knowledge whether the store is down, ms. */
const DOWN_MS = 100;

interface Settings {
  readonly sample: number;
  readonly text: KeyText;
}

/** Counts decisions in this process, and writes the counts to the store once a second. Each decision calls it, so it must be cheap. */
export class Traffic {
  /** The latencies of the store's answers, which the store adds. */
  readonly latency = new LatencyHistogram();
  readonly #sink: CountSink;
  readonly #settings: Settings;
  readonly #announced: ReadonlySet<Announcement>;
  readonly #id = randomBytes(6).toString('base64url');
  readonly #limiters = new Map<string, LimiterCounts>();
  readonly #history = new History();
  readonly #denials = new DenialBooks();
  readonly #used = new UsedKeys();
  /** The decisions since the last message. */
  #decisions = 0;
  /** The decisions to skip until the next key is sampled. */
  #skip: number;
  #timer: NodeJS.Timeout | undefined;
  /** The time at which the current counts began, and the time of the last addition to the history, by `performance.now()`. */
  #since = 0;
  /** The start of the minute of the first of the current counts, by the store's clock, ms since 1970. */
  #minute = 0;
  #historySince = -Infinity;
  #down: keyof Downs | undefined;
  /** The time of `#down`, by `performance.now()`. */
  #downAt = -Infinity;

  /** @param announced all limiters of the store */
  constructor(sink: CountSink, settings: Settings, announced: ReadonlySet<Announcement>) {
    this.#sink = sink;
    this.#settings = settings;
    this.#announced = announced;
    this.#skip = this.#randomSkip();
  }

  /** Begins to send, after a limiter was announced. Waiting requests and slots are sent without decisions, too. */
  begin(): void {
    if (this.#timer || !this.#sink.isPermitted) return;
    this.#since = performance.now();
    this.#sendLater();
  }

  #sendLater(): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.flush();
      if (this.#announced.size > 0 && this.#sink.isPermitted) this.#sendLater();
    }, SEND_INTERVAL_MS).unref();
  }

  count(name: string, decision: CountedDecision): void {
    const counts = this.#limiters.get(name) ?? this.#add(name);
    if (!counts) return;
    let times = 1;
    if (++this.#decisions > MAX_COUNTED_KEYS) {
      const isSampled = --this.#skip <= 0;
      if (isSampled) this.#skip = this.#randomSkip();
      times = isSampled ? this.#settings.sample : 0;
    }
    counts.add(decision, times, decision.degraded ? this.#downOf() : undefined);
  }

  /** The cause of an outage of the store, or `undefined` if the store is up. Each degraded decision asks, so the answer is kept for a moment. */
  #downOf(): keyof Downs | undefined {
    const now = performance.now();
    if (now - this.#downAt < DOWN_MS) return this.#down;
    this.#downAt = now;
    this.#down = downOf(openLimitersOn(this.#announced));
    return this.#down;
  }

  #add(name: string): LimiterCounts | undefined {
    if (this.#limiters.size >= MAX_LIMITERS || !this.#sink.isPermitted) return undefined;
    if (this.#limiters.size === 0) this.#minute = minuteOf(this.#sink.now());
    const counts = new LimiterCounts(name, this.#used);
    this.#limiters.set(name, counts);
    this.begin();
    return counts;
  }

  /** Keys are sampled at random, because traffic may be periodic. On average every `sample`th decision. */
  #randomSkip(): number {
    const { sample } = this.#settings;
    return sample === 1 ? 1 : 1 + Math.floor(Math.random() * (2 * sample - 1));
  }

  /**
   * Sends the counts, also those of earlier seconds in which the store was not ready.
   *
   * @param isLast whether the history is sent, too, although it is not yet time
   */
  flush(isLast = false): void {
    const now = performance.now();
    const ms = Math.max(1, Math.round(now - this.#since));
    if (!this.#sink.isReady && !isLast) return this.#keep(now);
    this.#since = now;
    const open = openLimitersOn(this.#announced);
    const limiters = this.#summaries(open);
    const isTime = isLast || now - this.#historySince >= HISTORY_INTERVAL_MS;
    if (isTime && !this.#history.isLate) this.#historySince = now;
    const { start, fields: minutes } = isTime ? this.#history.take(isLast) : NO_MINUTES;
    const denials = isTime ? this.#denials.take() : [];
    if (limiters.length + minutes.size + denials.length === 0) return;
    const latency = this.latency.take();
    const message: Counted = {
      id: this.#id,
      sample: this.#decisions > MAX_COUNTED_KEYS ? this.#settings.sample : 1,
      ms,
      limiters,
      ...{ host: hostname(), pid: process.pid, since: Math.round(performance.timeOrigin), version: VERSION },
      ...healthOf(open),
      ...(latency && { latency }),
    };
    this.#decisions = 0;
    this.#sink.write(message, minutes, denials, start);
  }

  /** Keeps the counts of a past minute for the history, while the store does not answer. Rates of that time are not written. */
  #keep(now: number): void {
    if (this.#limiters.size === 0 || minuteOf(this.#sink.now()) === this.#minute) return;
    this.#summaries([]);
    this.#since = now;
  }

  /** The counts of each limiter, which also become part of the history. The counts are then empty. */
  #summaries(open: readonly Gauged[]): CountedLimiter[] {
    const waits = waitsOf(open, this.#settings.text);
    // Decisions belong to the minute in which they began to be counted, however late they are written.
    const start = this.#minute;
    const now = Math.max(start, Math.min(this.#sink.now(), start + MINUTE_MS - 1));
    const summaries = [...this.#limiters].map(([name, counts]) => {
      const summary = counts.summary(name, this.#settings.text);
      this.#history.add(summary, counts.use.policies, start);
      for (const because of ['own', 'other'] as const)
        for (const [key, cause, count] of counts.denials(this.#settings.text, because))
          this.#denials[because].add(`${escapeName(name)}:${key}`, cause, count, now);
      return summary;
    });
    this.#limiters.clear();
    for (const name of waits.keys())
      if (!summaries.some((each) => each.name === name))
        summaries.push(new LimiterCounts(name, this.#used).summary(name, this.#settings.text));
    return summaries.map((summary) => {
      return { ...summary, ...waits.get(summary.name) };
    });
  }

  /** Sends what is left after the store's last limiter was closed: the process may end before the second does. */
  end(): void {
    if (this.#announced.size === 0) this.flush(true);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.flush(true);
    this.#limiters.clear();
  }
}

const NO_MINUTES: ReturnType<History['take']> = { fields: new Map() };

const minuteOf = (time: number): number => time - (time % MINUTE_MS);

/** The open limiters of this process that use a store. */
function openLimitersOn(announced: ReadonlySet<Announcement>): Gauged[] {
  const sources = new Set([...announced].map(({ source }) => source));
  return openLimiters().filter(({ source }) => sources.has(source));
}

type Waits = Required<Pick<CountedLimiter, 'now' | 'queues'>>;

/** The waiting requests and the slots of limiters that have any, by name. */
function waitsOf(open: readonly Gauged[], text: KeyText): Map<string, Waits> {
  const all = new Map<string, { readonly now: Waits['now']; readonly queues: Map<string, KeyQueue> }>();
  for (const limiter of open) {
    const { name, gauges } = limiter;
    const { waiting, held, maxWaiting, slots } = gauges;
    if (waiting + held + slots === 0) continue;
    const { now, queues } = all.get(name) ?? { now: [0, 0, 0, 0], queues: new Map<string, KeyQueue>() };
    for (const [id, queue] of limiter.queues()) queues.set(id, bothQueues(queues.get(id), queue));
    all.set(name, { now: [now[0] + waiting, now[1] + held, now[2] + maxWaiting, now[3] + slots], queues });
  }
  return new Map([...all].map(([name, { now, queues }]) => [name, { now, queues: longestOf(queues, text) }]));
}

/** The keys with most waiting requests, then those with the slots that are held longest. */
function longestOf(queues: ReadonlyMap<string, KeyQueue>, text: KeyText): Waits['queues'] {
  const sorted = [...queues].sort(([, a], [, b]) => b.waiting - a.waiting || b.heldMs - a.heldMs);
  return Object.fromEntries(
    sorted.slice(0, MAX_QUEUES).map(([id, { waiting, waitedMs, slots, heldMs }]) => {
      const queue: CountedQueue = [waiting, Math.round(waitedMs), slots, Math.round(heldMs)];
      return [partTextOf(...placeOfId(id), text), queue];
    }),
  );
}

/** The cause of the outage of a store or of one of its servers, as one of the limiters sees it. */
function downOf(open: readonly Gauged[]): keyof Downs | undefined {
  const down = open.find(({ health }) => health.state === 'down' || health.serversDown.length > 0);
  if (!down) return undefined;
  return down.health.lastError?.code === 'HEADGATE_STORE_TIMEOUT' ? 'unanswered' : 'unreachable';
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
