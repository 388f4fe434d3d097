import { CROSSINGS_LIFE_MS, type ReadCrossing } from '../../stores/crossings.js';
import { readCrossing, readerKeys, type StreamEntry } from '../../stores/redis/operators/threshold-stream.js';
import { assemble } from '../../stores/redis/scripts.js';
import type { CrossingSource } from '../state.js';
import type { Calls } from './calls.js';

/** Reads crossings of thresholds from their stream. */
export class CrossingReader implements CrossingSource {
  readonly #calls: Calls;

  constructor(calls: Calls) {
    this.#calls = calls;
  }

  async read(group: string, most: number, idle: number): Promise<readonly ReadCrossing[]> {
    const { commands, prefix } = this.#calls;
    const args = ['', String(most), String(idle), String(CROSSINGS_LIFE_MS)];
    const script = assemble('read-crossings', [], false);
    const entries = await this.#calls.run(script, readerKeys(prefix, group), args);
    const head = `${commands.keyPrefix}${prefix}:{`;
    return (entries as StreamEntry[]).map((entry) => readCrossing(entry, head));
  }

  async ack(group: string, ids: readonly string[]): Promise<void> {
    const [, , pending] = readerKeys(this.#calls.prefix, group);
    await this.#calls.call('ZREM', pending, ...ids);
  }
}
