import { toText } from '../common/duration.js';
import type { AlgorithmDefinition, WindowPolicy } from './algorithm.js';
import { CounterColumn, counterTraits } from './counter.js';
import { FIELD_TABLE } from './fields.js';

/** At most `limit` units in a window that starts at a key's first request. Worst case in any window: 2 x limit. */
export interface FixedWindowPolicy extends WindowPolicy {
  /** Counts from a key's first request to the end of the window. The least work for Redis; up to 2 x `limit` in any window. */
  algorithm: 'fixed-window';
}

type FixedWindowParams = {
  readonly limit: number;
  readonly window: number;
};

class FixedWindowColumn extends CounterColumn<FixedWindowParams> {
  endAt(p: FixedWindowParams, now: number): number {
    return now + p.window;
  }

  sibling(rows: number): FixedWindowColumn {
    return new FixedWindowColumn(rows);
  }
}

export const fixedWindow: AlgorithmDefinition<FixedWindowParams, FixedWindowPolicy> = {
  tag: 'f3',
  names: { 'fixed-window': ['window'] },
  luaParams: { limit: 5, window: 5 },
  compile(what, { limit, window: given }) {
    const window = FIELD_TABLE.window.read(`${what}.window`, given);
    return {
      params: { limit, window },
      window,
      shape: toText(window),
      life: window,
      traits: counterTraits(limit),
    };
  },
  createColumn: (rows) => new FixedWindowColumn(rows),
};
