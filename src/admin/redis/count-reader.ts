import {
  HISTORY_LIFE_MS,
  MINUTE_MS,
  minuteKey,
  namesKey,
  STREAM_LIFE_MS,
  topKey,
} from '../../stores/redis/operators/count-keys.js';
import { minuteOf, type MinuteCounts } from '../../stores/redis/operators/history.js';
import type { Counted } from '../../stores/redis/operators/traffic.js';
import type { MinutesByLimiter, RecentCounts } from '../state.js';
import type { Calls } from './calls.js';

/** The most counts that are read at a time. */
const MAX_COUNTS = 5000;

/** Reads the counts of decisions. Counts that were read before are kept, so that a view of each second reads a second's counts. */
export class CountReader {
  readonly #calls: Calls;
  /** By the id in the stream, the oldest first. */
  readonly #known = new Map<string, { readonly at: number; readonly counted: Counted }>();

  constructor(calls: Calls) {
    this.#calls = calls;
  }

  async read(): Promise<RecentCounts> {
    const now = await this.#serverTime();
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

  /** @param count the number of minutes, with the current one */
  async minutes(count: number, name: string | undefined): Promise<MinutesByLimiter> {
    const { prefix } = this.#calls;
    const now = await this.#serverTime();
    const minutes = Array.from(
      { length: count },
      (_, i) => now - (now % MINUTE_MS) - (count - 1 - i) * MINUTE_MS,
    );
    const since = String(Math.max(minutes[0]!, now - HISTORY_LIFE_MS));
    const all = await this.#calls.call('ZRANGEBYSCORE', namesKey(prefix), since, '+inf');
    const names = (all as string[]).filter((each) => name === undefined || each === name).sort();
    const limiters = new Map<string, MinuteCounts[]>();
    for (const each of names) {
      const hashes = minutes.map((minute) => this.#calls.call('HGETALL', minuteKey(prefix, each, minute)));
      const fields = (await Promise.all(hashes)).map(pairsOf);
      limiters.set(each, fields.map(minuteOf));
    }
    return { minutes, limiters };
  }

  async #serverTime(): Promise<number> {
    const [server] = await this.#calls.servers();
    const [seconds, micros] = (await this.#calls.ask(server!.send(['TIME']))) as [string, string];
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
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
