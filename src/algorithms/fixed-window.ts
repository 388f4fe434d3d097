import { toMilliseconds, toText, type Duration } from '../duration.js';
import {
  MOST_COUNTED,
  PairColumn,
  type AlgorithmDefinition,
  type QuotaPolicy,
  type Returned,
} from './algorithm.js';

/** At most `limit` units in a window that starts at a key's first request. Worst case in any window: 2 x limit. */
export interface FixedWindowPolicy extends QuotaPolicy {
  algorithm: 'fixed-window';
  window: Duration;
}

type FixedWindowParams = {
  readonly limit: number;
  readonly window: number;
};

/** A counter and the end of its window. A slot's pair: the end, and what is used. Worst case in any window: 2 x limit. */
class FixedWindowColumn extends PairColumn<FixedWindowParams> {
  /** The window's end, 0 if there is no window. */
  #read(slot: number, p: FixedWindowParams, now: number, writable: boolean): number {
    let stop = this.state[2 * slot]!;
    if (stop <= now) return 0;
    if (stop > now + p.window) {
      stop = now + p.window;
      if (writable) this.state[2 * slot] = stop;
    }
    return stop;
  }

  look(slot: number, p: FixedWindowParams, cost: number, now: number, writable: boolean): void {
    const stop = this.#read(slot, p, now, writable);
    const used = stop === 0 ? 0 : this.state[2 * slot + 1]!;
    this.wait = cost === 0 || used + cost <= p.limit ? 0 : cost > p.limit ? -1 : stop - now;
    this.remaining = Math.max(0, p.limit - used);
    this.reset = stop === 0 ? 0 : stop - now;
  }

  commit(slot: number, p: FixedWindowParams, cost: number, now: number): void {
    if (this.reset === 0) {
      this.state[2 * slot + 1] = cost;
      this.state[2 * slot] = now + p.window;
      this.reset = p.window;
    } else {
      this.state[2 * slot + 1]! += cost;
    }
    this.remaining -= cost;
  }

  adjust(slot: number, p: FixedWindowParams, units: number, now: number, of: Returned | undefined): number {
    let stop = this.#read(slot, p, now, true);
    let used = stop === 0 ? 0 : this.state[2 * slot + 1]!;
    const charged = Math.max(0, Math.min(units, MOST_COUNTED - used));
    if (charged > 0) {
      if (stop === 0) stop = now + p.window;
      used += charged;
    } else if (stop !== 0 && (!of || of.mark === stop)) {
      used = Math.max(0, used + units);
    }
    if (stop !== 0) {
      if (used === 0) stop = 0;
      this.state[2 * slot + 1] = used;
      this.state[2 * slot] = stop;
    }
    this.wait = 0;
    this.remaining = Math.max(0, p.limit - used);
    this.reset = stop === 0 ? 0 : stop - now;
    return charged;
  }

  sibling(slots: number): FixedWindowColumn {
    return new FixedWindowColumn(slots);
  }
}

export const fixedWindow: AlgorithmDefinition<FixedWindowParams, FixedWindowPolicy> = {
  tag: 'f3',
  names: { 'fixed-window': ['window'] },
  holdsSlots: false,
  compile(what, { limit, window: given }) {
    const window = toMilliseconds(`${what}.window`, given);
    return {
      params: { limit, window },
      window,
      shape: toText(window),
      life: window,
      traits: {
        capacity: limit,
        drains: false,
        paceMs: undefined,
        slices: 'until-reset',
        unit: undefined,
        nextUnitMs: (_remaining, resetMs) => resetMs,
      },
    };
  },
  createColumn: (slots) => new FixedWindowColumn(slots),
};
