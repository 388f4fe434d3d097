import {
  fullInMs,
  growthOf,
  memoryOf,
  trendOf,
  type MemorySample,
} from '../../stores/redis/operators/memory.js';
import { topKey } from '../../stores/redis/operators/count-keys.js';
import type { ServerMemory } from '../state.js';
import type { Calls } from './calls.js';

/** The shortest and the longest time over which the growth is measured, ms. */
const MIN_SPAN_MS = 1000;
const MAX_SPAN_MS = 300_000;

/** The memory of servers, and the growth since earlier readings. */
export class MemoryReader {
  readonly #calls: Calls;
  readonly #own: OwnBytes;
  /** The samples of each server, the oldest first. */
  readonly #samples = new Map<string, readonly MemorySample[]>();

  constructor(calls: Calls) {
    this.#calls = calls;
    this.#own = new OwnBytes(calls);
  }

  async read(): Promise<ServerMemory[]> {
    const servers = await this.#calls.servers();
    const infos = await Promise.all(
      servers.map((server) => this.#calls.ask(server.send(['INFO', 'memory'])).then(String, () => '')),
    );
    const read = servers.map(async (server, i): Promise<ServerMemory[]> => {
      const { name } = server;
      const sample = memoryOf(infos[i]!, Date.now());
      if (!sample) return [];
      const samples = this.#samplesWith(name, sample);
      const [first] = samples;
      const growth = sample.at - first!.at >= MIN_SPAN_MS ? growthOf(first!, sample) : null;
      const trend = trendOf(samples);
      const { usedBytes, maxBytes } = sample;
      return [
        {
          ...{ server: servers.length > 1 ? name : '', usedBytes, maxBytes },
          ownBytes: await this.#own.of(server, sample.at),
          growth,
          fullInMs: trend === null ? null : fullInMs(sample, trend),
        },
      ];
    });
    return (await Promise.all(read)).flat();
  }

  /** The samples of the last minutes, with a new one. */
  #samplesWith(server: string, sample: MemorySample): readonly MemorySample[] {
    const samples = (this.#samples.get(server) ?? []).filter(({ at }) => at > sample.at - MAX_SPAN_MS);
    const isNew = samples.length === 0 || sample.at - samples.at(-1)!.at >= MIN_SPAN_MS;
    this.#samples.set(server, isNew ? [...samples, sample] : samples);
    return [...samples, sample];
  }
}

/** The number of keys of a sample. A server with fewer keys is measured whole, because one large key among few would be met by chance. */
const SAMPLE_SIZE = 512;

/** The time for which a sample is used, ms. */
const SAMPLE_MS = 300_000;

type Server = Awaited<ReturnType<Calls['servers']>>[number];

interface Sample {
  readonly at: number;
  readonly bytes: number | null;
}

/**
 * The bytes of this prefix on each server, estimated from random keys: a search of all keys would cost the server too much. The stream of counts
 * is one large key, so it is measured by itself.
 */
export class OwnBytes {
  readonly #calls: Calls;
  readonly #samples = new Map<string, Sample>();
  /** Whether the server refuses the commands to this user, who is then not asked again. */
  #isRefused = false;

  constructor(calls: Calls) {
    this.#calls = calls;
  }

  /** @returns null if it is unknown */
  async of(server: Server, now: number): Promise<number | null> {
    const last = this.#samples.get(server.name);
    if (last && now >= last.at && now - last.at < SAMPLE_MS) return last.bytes;
    const bytes = this.#isRefused
      ? null
      : await this.#measure(server).catch((error: unknown) => this.#refused(error));
    this.#samples.set(server.name, { at: now, bytes });
    return bytes;
  }

  #refused(error: unknown): null {
    this.#isRefused ||= /NOPERM|unknown command|not (?:supported|permitted)/i.test(String(error));
    return null;
  }

  async #measure(server: Server): Promise<number> {
    const ask = (...words: string[]): Promise<unknown> => this.#calls.ask(server.send(words));
    const { commands, prefix } = this.#calls;
    const counts = commands.keyPrefix + topKey(prefix);
    const bytesOf = async (key: string): Promise<number> => Number((await ask('MEMORY', 'USAGE', key)) ?? 0);
    const all = Number(await ask('DBSIZE'));
    if (all === 0) return 0;
    const isWhole = all <= SAMPLE_SIZE;
    const keys = isWhole
      ? await this.#allKeys(ask)
      : await Promise.all(Array.from({ length: SAMPLE_SIZE }, () => ask('RANDOMKEY')));
    const own = keys
      .map((key) => (typeof key === 'string' ? key : ''))
      .filter((key) => key.startsWith(`${commands.keyPrefix}${prefix}:`) && key !== counts);
    const sizes = await Promise.all(own.map(bytesOf));
    const sampled = sizes.reduce((sum, size) => sum + size, 0) * (isWhole ? 1 : all / SAMPLE_SIZE);
    return Math.round(sampled + (await bytesOf(counts).catch(() => 0)));
  }

  async #allKeys(ask: (...words: string[]) => Promise<unknown>): Promise<unknown[]> {
    const keys = new Set<unknown>();
    let cursor = '0';
    do {
      const [next, found] = (await ask('SCAN', cursor, 'COUNT', String(SAMPLE_SIZE))) as [string, unknown[]];
      for (const key of found) keys.add(key);
      cursor = String(next);
    } while (cursor !== '0');
    return [...keys];
  }
}
