import { DENIALS_LIFE_MS, MAX_CAUSES, MAX_KEYS_PER_HOUR, type DenialCounts } from '../../counts/denials.js';
import { DAY_LIFE_MS, HISTORY_LIFE_MS, MAX_HISTORIES, SECONDS_LIFE_MS } from '../../counts/history.js';
import type { Counted, CountSink, MinuteFields } from '../../counts/sink.js';
import { HOUR_MS, MINUTE_MS, STEP_MS } from '../../counts/times.js';
import type { Announcement } from '../../../contract/announcement.js';
import { performance } from '../../../common/real-time.js';
import { Traffic } from '../../counts/traffic.js';
import type { KeyText } from '../../keys.js';
import type { Commands } from '../clients/commands.js';
import { BestEffort } from './best-effort.js';
import { deniedKey, hourKey, minuteKey, namesKey, topKey } from './count-keys.js';

/** The most entries of the stream. With 100 instances these are the last 20 seconds. */
const MAX_STREAM_ENTRIES = 2000;

/** The time after which a write without an answer is given up, ms. */
const MAX_WRITE_MS = 60_000;

/** Counts the decisions of a store. @returns undefined without a `sample` */
export function trafficOf(
  commands: Commands,
  { prefix, sample, text }: { prefix: string; sample: number | undefined; text: KeyText },
  announced: ReadonlySet<Announcement>,
): Traffic | undefined {
  if (sample === undefined) return undefined;
  return new Traffic(new RedisCounts(commands, prefix), { sample, text }, announced);
}

/** Writes the counts of a process to Redis. */
export class RedisCounts implements CountSink {
  readonly #aside: BestEffort;
  readonly #prefix: string;
  /** The time by which the server is ahead of this process, ms, as far as known. */
  #ahead = 0;
  /** The time of the write under way, by `performance.now()`. */
  #sentAt = -Infinity;

  constructor(commands: Commands, prefix: string) {
    this.#aside = new BestEffort(commands, 'count');
    this.#prefix = prefix;
  }

  get isPermitted(): boolean {
    return this.#aside.isPermitted;
  }

  get isReady(): boolean {
    return this.#aside.isReady && performance.now() - this.#sentAt > MAX_WRITE_MS;
  }

  now(): number {
    return Date.now() + this.#ahead;
  }

  write(message: Counted, minutes: MinuteFields, denials: DenialCounts, start = this.now()): void {
    const prefix = this.#prefix;
    const minute = start - (start % MINUTE_MS);
    const names = [...minutes.keys()];
    const ofMinutes = names.map((name) => minuteKey(prefix, name, minute));
    const ofHours = names.map((name) => hourKey(prefix, name, start));
    const fields = [...minutes].flatMap(([name, own]) => [
      name,
      String(own.size),
      ...[...own].flatMap(([field, by]) => [field, String(by)]),
    ]);
    const bounds = [
      ...[MAX_STREAM_ENTRIES, SECONDS_LIFE_MS, HISTORY_LIFE_MS, MAX_HISTORIES],
      ...[DENIALS_LIFE_MS, MAX_KEYS_PER_HOUR, MAX_CAUSES, names.length],
      ...[Math.floor((start % HOUR_MS) / STEP_MS), DAY_LIFE_MS + HOUR_MS],
    ].map(String);
    const ofDenials = denials.flatMap((each) => [
      deniedKey(prefix, each.minute),
      deniedKey(prefix, each.minute, 'counts'),
    ]);
    const denied = denials.flatMap(({ owner, cause, minute: at, count, first, last }) =>
      [owner, cause, (at % HISTORY_LIFE_MS) / MINUTE_MS, count, first, last].map(String),
    );
    this.#sentAt = performance.now();
    this.#aside.send(
      [topKey(prefix), namesKey(prefix), ...ofMinutes, ...ofHours, ...ofDenials],
      [JSON.stringify(message), ...bounds, ...fields, ...denied],
      (_, serverTime) => {
        this.#sentAt = -Infinity;
        if (typeof serverTime === 'number') this.#ahead = serverTime - Date.now();
      },
    );
  }
}
