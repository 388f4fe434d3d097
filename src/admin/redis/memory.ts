import { fullInMs, growthOf, memoryOf, type MemorySample } from '../../stores/redis/operators/memory.js';
import type { ServerMemory } from '../state.js';
import type { Calls } from './calls.js';

/** The shortest and the longest time over which the growth is measured, ms. */
const MIN_SPAN_MS = 1000;
const MAX_SPAN_MS = 300_000;

/** The memory of servers, and the growth since earlier readings. */
export class MemoryReader {
  readonly #calls: Calls;
  /** The samples of each server, the oldest first. */
  readonly #samples = new Map<string, MemorySample[]>();

  constructor(calls: Calls) {
    this.#calls = calls;
  }

  async read(): Promise<ServerMemory[]> {
    const servers = await this.#calls.servers();
    const infos = await Promise.all(
      servers.map((server) => this.#calls.ask(server.send(['INFO', 'memory'])).then(String, () => '')),
    );
    return servers.flatMap(({ name }, i) => {
      const sample = memoryOf(infos[i]!, Date.now());
      if (!sample) return [];
      const first = this.#firstBefore(name, sample);
      const growth = first ? growthOf(first, sample) : null;
      const { usedBytes, maxBytes } = sample;
      const server = servers.length > 1 ? name : '';
      return [
        { server, usedBytes, maxBytes, growth, fullInMs: growth === null ? null : fullInMs(sample, growth) },
      ];
    });
  }

  /** The first sample of the last minutes, or `undefined` if all are too new. */
  #firstBefore(server: string, sample: MemorySample): MemorySample | undefined {
    const samples = (this.#samples.get(server) ?? []).filter(({ at }) => at > sample.at - MAX_SPAN_MS);
    const [first] = samples;
    const isNew = samples.length === 0 || sample.at - samples.at(-1)!.at >= MIN_SPAN_MS;
    this.#samples.set(server, isNew ? [...samples, sample] : samples);
    return first && sample.at - first.at >= MIN_SPAN_MS ? first : undefined;
  }
}
