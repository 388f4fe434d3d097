import { costAt } from '../contract/costs.js';
import type { CountedDecision } from '../contract/announcement.js';

/** The number of levels. */
const LEVELS = 16;

/** The most policies of a limiter whose use is counted. */
const MAX_POLICIES = 8;

/**
 * The levels of use, as fractions of a policy's capacity: any use, then half an octave each, up to all of the capacity. A key's use rises
 * through the levels once per window, so the count of a level is the number of keys and windows with at least this use.
 */
export const USE_LEVELS: readonly number[] = Array.from({ length: LEVELS }, (_, i) =>
  i === 0 ? 0 : 2 ** ((i - (LEVELS - 1)) / 2),
);

/** The highest level at or below a use, or -1 without use. */
function levelOf(used: number, capacity: number): number {
  if (used <= 0) return -1;
  const level = Math.floor(LEVELS - 1 + 2 * Math.log2(used / capacity));
  return Math.max(0, Math.min(LEVELS - 1, level));
}

/** Counts how often the use of policies rose to each level. */
export class UseCounts {
  /** By policy. */
  readonly levels = new Map<string, number[]>();

  /** Counts an admission that was charged. */
  add({ policies, set, subject }: CountedDecision): void {
    for (let i = 0; i < policies.length && i < MAX_POLICIES; i++) {
      const { name, remaining } = policies[i]!;
      const { capacity } = set.policies[i]!.traits;
      const used = capacity - remaining;
      const to = levelOf(used, capacity);
      const from = levelOf(used - costAt(subject, i), capacity);
      if (to === from) continue;
      let levels = this.levels.get(name);
      if (!levels) this.levels.set(name, (levels = USE_LEVELS.map(() => 0)));
      for (let level = from + 1; level <= to; level++) levels[level]!++;
    }
  }
}
