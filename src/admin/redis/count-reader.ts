import { STREAM_LIFE_MS, topKey, type Counted } from '../../stores/redis/operators/traffic.js';
import type { RecentCounts } from '../state.js';
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

  async #serverTime(): Promise<number> {
    const [server] = await this.#calls.servers();
    const [seconds, micros] = (await this.#calls.ask(server!.send(['TIME']))) as [string, string];
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  }
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
