import { inBackground } from '../../../common/background.js';
import { clearTimeout, performance, setTimeout } from '../../../common/real-time.js';
import type { ChargeChange } from '../../../contract/store.js';
import { SWEEPS_PER_HOLD, type HotKey } from './hot-key.js';
import type { Slice } from './slice.js';

/** Returns the rests of slices, after a sweep for slices that have ended or are idle, and before the next call. */
export class SliceRests {
  readonly #giveBack: (rests: readonly ChargeChange[]) => Promise<void>;
  /** The time between two sweeps, ms. */
  readonly #every: number;
  readonly #holding = new Set<HotKey>();
  /** The units that are returned next, with their slices. */
  #rests: [rest: ChargeChange, slice: Slice][] = [];
  #sweeper: NodeJS.Timeout | undefined;

  constructor(giveBack: (rests: readonly ChargeChange[]) => Promise<void>, hold: number) {
    this.#giveBack = giveBack;
    this.#every = hold / SWEEPS_PER_HOLD;
  }

  /** Watches a key that begins to have a slice. */
  watch(hot: HotKey): void {
    this.#holding.add(hot);
    this.#arm();
  }

  add(rest: ChargeChange, slice: Slice): void {
    this.#rests.push([rest, slice]);
    this.#arm();
  }

  #arm(): void {
    this.#sweeper ??= setTimeout(this.#sweep, this.#every).unref();
  }

  readonly #sweep = (): void => {
    this.#sweeper = undefined;
    const now = performance.now();
    for (const hot of this.#holding) if (!hot.sweep(now)) this.#holding.delete(hot);
    void this.send();
    if (this.#holding.size > 0) this.#arm();
  };

  /** Sends the rests. Units that cannot be returned stay charged until they expire. */
  send(): Promise<void> | undefined {
    if (this.#rests.length === 0) return undefined;
    const rests = this.#rests.splice(0).flatMap(([rest, { isLost }]) => (isLost ? [] : rest));
    return inBackground('The units of slices were not given back', this.#giveBack(rests));
  }

  close(): void {
    clearTimeout(this.#sweeper);
    this.#sweeper = undefined;
  }
}
