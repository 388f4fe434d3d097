import { deniedKey, hourKey, minuteKey, namesKey, topKey } from '../../stores/redis/operators/count-keys.js';
import { hoursUntil, parseDenials, type KeyDenials } from '../../stores/counts/denials.js';
import {
  isOfDay,
  minuteOf,
  SECONDS_LIFE_MS as STREAM_LIFE_MS,
  type MinuteCounts,
} from '../../stores/counts/history.js';
import type { Counted } from '../../stores/counts/sink.js';
import type { KeyText } from '../../stores/keys.js';
import { HOUR_MS, MINUTE_MS, STEP_MS } from '../../stores/counts/times.js';
import { startsUntil } from '../kept-counts.js';
import type { MinutesByLimiter, RecentCounts } from '../state.js';
import type { Calls } from './calls.js';

const MAX_COUNTS = 5000;

/** Reads the counts of decisions. Counts that were read before are kept, so that a view of each second reads a second's counts. */
export class CountReader {
  readonly text: KeyText;
  readonly #calls: Calls;
  /** By the id in the stream, the oldest first. */
  readonly #known = new Map<string, { readonly at: number; readonly counted: Counted }>();

  constructor(calls: Calls, text: KeyText) {
    this.#calls = calls;
    this.text = text;
  }

  async read(): Promise<RecentCounts> {
    const now = await this.#calls.now();
    const oldest = now - STREAM_LIFE_MS;
    const last = [...this.#known.keys()].at(-1);
    // After a server's clock went back, the known counts are from the future.
    const isAhead = last !== undefined && timeOf(last) > now;
    for (const [id, { at }] of this.#known) if (isAhead || at < oldest) this.#known.delete(id);
    // Redis 6.0 knows no exclusive ranges, so the last counts are read again.
    const since = this.#known.size > 0 ? last! : String(Math.max(0, oldest));
    const range = ['+', since, 'COUNT', String(MAX_COUNTS)];
    const found = await this.#calls.call('XREVRANGE', topKey(this.#calls.prefix), ...range);
    for (const [id, [, text = '']] of (found as [id: string, fields: string[]][]).reverse()) {
      const counted = parse(text);
      if (counted) this.#known.set(id, { at: timeOf(id), counted });
    }
    return { now, counts: [...this.#known.values()] };
  }

  async minutes(count: number, length: number, name: string | undefined): Promise<MinutesByLimiter> {
    const { prefix } = this.#calls;
    const minutes = startsUntil(await this.#calls.now(), count, length);
    const since = String(minutes[0]!);
    const all = await this.#calls.call('ZRANGEBYSCORE', namesKey(prefix), since, '+inf');
    const names = (all as string[]).filter((each) => name === undefined || each === name).sort();
    const limiters = new Map<string, MinuteCounts[]>();
    for (const each of names) {
      const fields =
        length === MINUTE_MS ? await this.#ofMinutes(each, minutes) : await this.#ofSteps(each, minutes);
      limiters.set(each, fields.map(minuteOf));
    }
    return { minutes, limiters };
  }

  async #ofMinutes(name: string, minutes: readonly number[]): Promise<string[][]> {
    const keys = minutes.map((minute) => minuteKey(this.#calls.prefix, name, minute));
    return (await Promise.all(keys.map((key) => this.#calls.call('HGETALL', key)))).map(pairsOf);
  }

  /** The fields of each ten minutes. A hash has those of an hour, with the number of the ten minutes behind each name. */
  async #ofSteps(name: string, starts: readonly number[]): Promise<string[][]> {
    const hours = [...new Set(starts.map((start) => Math.floor(start / HOUR_MS)))];
    const keys = hours.map((hour) => hourKey(this.#calls.prefix, name, hour * HOUR_MS));
    const hashes = await Promise.all(keys.map((key) => this.#calls.call('HGETALL', key)));
    const found = new Map(hours.map((hour, i) => [hour, pairsOf(hashes[i])]));
    return starts.map((start) => {
      const pairs = found.get(Math.floor(start / HOUR_MS))!;
      const step = String((start % HOUR_MS) / STEP_MS);
      return pairs.flatMap((field, i) =>
        i % 2 === 0 && field.endsWith(step) && isOfDay(field.slice(0, -1)) ? [field[0]!, pairs[i + 1]!] : [],
      );
    });
  }

  async denials(owners: readonly string[]): Promise<KeyDenials[][]> {
    const hours = hoursUntil(await this.#calls.now());
    if (owners.length === 0) return [];
    const records = await Promise.all(
      hours.map((hour) => this.#calls.call('HMGET', deniedKey(this.#calls.prefix, hour), ...owners)),
    );
    return owners.map((_, i) =>
      hours.flatMap((hour, at) => {
        const text = (records[at] as (string | null)[])[i];
        return (typeof text === 'string' && parseDenials(text, hour)) || [];
      }),
    );
  }
}

/** Alternating fields and values of a hash, whatever form the client gives it. */
function pairsOf(reply: unknown): string[] {
  if (Array.isArray(reply)) return reply as string[];
  return [
    ...(reply instanceof Map ? reply : Object.entries(reply as Record<string, string>)),
  ].flat() as string[];
}

const timeOf = (id: string): number => parseInt(id, 10);

function parse(text: string): Counted | undefined {
  try {
    const counted = JSON.parse(text) as Counted;
    return Array.isArray(counted.limiters) ? counted : undefined;
  } catch {
    return undefined;
  }
}
