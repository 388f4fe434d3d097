import {
  fullInMs,
  growthOf,
  memoryOf,
  trendOf,
  type MemorySample,
} from '../../stores/redis/operators/memory.js';
import type { ServerMemory } from '../state.js';
import type { Calls } from './calls.js';
import { OwnBytes } from './own-bytes.js';

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
